"""Seeded bugs: the source of one function with one thing changed. Each must be found, or this proves nothing."""

import contextlib
import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new` in a function of a module; the scenario and machine in which that must show."""

    function: str  # its name, and of the path before it as much as tells it from others of that name
    old: str
    new: str
    scenario: str
    options: dict[str, Any] = field(default_factory=dict)
    sampled: bool = False  # the scenario is too large to be exhausted
    runs: int = 1000  # random schedules, if it is sampled

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Put the changed function in the place of the right one, in every module that uses it."""
        owner, right = self._find()
        name, module = right.__name__, sys.modules[right.__module__]
        source = inspect.getsource(right)
        assert source.count(self.old) == 1, f"{self.function} does not have {self.old!r} once"
        filename = f"<{self.function}: {self.new.strip() or 'without ' + self.old.strip()}>"
        text = textwrap.dedent(source.replace(self.old, self.new))
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        scope: dict[str, Any] = {}
        exec(compile(text, filename, "exec"), vars(module), scope)
        loaded = [m for path, m in sys.modules.items() if path.startswith(("shmcoll.", "tests.schedule."))]
        users = [user for user in (owner, *loaded) if vars(user).get(name) is right]
        for user in users:
            setattr(user, name, scope[name])
        try:
            yield
        finally:
            for user in users:
                setattr(user, name, right)

    def _find(self) -> tuple[Any, FunctionType]:
        """Return the function, and the module or class that has it. It may move to another file of the library."""
        *_, name = self.function.split(".")
        modules = [m for path, m in sys.modules.items() if path.startswith("shmcoll.")]
        owners = [*modules, *(kind for m in modules for kind in vars(m).values() if isinstance(kind, type))]
        found = {
            id(right): (owner, right)
            for owner in owners
            if isinstance(right := vars(owner).get(name), FunctionType)
            and right.__module__ == (owner.__module__ if isinstance(owner, type) else owner.__name__)
            and f".{right.__module__}.{right.__qualname__}".endswith(f".{self.function}")
        }
        assert len(found) == 1, f"{len(found)} functions are called {self.function}"
        return next(iter(found.values()))


BUFFERED = {"buffered": True}
REORDERED = {"reordered": True}
KILLS = {"kills": True}

MUTANTS = {
    "no fence in the waiter": Mutant("sleep_until", "        fence()\n", "", "park", BUFFERED),
    "no fence in the poster": Mutant("wait.wake", "    fence()\n", "", "park", BUFFERED),
    "a header is published without a release": Mutant(
        "publish_header",
        "store_release(my_header",
        "store(my_header",
        "all_reduce in place",
        REORDERED,
    ),
    "a step is published without a release": Mutant(
        "publish_step",
        "store_release(",
        "store(",
        "gather of 2 rounds, then all_reduce",
        REORDERED,
        sampled=True,
    ),
    "a piece of a message is published without a release": Mutant(
        "publish_to", "store_release(", "store(", "a message", REORDERED
    ),
    "PARKED is never set": Mutant("sleep_until", "store(mine + layout.PARKED, peer + 1)", "pass", "park"),
    "PARKED names the wrong rank": Mutant("sleep_until", "layout.PARKED, peer + 1)", "layout.PARKED, peer)", "park"),
    "no look before sleeping": Mutant(
        "sleep_until", "status = look(ctx, word, wanted, peer)", "status = c.KEEP_WAITING", "park"
    ),
    "sleeps whatever the look says": Mutant("sleep_until", "if status == c.KEEP_WAITING:", "if True:", "park"),
    "looks before it parks": Mutant(
        "sleep_until",
        "        store(mine + layout.PARKED, peer + 1)\n        fence()\n"
        "        status = look(ctx, word, wanted, peer)\n",
        "        status = look(ctx, word, wanted, peer)\n"
        "        store(mine + layout.PARKED, peer + 1)\n        fence()\n",
        "park",
    ),
    "gives up after one sleep": Mutant("sleep_until", "if now > deadline and not", "if not", "park for two"),
    "takes a ring for the word": Mutant(
        "sleep_until",
        "        if has_come(ctx, word, wanted):\n            if slept",
        "        if True:\n            if slept",
        "barrier, 2 ranks",
    ),
    "wakes rank 0 alone": Mutant("wait.wake", "range(size)", "range(1)", "park in turn"),
    "does not see ABORT": Mutant(
        "wait.look",
        "if load_acquire(peek(ctx + c.GROUP) + layout.ABORT):",
        "if False:",
        "ring, 3 ranks",  # whoever waits for the dead rank itself learns of it from its record
        KILLS,
        sampled=True,
    ),
    "does not see that a peer has returned": Mutant(
        "wait.has_left", "    offset = ", "    return 0\n    offset = ", "a rank returns"
    ),
    "shared arrays are left before all have read them": Mutant(
        "collectives.all_reduce_parts.reduce_in_parts",
        "end_exposure(ctx, turn, 2 * rounds)",
        "c.OK",
        "shared all_reduce",
    ),
    "a part is copied before it is there": Mutant(
        "collectives.all_reduce_parts.collect_parts",
        "await_step(ctx, turn, 2 * k + 1, peer)",
        "c.OK",
        "shared all_reduce",
    ),
    "a part is told of before it is there": Mutant(
        "collectives.all_reduce_parts.reduce_part",
        "    status = fold_slices(",
        "    publish_step(ctx, turn, 2 * k + 1)\n    status = fold_slices(",
        "shared all_reduce",
    ),
    "who has read shared arrays does not look whether they held": Mutant(
        "end_exposure",
        "c.ABORTED if has_ended(ctx) else ",
        "",
        "shared all_reduce, 3 ranks",
        KILLS,
        sampled=True,
    ),
    "outs that overlap go on": Mutant(
        "collectives.all_reduce.reduce_for",
        "if results_fit(ctx)",
        "if True",
        "shared all_reduce, then others",
    ),
    "the opening rings nobody": Mutant("publish_header", "    wake(ctx)\n", "", "barrier, 2 ranks"),
    "the opening forgets the last peer": Mutant(
        "meet_all", "range(1, peek(ctx + c.SIZE))", "range(1, peek(ctx + c.SIZE) - 1)", "barrier, 3 ranks"
    ),
    "waits for the operation before": Mutant(
        "sync.meet",
        "HEADER_SEQUENCE, sequence, peer",
        "HEADER_SEQUENCE, sequence - 1, peer",
        "barrier, 2 ranks",
    ),
    "fingerprints are not compared": Mutant(
        "sync.meet",
        "load(theirs + HEADER_FINGERPRINT) != peek(ctx + c.FINGERPRINT)",
        "False",
        "disagreement",
    ),
    "the composite call is left out of the fingerprint": Mutant(
        "sync.announce",
        "0, reduction, algorithm, 0)",
        "0, reduction, algorithm & 0xFF, 0)",
        "disagreement on the composite call",
    ),
    "leaves at the first mismatch": Mutant("meet_all", "verdict = status", "return status", "disagreement, 3 ranks"),
    "one header for all": Mutant("sync.slot", "(sequence & (HEADERS - 1))", "0", "barrier, 2 ranks"),
    "no rank waits for room": Mutant(
        "keep_slots", "return c.OK\n    sequence", "pass\n    return c.OK\n    sequence", "broadcasts run ahead"
    ),
    "the ring has one slot more": Mutant(
        "keep_slots", "newest + 2 - slots", "newest + 1 - slots", "broadcasts run further ahead"
    ),
    "leaves run ahead of the ring": Mutant(
        "keep_slots", "newest + 2 - slots", "newest + 1 - slots", "gathers run further ahead"
    ),
    "scans run ahead of the ring": Mutant(
        "collectives.prefix_flat.eager", "return keep_last_slot(ctx)", "return c.OK", "scans run further ahead"
    ),
    "a sum is taken before it is there": Mutant(
        "collectives.prefix_flat.eager", "and has_sum(ctx, rank)", "", "scan in place, 3 ranks"
    ),
    "a sum is told before it is there": Mutant(
        "collectives.prefix_flat.add",
        "    if first > 0:\n",
        "    if me > 0 and not is_last:\n        keep_sum(ctx)\n    if first > 0:\n",
        "scan in place, 3 ranks",
    ),
    "a sum of an earlier scan is taken": Mutant(
        "collectives.prefix_flat.eager",
        "        forget_sum(ctx)\n",
        "        pass\n",
        "scans run further ahead, 3 ranks",
        sampled=True,
    ),
    "a header is published before its sum is gone": Mutant(
        "collectives.prefix_flat.eager",
        "        forget_sum(ctx)\n    publish_header(ctx)\n",
        "        publish_header(ctx)\n        forget_sum(ctx)\n    else:\n        publish_header(ctx)\n",
        "scans run further ahead, 3 ranks",
        sampled=True,
    ),
    "eager operations take turns": Mutant(
        "next_turn", "return turn", "return peek(ctx + c.SEQUENCE)", "ahead, then cells"
    ),
    "a rank without an array takes no turn": Mutant(
        "collectives.broadcast.open_with_root",
        "    next_turn(ctx)\n    return",
        "    return",
        "ahead without an array, then cells",
    ),
    "histories are not compared": Mutant("keep_slots", "not is_ahead and", "False and", "each rank is the root"),
    "a header that is written over is compared": Mutant(
        "keep_slots", "not is_ahead and", "True and", "broadcasts run ahead of two roots"
    ),
    "the root publishes before it has a payload": Mutant(
        "collectives.broadcast.open_and_check",
        "        copy(beside_header(ctx, root), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))\n"
        "        publish_header(ctx)\n",
        "        publish_header(ctx)\n"
        "        copy(beside_header(ctx, root), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))\n",
        "broadcasts run ahead",
    ),
    "one cell for all": Mutant("cell_in_share", "((turn + k) & 1)", "1", "all_reduce in cells"),
    "a reader looks for a cell where its own is": Mutant(
        "cell_in_share",
        "(turn * rounds + k) >> 1",
        "peek(ctx + c.RANK)",
        "all_gather of 3 rounds, cells move on",
    ),
    "steps ring nobody": Mutant("publish_step", "    wake(ctx)\n", "", "gather"),
    "steps are one too early": Mutant("await_step", "+ steps,", "+ steps - 1,", "gather"),
    "steps of the operation before count": Mutant(
        "await_step",
        "(turn << STEP_BITS) + steps",
        "steps",
        "gather of 2 rounds, then all_reduce",
    ),
    "PROGRESS is never brought along": Mutant(
        "next_turn", "== 0:", "== 0 and False:", "gather of 2 rounds where PROGRESS wraps"
    ),
    "PROGRESS is brought along too far": Mutant(
        "next_turn", "turn, 0)", "turn, 1)", "gather of 2 rounds where PROGRESS wraps"
    ),
    "payload after the opening": Mutant(
        "collectives.all_reduce.flat",
        "    copy(payload(ctx, peek(ctx + c.RANK), turn, length), peek(ctx + c.X + c.DATA), length)\n"
        "    status = exchange_headers(ctx)\n",
        "    status = exchange_headers(ctx)\n"
        "    copy(payload(ctx, peek(ctx + c.RANK), turn, length), peek(ctx + c.X + c.DATA), length)\n",
        "all_reduce",
    ),
    "the ring adds without waiting": Mutant(
        "collectives.all_reduce_ring.accumulate",
        "await_step(ctx, turn, k * size + t, left)",
        "c.OK",
        "ring, 3 ranks",
        sampled=True,
    ),
    "the ring finishes without waiting": Mutant(
        "collectives.all_reduce_ring.finish",
        "await_step(ctx, turn, (k + 1) * size - 1, peer_before(ctx, 1))",
        "c.OK",
        "ring",
    ),
    "the ring copies out without waiting": Mutant(
        "collectives.all_reduce_ring.collect",
        "await_step(ctx, turn, (k + 1) * size, peer_after(ctx, i))",
        "c.OK",
        "ring",
    ),
    "the ring copies out one step early": Mutant(
        "collectives.all_reduce_ring.collect", "(k + 1) * size", "(k + 1) * size - 1", "ring"
    ),
    "the ring ends in the next operation's cell": Mutant(
        "collectives.all_reduce_ring.slice_cell",
        "rounds - 1 - k",
        "k",
        "ring, 3 ranks",
        sampled=True,
    ),
    "the ring has one cell": Mutant(
        "collectives.all_reduce_ring.slice_cell",
        "rounds - 1 - k",
        "0",
        "ring, 3 ranks",
        sampled=True,
    ),
    "parts are reduced before they are laid": Mutant(
        "collectives.all_reduce_parts.reduce_part",
        "publish_and_await_step(ctx, turn, 2 * k)",
        "publish_step(ctx, turn, 2 * k) or c.OK",
        "ordered all_reduce",
    ),
    "parts are collected before they are reduced": Mutant(
        "collectives.all_reduce_parts.collect_parts",
        "await_step(ctx, turn, 2 * k + 1, peer)",
        "c.OK",
        "ordered all_reduce",
    ),
    "the root of the ring does not wait": Mutant(
        "collectives.all_reduce_ring.collect",
        "await_step(ctx, turn, (k + 1) * size, peer_after(ctx, i))",
        "c.OK",
        "reduce by the ring",
    ),
    "the root of the ring takes slices one step early": Mutant(
        "collectives.all_reduce_ring.collect", "(k + 1) * size, peer", "(k + 1) * size - 1, peer", "reduce by the ring"
    ),
    "the ring to the root has one cell": Mutant(
        "collectives.all_reduce_ring.slice_cell",
        "rounds - 1 - k",
        "0",
        "reduce by the ring, 3 ranks",
        sampled=True,
    ),
    "the ring to the root ends in the next operation's cell": Mutant(
        "collectives.all_reduce_ring.slice_cell",
        "rounds - 1 - k",
        "rounds - k",
        "reduce by the ring, 3 ranks",
        sampled=True,
    ),
    "the root says that it has collected before it has": Mutant(
        "collectives.all_reduce_ring.finish",
        "publish_step(ctx, turn, (k + 1) * size)",
        "publish_step(ctx, turn, (k + 1) * size + 1)",
        "reduce by the ring, 3 ranks",
        sampled=True,
    ),
    "blocks pass on without waiting": Mutant(
        "collectives.reduce_scatter.ring_round",
        "await_step(ctx, turn, k * size + t, left)",
        "c.OK",
        "reduce_scatter by the ring",
    ),
    "the ring of blocks has one cell": Mutant(
        "collectives.reduce_scatter.ring_round",
        "rounds - 1 - k",
        "0",
        "reduce_scatter by the ring",
    ),
    "the ring of blocks ends in the next operation's cell": Mutant(
        "collectives.reduce_scatter.ring_round", "rounds - 1 - k", "rounds - k", "reduce_scatter by the ring"
    ),
    "pieces are reduced before they are laid": Mutant(
        "collectives.reduce_scatter.stage_next",
        "publish_and_await_step(ctx, turn, k)",
        "publish_step(ctx, turn, k) or c.OK",
        "ordered reduce_scatter",
    ),
    "the pieces' cells are released too early": Mutant(
        "collectives.reduce_scatter.cells",
        "release_cells(ctx, turn, rounds, rounds)",
        "c.OK",
        "ordered reduce_scatter of 2 rounds",
    ),
    "the chain does not wait for the rank before": Mutant(
        "collectives.prefix_reduction.await_slice", "i + 1, me - 1", "i, me - 1", "chain"
    ),
    "the chain does not wait for a free slot": Mutant(
        "collectives.prefix_reduction.await_slice", "if i < 2 * size:", "if True:", "chain"
    ),
    "the chain waits for one slice less": Mutant(
        "collectives.prefix_reduction.await_slice", "i - 2 * size + 1", "i - 2 * size", "chain"
    ),
    "the chain lies in the next operation's cells": Mutant(
        "collectives.prefix_reduction.slot", "turn, 2 * filling, 1", "turn, 1 + 2 * filling, 1", "chain of exscan"
    ),
    "a slice is passed on before it is kept": Mutant(
        "collectives.prefix_reduction.add_and_copy",
        "    return reduce(ctx, STORE",
        "    publish_step(ctx, peek(ctx + c.TURN), i + 1)\n    return reduce(ctx, STORE",
        "chain, 3 ranks",
        sampled=True,
    ),
    "a rank that waits for all forgets the last": Mutant(
        "await_all",
        "range(1, peek(ctx + c.SIZE))",
        "range(1, peek(ctx + c.SIZE) - 1)",
        "ordered reduce_scatter, 3 ranks",
        sampled=True,
    ),
    "shapes that differ go unseen beside a rank without an array": Mutant(
        "collectives.broadcast.describes_call_of", "return False", "return True", "broadcast refused"
    ),
    "a rank without an array is taken for one that disagrees": Mutant(
        "collectives.broadcast.compare_headers",
        "        return c.OK\n",
        "        return c.MISMATCH\n",
        "broadcast with and without an array",
    ),
    "only the rank itself judges its out": Mutant(
        "collectives.scatter.check_all",
        "range(peek(ctx + c.SIZE))",
        "range(peek(ctx + c.RANK), peek(ctx + c.RANK) + 1)",
        "scatter refused",
    ),
    "shapes are not compared": Mutant(
        "collectives.scatter.fits",
        "dimension(ctx, rank, i) != dimension(ctx, root, i)",
        "False",
        "scatter refused",
    ),
    "the root describes all parts": Mutant(
        "collectives.scatter.describe",
        "peek(peek(ctx + c.X + c.DIMS)) // size",
        "peek(peek(ctx + c.X + c.DIMS))",
        "scatter halfway",
    ),
    "a reader of a row takes as much as it has room for": Mutant(
        "collectives.scatter.has_room_for_row", "poke(ctx + c.OUT + c.BYTES, length)", "pass", "rows ahead, then cells"
    ),
    "a row is longer than the room for it": Mutant(
        "collectives.scatter.has_room_for_row",
        "if not 0 < length <= peek(ctx + c.OUT + c.BYTES)",
        "if length <= 0",
        "a row without room",
    ),
    "a broadcast of a row asks for no room": Mutant(
        "collectives.broadcast.broadcast",
        "is_reader and not has_room_for_row(ctx, root)",
        "False",
        "rows ahead, then cells",
    ),
}
