"""Seeded bugs of arrays that peers read where they are."""

from tests.schedule.explorer.mutants import Mutant

SIGNAL = {"signals": 1}

MUTANTS_EXPOSING = {
    "a rank leaves before its exposed array has been read": Mutant(
        "end_exposure",
        "publish_and_await_step(ctx, sequence, steps)",
        "c.OK",
        "exposed all_gather",
    ),
    "a root leaves before its exposed array has been read": Mutant(
        "collectives.broadcast.send", "await_all(ctx, sequence, 1) if", "c.OK if", "exposed broadcast"
    ),
    "a sender leaves before its exposed array has been read": Mutant(
        "collectives.gather.gather", "await_step(ctx, sequence, 1, root)", "c.OK", "exposed gather"
    ),
    "a root of a scatter leaves before its parts have been read": Mutant(
        "collectives.scatter.send", "return await_all(ctx, sequence, 1)", "return c.OK", "exposed scatter"
    ),
    "a sender of a permute leaves before its array has been read": Mutant(
        "collectives.collective_permute.move",
        "steps if exposes else steps & -2",
        "0 if exposes else steps & -2",
        "exposed permute",
    ),
    "a reader does not look whether the root has left": Mutant(
        "finish_reading",
        "has_ended(ctx)",
        "False",
        "a handler raises at the root of an exposed broadcast",
        SIGNAL,
    ),
    "a rank publishes that it has read before it reads": Mutant(
        "collectives.broadcast.receive",
        "        status = read_exposed(",
        "        publish_step(ctx, sequence, 1)\n        status = read_exposed(",
        "exposed broadcast",
    ),
    "a rank leaves before its array has been reduced": Mutant(
        "collectives.reduce_scatter.shared", "end_exposure(ctx, sequence, 1) if", "c.OK if", "shared reduce_scatter"
    ),
    "a rank leaves before its array is part of a scan": Mutant(
        "collectives.prefix_reduction.direct", "end_exposure(ctx, sequence, 1) if", "c.OK if", "shared scan"
    ),
    "a rank leaves before its part of a reduce has been read": Mutant(
        "collectives.reduce_shared.reduce_shared", "end_exposure(ctx, sequence, rounds + 1)", "c.OK", "shared reduce"
    ),
    "a rank fills a cell that the root still reads": Mutant(
        "collectives.reduce_shared.reduce_part",
        "if k >= 2:",
        "if False:",
        "shared reduce of 3 rounds",
        sampled=True,
    ),
    "a root replaces elements that another rank still reads": Mutant(
        "collectives.reduce_shared.collect_parts",
        "await_step(ctx, sequence, k + 1, peer)",
        "c.OK",
        "shared reduce",
    ),
    "a scan reads an array that its rank replaces": Mutant(
        "collectives.prefix_reduction.prefix_reduce",
        "not has_result or not works_in_place(ctx)",
        "True",
        "shared scan in place, 3 ranks",
        sampled=True,
    ),
    "a rank that exposes does not make the steps of the others": Mutant(
        "collectives.all_gather.fetch",
        "    if k > 0:\n",
        "    if k > 0 and False:\n",
        "exposed by one of two, all_gather",
    ),
}
