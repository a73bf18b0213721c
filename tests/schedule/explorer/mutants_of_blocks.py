"""Seeded bugs of the mover of blocks, each in the patterns of calls that show it."""

from tests.schedule.explorer.mutants import Mutant

MOVER = "engine.protocol.block_mover."
SIGNAL = {"signals": 1}
STAGE = "            status = c.OK if exposes else stage(ctx, turn, k)\n"
CHECK = "            if status != c.OK:\n                return status\n"
PUBLISH = "            publish_step(ctx, turn, k)\n"

# bug: function, old, new, scenarios
BUGS = {
    "a sender does not wait for its readers": (
        "stage", "if k > 1:", "if False:",
        (
            "gather",
            "broadcast of 4 rounds, then all_reduce",
            "scatter",
            "gather_v",
            "scatter_v",
            "chain of permute of 4 rounds",
        ),
    ),
    "a sender waits for one round less": (
        "stage", "k - 1, peer", "k - 2, peer",
        (
            "gather",
            "broadcast of 4 rounds, then all_reduce",
            "scatter",
            "gather_v",
            "scatter_v",
            "chain of permute of 4 rounds",
        ),
    ),
    "a reader does not wait": (
        "read_source", "await_step(ctx, turn, k, peer)", "c.OK",
        ("gather", "broadcast", "scatter", "all_gather of 3 rounds", "all_to_all", "all_to_all_v", "permute"),
    ),
    "all parts are staged in one cell": (
        "part_cell", "turn, k, parts_of", "turn, 0, parts_of", ("all_gather of 3 rounds", "all_to_all_v")
    ),
    "a part is published before it is staged": (
        "move_all", STAGE + CHECK + PUBLISH, PUBLISH + STAGE + CHECK,
        ("all_to_all", "all_gather of 3 rounds", "all_gather_v", "gather_v"),
    ),
    "a step says that a part is read that is not": (
        "move_all", "turn, k)\n        ready", "turn, k + 1)\n        ready",
        ("permute", "all_gather of 3 rounds"),
    ),
    "a reader says that it has read before it has": (
        "move_all",
        "        for i in range(1",
        "        publish_step(ctx, turn, LAST)\n        for i in range(1",
        (
            "broadcast",
            "gather of 2 rounds, then all_reduce",
            "scatter_v of 2 rounds, then all_reduce",
            "exposed broadcast",
        ),
    ),
    "a sender leaves its cell in use": (
        "await_readers", "parts_of(ctx, length) & -2", "0",
        (
            "gather of 2 rounds, then all_reduce",
            "all_gather of 2 rounds, then all_reduce",
            "scatter of 2 rounds, then all_reduce",
            "broadcast of 4 rounds, then all_reduce",
            "permute of 2 rounds, then all_reduce",
            "gather_v of 2 rounds, then all_reduce",
            "scatter_v of 2 rounds, then all_reduce",
            "all_gather_v of 2 rounds, then all_reduce",
        ),
    ),
    "a sender of odd rounds leaves its cell in use": (
        "await_readers", "parts_of(ctx, length) & -2", "0 if parts_of(ctx, length) & 1 else parts_of(ctx, length)",
        ("chain of permute, then all_reduce",),
    ),
    "a rank leaves before its exposed array has been read": (
        "await_readers", "steps > 0 or (exposes and length > 0)", "steps > 0 and not exposes",
        ("exposed all_gather", "exposed broadcast", "exposed gather", "exposed scatter", "exposed permute"),
    ),
    "an exposed array replaces what is to be staged": (
        "read_source", "if is_last else", "if k == 0 else", ("exposed by one of two, permute in place",)
    ),
}  # fmt: skip

MUTANTS_OF_BLOCKS = {
    f"{bug}: {scenario}": Mutant(MOVER + function, old, new, scenario)
    for bug, (function, old, new, scenarios) in BUGS.items()
    for scenario in scenarios
} | {
    "a sender forgets its last reader": Mutant(
        MOVER + "await_readers",
        "range(1, peek(ctx + c.SIZE))",
        "range(1, peek(ctx + c.SIZE) - 1)",
        "broadcast, 3 ranks",
        sampled=True,
    ),
    "a reader does not look whether the root has left": Mutant(
        MOVER + "move_all",
        "has_ended(ctx)",
        "False",
        "a handler raises at the root of an exposed broadcast",
        SIGNAL,
    ),
}
