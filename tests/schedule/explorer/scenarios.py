"""Small jobs to explore, by name.

Sizes: cells of 256 bytes, so that 32 words are a cell, and with three ranks 16 words a receiver's share of it; arrays
of up to 6 words travel beside the header. Slices of the ring are 4 words.
"""

from dataclasses import dataclass, field
from typing import Any

from shmcoll.collectives.collective_permute import NOBODY
from shmcoll.engine.layout import ANY
from shmcoll.engine.memory import records
from shmcoll.engine.messages.ring_buffers import AWAITED
from tests.schedule.explorer.calls import (
    AllReduce,
    AllToAll,
    Await,
    Barrier,
    Call,
    Disagree,
    DisagreeOnComposite,
    End,
    Gather,
    Post,
)
from tests.schedule.explorer.calls_ahead import BroadcastOfEach
from tests.schedule.explorer.calls_exposing import IN_ARENA, Exposing
from tests.schedule.explorer.calls_in_circles import (
    BarrierInCircle,
    BarrierLooking,
    ReceiveAsleep,
    ReceiveInCircle,
    ReceiveLooking,
)
from tests.schedule.explorer.calls_in_phases import (
    AwaitInVain,
    BarrierApart,
    ReceiveNew,
    ReceiveOrWithdraw,
    SendBesidePosted,
)
from tests.schedule.explorer.calls_moving import AllGather, AllToAllOfLists, Broadcast, Scatter
from tests.schedule.explorer.calls_of_holds import ShareResult
from tests.schedule.explorer.calls_of_locks import Lock
from tests.schedule.explorer.calls_of_messages import (
    Find,
    Look,
    Receive,
    ReceiveObject,
    ReceivePosted,
    ReceiveShort,
    ReceiveSoon,
    Send,
    SendInVain,
    SendObject,
    SendRecv,
    SendSynchronously,
    SendWithoutMemory,
)
from tests.schedule.explorer.calls_of_neighbours import Exchange, Permute
from tests.schedule.explorer.calls_of_profiles import ReadSpans, WriteSpans
from tests.schedule.explorer.calls_of_rows import Row
from tests.schedule.explorer.calls_of_teams import Help, ShareWork
from tests.schedule.explorer.calls_of_threads import GiveWay, ReceiveBeside
from tests.schedule.explorer.calls_reducing import AllReduceShared, Exscan, Reduce, ReduceScatter, Scan
from tests.schedule.explorer.calls_storing import ReceiveWhole, Store
from tests.schedule.explorer.calls_with_counts import all_gather_v, all_to_all_v, gather_v, scatter_v
from tests.schedule.explorer.events import NUMBER, Aborts, Calls, Cancels, Event, KeepsGil, Raises
from tests.schedule.explorer.job import Job
from tests.schedule.explorer.machine import Machine


@dataclass(frozen=True)
class Scenario:
    """`calls` of every rank, or one tuple of calls a rank when `each`."""

    ranks: int
    calls: tuple[Any, ...]
    each: bool = False
    words: int = 16
    settings: dict[str, int] = field(default_factory=dict)
    events: tuple[Event | None, ...] = ()  # what may meet each rank

    def machine(self, **options: Any) -> Machine:
        """Call it while `stand_ins.exploring()`; options: see `Machine`."""
        return Job(self.ranks, self.calls_of, self.events, words=self.words, **self.settings).machine(**options)

    def calls_of(self, rank: int) -> list[Call]:
        return list(self.calls[rank] if self.each else self.calls)


BARRIER = Barrier()
INLINE = AllReduce(2)
IN_CELL = AllReduce(8)
EXPOSING = {"exposing": 64}
SPIN = {"polls": 1, "yields": 1}
WINDOWS = {"window_bytes": 640}  # cells of up to 256 bytes move on in them
RING = {"flat_bytes": 64, "slice_bytes": 32}
RING_OF_3 = RING | {"flat_bytes": 96}  # IN_CELL is flat with 3 ranks, too
UNEVEN = all_to_all_v(((3, 40), (2, 1)))

SCENARIOS = {
    "park": Scenario(2, ((Await(1), Await(1)), (Post(), Post())), each=True),
    "park after polling": Scenario(2, ((Await(1), Await(1)), (Post(), Post())), each=True, settings=SPIN),
    "park in turn": Scenario(2, ((Await(1), Post(), Await(1)), (Post(), Await(0), Post())), each=True),
    "park for two": Scenario(3, ((Await(1), Await(2)), (Post(),), (Post(), Post())), each=True),
    "barrier, 2 ranks": Scenario(2, (BARRIER,) * 3),
    "barrier after polling": Scenario(2, (BARRIER,) * 2, settings=SPIN),
    "barrier, 3 ranks": Scenario(3, (BARRIER,)),
    "barrier after polling, 3 ranks": Scenario(3, (BARRIER,) * 2, settings=SPIN),  # who polls has another order
    "two barriers, 3 ranks": Scenario(3, (BARRIER,) * 2),
    "disagreement": Scenario(2, (Disagree(),)),
    "disagreement, 3 ranks": Scenario(3, (Disagree(),)),
    "disagreement on the composite call": Scenario(2, (DisagreeOnComposite(),)),
    "parts of a composite call": Scenario(2, (AllReduce(2, composite=5), AllReduce(8, composite=5), INLINE)),
    "all_reduce": Scenario(2, (INLINE,) * 3),
    "all_reduce in place": Scenario(2, (AllReduce(2, in_place=True),) * 2),
    "all_reduce in cells": Scenario(2, (IN_CELL,) * 3),
    "all_reduce, 3 ranks": Scenario(3, (INLINE,)),
    "all_reduce in cells, 3 ranks": Scenario(3, (IN_CELL,)),
    "ring": Scenario(2, (AllReduce(16),), settings=RING),
    "ring, then flat": Scenario(2, (AllReduce(16), IN_CELL), settings=RING),
    "two rings": Scenario(2, (AllReduce(20), AllReduce(16, in_place=True)), words=20, settings=RING),
    "exposed all_gather": Scenario(2, (Exposing(AllGather(10)), Exposing(AllGather(10), IN_ARENA)), settings=EXPOSING),
    "exposed by one of two, all_gather": Scenario(
        2, (Exposing(AllGather(40), ranks=(1,)), IN_CELL), words=80, settings=EXPOSING
    ),
    "exposed all_gather, 3 ranks": Scenario(3, (Exposing(AllGather(10), ranks=(0, 2)),), words=30, settings=EXPOSING),
    "exposed broadcast": Scenario(
        2, (Exposing(Broadcast(10), ranks=(0,)), Exposing(Broadcast(10, root=1), IN_ARENA, (1,))), settings=EXPOSING
    ),
    "exposed broadcast, 3 ranks": Scenario(3, (Exposing(Broadcast(10, root=1), ranks=(1,)),), settings=EXPOSING),
    "exposed broadcast to a rank without an array": Scenario(
        2, (Exposing(Broadcast(10, without=(1,)), ranks=(0,)), IN_CELL), settings=EXPOSING
    ),
    "exposed gather": Scenario(
        2, (Exposing(Gather(10), IN_ARENA), Exposing(Gather(10, root=1))), words=20, settings=EXPOSING
    ),
    "exposed by one of two senders, gather": Scenario(
        3, (Exposing(Gather(40), IN_ARENA, (1,)),), words=120, settings=EXPOSING
    ),
    "exposed scatter": Scenario(
        2,
        (Exposing(Scatter(10), ranks=(0,)), Exposing(Scatter(10, root=1, halfway=True), IN_ARENA, (1,))),
        words=20,
        settings=EXPOSING,
    ),
    "exposed all_to_all": Scenario(
        2, (Exposing(AllToAll(10)), Exposing(AllToAll(10), ranks=(0,))), words=20, settings=EXPOSING
    ),
    "exposed by one of two, all_to_all": Scenario(
        2, (Exposing(AllToAll(20), IN_ARENA, (1,)), IN_CELL), words=40, settings=EXPOSING
    ),
    "exposed permute": Scenario(
        2, (Exposing(Permute(10, (1, 0))), Exposing(Permute(40, (1, 0)), ranks=(0,))), words=40, settings=EXPOSING
    ),
    "exposed by one of two, permute in place": Scenario(
        2, (Exposing(Permute(40, (1, 0), alone=1), ranks=(0,)), IN_CELL), words=40, settings=EXPOSING
    ),
    "exposed permute, one way": Scenario(3, (Exposing(Permute(10, (1, 2, NOBODY))),), settings=EXPOSING),
    "exposed all_gather_v": Scenario(2, (Exposing(all_gather_v((9, 40))),), words=49, settings=EXPOSING),
    "exposed by one of two, all_gather_v": Scenario(
        2, (Exposing(all_gather_v((9, 40)), ranks=(0,)), IN_CELL), words=49, settings=EXPOSING
    ),
    "exposed all_to_all_v": Scenario(2, (Exposing(all_to_all_v(((3, 20), (9, 12)))),), words=32, settings=EXPOSING),
    "exposed gather_v": Scenario(3, (Exposing(gather_v((9, 40, 35), 0), IN_ARENA, (2,)),), words=90, settings=EXPOSING),
    "exposed scatter_v": Scenario(
        2, (Exposing(scatter_v((9, 40), 0), ranks=(0,)), IN_CELL), words=49, settings=EXPOSING
    ),
    "witness": Scenario(2, (Exposing(AllGather(10)),) * 2, settings=EXPOSING | {"readable": 0}),
    "shared all_reduce": Scenario(2, (AllReduceShared(10, in_place=True), AllReduceShared(10)), settings=RING),
    "shared all_reduce, then others": Scenario(
        2, (AllReduceShared(10, private=1), AllReduceShared(10, overlap=True), INLINE), settings=RING
    ),
    "shared all_reduce, 3 ranks": Scenario(3, (AllReduceShared(10, in_place=True),), settings=RING),
    "shared reduce": Scenario(
        2, (Exposing(Reduce(words=20, root=1, in_place=True), IN_ARENA),), words=20, settings=RING
    ),
    "shared reduce of 3 rounds": Scenario(
        2, (Exposing(Reduce(words=140), IN_ARENA), IN_CELL), words=140, settings=RING
    ),
    "shared reduce, 3 ranks": Scenario(
        3, (Exposing(Reduce(words=40, root=1), IN_ARENA), IN_CELL), words=40, settings=RING_OF_3
    ),
    "shared reduce_scatter": Scenario(2, (Exposing(ReduceScatter(words=12), IN_ARENA),), words=24, settings=RING),
    "shared reduce_scatter, 3 ranks": Scenario(
        3, (Exposing(ReduceScatter(words=12), IN_ARENA), IN_CELL), words=36, settings=RING_OF_3
    ),
    "shared scan": Scenario(2, (Exposing(Scan(words=20), IN_ARENA),), words=20, settings=RING),
    "shared scan in place, 3 ranks": Scenario(
        3, (Exposing(Scan(words=20, in_place=True), IN_ARENA),), words=20, settings=RING_OF_3
    ),
    "shared exscan, 3 ranks": Scenario(
        3, (Exposing(Exscan(words=20), IN_ARENA), IN_CELL), words=20, settings=RING_OF_3
    ),
    "scans of shared and of private arrays": Scenario(
        2, (Exposing(Scan(words=20), IN_ARENA, (1,)), Exposing(Exscan(words=20), IN_ARENA)), words=20, settings=RING
    ),
    "ring, 3 ranks": Scenario(3, (AllReduce(20), IN_CELL), words=20, settings=RING_OF_3),
    "ordered all_reduce": Scenario(2, (AllReduce(40, ordered=True), IN_CELL), words=40),
    "reduce": Scenario(2, (Reduce(), Reduce(root=1, in_place=True))),
    "reduce by the ring": Scenario(2, (Reduce(words=20, root=1),), words=20, settings=RING),
    "reduce by the ring, 3 ranks": Scenario(3, (Reduce(words=40, root=1), IN_CELL), words=40, settings=RING_OF_3),
    "ordered reduce": Scenario(2, (Reduce(words=70, ordered=True), IN_CELL), words=70),
    "ordered reduce, 3 ranks": Scenario(3, (Reduce(words=40, root=2, ordered=True), IN_CELL), words=40),
    "reduce_scatter": Scenario(2, (ReduceScatter(), ReduceScatter(in_place=True))),
    "reduce_scatter by the ring": Scenario(2, (ReduceScatter(words=12), IN_CELL), words=24, settings=RING),
    "reduce_scatter by the ring, 3 ranks": Scenario(
        3, (ReduceScatter(words=12, in_place=True), IN_CELL), words=36, settings=RING_OF_3
    ),
    "reduce_scatter_v": Scenario(3, (ReduceScatter(counts=(5, 0, 12)), IN_CELL), words=17, settings=RING_OF_3),
    "ordered reduce_scatter": Scenario(2, (ReduceScatter(words=40, ordered=True),), words=80),
    "ordered reduce_scatter of 2 rounds": Scenario(2, (ReduceScatter(words=20, ordered=True), IN_CELL), words=40),
    "ordered reduce_scatter, 3 ranks": Scenario(
        3, (ReduceScatter(words=20, ordered=True), IN_CELL), words=60, settings={"cell_bytes": 384}
    ),
    "scan": Scenario(2, (Scan(), Exscan(), Scan(in_place=True))),
    "scan, 3 ranks": Scenario(3, (Exscan(),)),
    "chain": Scenario(2, (Scan(words=24), IN_CELL), words=24, settings=RING),
    "chain of exscan": Scenario(2, (Exscan(words=20), IN_CELL), words=20, settings=RING),
    "chain, 3 ranks": Scenario(3, (Scan(words=32, in_place=True), IN_CELL), words=32, settings=RING_OF_3),
    "chain of exscan, 3 ranks": Scenario(3, (Exscan(words=32, in_place=True), IN_CELL), words=32, settings=RING_OF_3),
    "gather": Scenario(2, (Gather(100), Gather(8, root=1)), words=200),
    "gather of 2 rounds, then all_reduce": Scenario(2, (Gather(40), IN_CELL), words=80),
    "gather of 2 rounds where PROGRESS wraps": Scenario(
        2, (BARRIER, Gather(40), IN_CELL), words=80, settings={"sequence": (1 << 39) - 2}
    ),
    "gather, 3 ranks": Scenario(3, (Gather(70, root=1), IN_CELL), words=210),
    "all_to_all": Scenario(2, (AllToAll(70), AllToAll(8)), words=140),
    "all_to_all of 2 rounds": Scenario(2, (AllToAll(40), AllToAll(8)), words=80),
    "all_to_all, 3 ranks": Scenario(3, (AllToAll(20), AllToAll(8)), words=60, settings={"cell_bytes": 384}),
    "all_to_all_v": Scenario(2, (UNEVEN,), words=80),
    "all_to_all_v, cells move on": Scenario(2, (UNEVEN, UNEVEN), words=80, settings=WINDOWS),
    "scatter_v of 3 ranks, cells move on": Scenario(
        3, (scatter_v((40, 2, 20), root=1, halfway=True), IN_CELL), words=62, settings={"cell_bytes": 256} | WINDOWS
    ),
    "chain, cells move on": Scenario(2, (Scan(words=24), IN_CELL), words=24, settings=RING | WINDOWS),
    "all_to_all_v, then another": Scenario(2, (all_to_all_v(((1, 2), (3, 1))), all_to_all_v(((1, 3), (2, 1))))),
    "all_to_all_v refused": Scenario(
        2, (all_to_all_v(((3, 4), (2, 1)), room=4), all_to_all_v(((1, 3), (2, 1)))), words=80
    ),
    "all_to_all_v, 3 ranks": Scenario(
        3, (all_to_all_v(((1, 20, 0), (3, 1, 2), (0, 1, 1))), IN_CELL), words=60, settings={"cell_bytes": 384}
    ),
    "gather_v": Scenario(2, (gather_v((5, 100), root=0), gather_v((8, 3), root=1, halfway=True)), words=105),
    "gather_v of 2 rounds, then all_reduce": Scenario(2, (gather_v((40, 3), root=1), IN_CELL), words=43),
    "gather_v refused": Scenario(2, (gather_v((3, 40), root=0, room=42), gather_v((3, 2), root=0)), words=43),
    "gather_v, 3 ranks": Scenario(3, (gather_v((70, 2, 40), root=1, halfway=True), IN_CELL), words=112),
    "gather_v, one sender is done early": Scenario(3, (gather_v((0, 100, 3), root=0), IN_CELL), words=103),
    "scatter_v": Scenario(2, (scatter_v((5, 100), root=0), scatter_v((8, 3), root=1, halfway=True)), words=105),
    "scatter_v of 2 rounds, then all_reduce": Scenario(2, (scatter_v((40, 3), root=1), IN_CELL), words=43),
    "scatter_v refused": Scenario(2, (scatter_v((3, 40), root=0, room=39), scatter_v((3, 2), root=0)), words=43),
    "scatter_v, 3 ranks": Scenario(
        3, (scatter_v((40, 2, 20), root=1, halfway=True), IN_CELL), words=62, settings={"cell_bytes": 256}
    ),
    "scatter_v, one receiver is done early": Scenario(3, (scatter_v((0, 60, 3), root=0), IN_CELL), words=63),
    "all_gather_v": Scenario(2, (all_gather_v((70, 3)), all_gather_v((2, 8), halfway=True)), words=73),
    "all_gather_v of 2 rounds, then all_reduce": Scenario(2, (all_gather_v((40, 3)), IN_CELL), words=43),
    "all_gather_v refused": Scenario(2, (all_gather_v((3, 40), room=42), all_gather_v((3, 2))), words=43),
    "all_gather_v, 3 ranks": Scenario(3, (all_gather_v((40, 0, 3), halfway=True), IN_CELL), words=43),
    "broadcast": Scenario(2, (Broadcast(40), Broadcast(2, root=1)), words=40),
    "broadcast of 4 rounds, then all_reduce": Scenario(2, (Broadcast(100), IN_CELL), words=100),
    "broadcast, 3 ranks": Scenario(3, (Broadcast(70, root=1), IN_CELL), words=70),
    "broadcast of 4 rounds, 3 ranks": Scenario(3, (Broadcast(100, root=2), IN_CELL), words=100),
    "broadcast without an array": Scenario(
        2, (Broadcast(40, without=(1,)), Broadcast(2, root=1, without=(0,))), words=40
    ),
    "broadcast of 4 rounds without an array": Scenario(2, (Broadcast(100, without=(1,)), IN_CELL), words=100),
    "broadcast with and without an array": Scenario(3, (Broadcast(40, root=1, without=(2,)), IN_CELL), words=40),
    "broadcasts run ahead": Scenario(2, (Broadcast(1),) * 5),
    "broadcasts run further ahead": Scenario(2, (Broadcast(1),) * 6),
    "gathers run further ahead": Scenario(2, (Gather(1),) * 6),
    "broadcasts run ahead of two roots": Scenario(2, (Broadcast(1),) * 3 + (Broadcast(1, root=1),) * 2),
    "broadcasts run ahead, 3 ranks": Scenario(3, (Broadcast(1),) * 6),
    "gathers run ahead": Scenario(2, (Gather(1),) * 5),
    "gathers run ahead, 3 ranks": Scenario(3, (Gather(1, root=1),) * 5),
    "scan in place, 3 ranks": Scenario(3, (Scan(in_place=True),)),
    "scan without room for sums, 3 ranks": Scenario(3, (Scan(words=4),)),
    "scans run further ahead": Scenario(2, (Scan(words=1),) * 6),
    "scans run further ahead, 3 ranks": Scenario(3, (Scan(words=1),) * 6),
    "roots take turns": Scenario(
        2, (Broadcast(1), Reduce(root=1), Scatter(1, root=1), Gather(1), Scan(), Broadcast(2))
    ),
    "roots take turns, 3 ranks": Scenario(3, (Broadcast(1), Gather(1), Exscan(), Scatter(1, root=2), Reduce(root=1))),
    "ahead, then cells": Scenario(2, (IN_CELL, Broadcast(1), IN_CELL, Gather(1), IN_CELL)),
    "ahead without an array, then cells": Scenario(
        2, (Broadcast(1, without=(1,)), Broadcast(8, without=(1,)), Broadcast(1, without=(1,)), IN_CELL)
    ),
    "ahead without a part, then cells": Scenario(
        2, (Scatter(1, halfway=True), Scatter(8, halfway=True), Scatter(1, halfway=True), IN_CELL)
    ),
    "each rank is the root": Scenario(2, (BroadcastOfEach(),)),
    "each rank is the root, 3 ranks": Scenario(3, (BroadcastOfEach(),)),
    "rows ahead, then cells": Scenario(
        2, (Row(1), Row(3), Row(1, parts=True), Row(9), Row(9, parts=True), Row(1, root=1), IN_CELL), words=24
    ),
    "rows, 3 ranks": Scenario(3, (Row(1), Row(2, root=1, parts=True), Row(9, parts=True), IN_CELL), words=36),
    "a row without room": Scenario(2, (Row(9, room=4),), words=12),
    "broadcast refused": Scenario(3, (Broadcast(8, without=(1,), odd=2),), words=9),
    "all_gather": Scenario(2, (AllGather(2), AllGather(8, in_place=True))),
    "all_gather of 2 rounds, then all_reduce": Scenario(2, (AllGather(40), IN_CELL), words=80),
    "all_gather of 3 rounds": Scenario(2, (AllGather(70),), words=140),
    "all_gather of 3 rounds, cells move on": Scenario(2, (AllGather(70), AllGather(20)), words=140, settings=WINDOWS),
    "all_to_all of 2 rounds, cells move on": Scenario(2, (AllToAll(40), AllToAll(8)), words=80, settings=WINDOWS),
    # rounds are half a cell, as a window is more than one
    "broadcast of 4 rounds, cells move on": Scenario(2, (Broadcast(50), IN_CELL), words=50, settings=WINDOWS),
    "reduce by the ring, cells move on": Scenario(2, (Reduce(words=20, root=1),), words=20, settings=RING | WINDOWS),
    "all_gather, 3 ranks": Scenario(3, (AllGather(100), IN_CELL), words=300),
    "scatter": Scenario(2, (Scatter(100),), words=200),
    "scatter halfway": Scenario(2, (Scatter(2, root=1, halfway=True), Scatter(8, halfway=True))),
    "scatter of 2 rounds, then all_reduce": Scenario(2, (Scatter(40, root=1, halfway=True), IN_CELL), words=80),
    "scatter of a list": Scenario(2, (Scatter(8, listed=True), Scatter(2, root=1, listed=True))),
    "scatter refused": Scenario(2, (Scatter(8, room=7), Scatter(8)), words=16),
    "scatter refused, 3 ranks": Scenario(3, (Scatter(2, root=1, room=1), Scatter(2)), words=16),
    "scatter, 3 ranks": Scenario(3, (Scatter(40, root=1, halfway=True, listed=True), IN_CELL), words=120),
    "scatter, 3 ranks, cells move on": Scenario(
        3, (Scatter(40, root=1, halfway=True, listed=True), IN_CELL), words=120, settings=WINDOWS
    ),
    "permute": Scenario(2, (Permute(70, (1, 0), in_place=True),), words=70),
    "permute of 2 rounds, then all_reduce": Scenario(2, (Permute(40, (1, 0)), IN_CELL), words=40),
    "chain of permute of 4 rounds": Scenario(2, (Permute(100, (1, -1), in_place=True),), words=100),
    "chain of permute, then all_reduce": Scenario(2, (Permute(70, (1, -1)), IN_CELL), words=70),
    "permute in a ring, 3 ranks": Scenario(3, (Permute(70, (1, 2, 0), in_place=True), IN_CELL), words=70),
    "permute in a chain, 3 ranks": Scenario(3, (Permute(40, (1, 2, -1), in_place=True), IN_CELL), words=40),
    "permute with itself, 3 ranks": Scenario(3, (Permute(40, (0, 2, 1)), Permute(2, (1, -1, 2))), words=40),
    "halo": Scenario(2, (Exchange((2,), ((9,), (6,)), 2), Exchange((2,), ((3,), (4,)), is_periodic=True))),
    "halo of 2 rounds, then all_reduce": Scenario(
        2, (Exchange((2,), ((60,), (63,)), 20, is_periodic=True), IN_CELL), words=63
    ),
    "halo of 3 rounds": Scenario(2, (Exchange((2,), ((105,), (120,)), 35),), words=120),
    "halo of 3 rounds, cells move on": Scenario(
        2, (Exchange((2,), ((105,), (120,)), 35),), words=120, settings=WINDOWS
    ),
    "halo of unlike faces": Scenario(
        2, (Exchange((2, 1), ((3, 4), (3, 3)), unlike=True),), settings={"cell_bytes": 512}
    ),
    "halo of a line, 3 ranks": Scenario(3, (Exchange((3,), ((60,), (63,), (60,)), 20), AllReduce(20)), words=63),
    "halo of 2 axes, 4 ranks": Scenario(
        4,
        (Exchange((2, 2), ((3, 20), (3, 3), (4, 20), (4, 3))), IN_CELL),
        words=80,
        settings={"cell_bytes": 512},
    ),
    "all_to_all of lists": Scenario(2, (AllToAllOfLists(24), AllToAll(8)), words=48),
    "all_to_all of lists, 3 ranks": Scenario(3, (AllToAllOfLists(20), IN_CELL), words=60, settings={"cell_bytes": 384}),
    "a message": Scenario(2, ((Send(1, 1),), (Receive(0, 1),)), each=True),
    "messages both ways": Scenario(
        2, ((Send(1, 2), Receive(1, 2, call=1)), (Send(0, 2), Receive(0, 2, call=1))), each=True
    ),
    "messages by tag": Scenario(
        2,
        (
            (Send(1, 2, tag=1), Send(1, 3, tag=2)),
            (Receive(0, 3, tag=2, call=2), Receive(0, 2, tag=1, call=1)),
        ),
        each=True,
    ),
    "a message taken before its turn is gone": Scenario(
        2,
        (
            (Send(1, 2, tag=1), Send(1, 2, tag=2), Send(1, 2, tag=2)),
            (
                Receive(0, 2, tag=2, call=2),
                Receive(0, 2, tag=2, call=3),
                Receive(0, 2, tag=1, call=1),
            ),
        ),
        each=True,
    ),
    # the flag of the piece that begins 576 bytes after the first lies where this message had its second word
    "messages that look like flags": Scenario(
        2,
        ((Send(1, 14, fill=577), *(Send(1, 1),) * 7), (Receive(0, 14, fill=577), *(Receive(0, 1),) * 7)),
        each=True,
    ),
    "a message longer than the ring": Scenario(2, ((Send(1, 100),), (Receive(0, 100),)), each=True, words=100),
    "messages round the ring": Scenario(2, ((Send(1, 14),) * 4, (Receive(0, 14),) * 4), each=True),
    "long messages both ways": Scenario(
        2,
        ((Send(1, 70), Receive(1, 70, call=1)), (Send(0, 70), Receive(0, 70, call=1))),
        each=True,
        words=70,
    ),
    "a message in vain": Scenario(
        2, ((SendInVain(1, 70, tag=1), Send(1, 2, tag=2)), (Receive(0, 2, tag=2, call=2),)), each=True, words=70
    ),
    "a message in vain before its turn": Scenario(
        2,
        (
            (Send(1, 2, tag=1), SendInVain(1, 70, tag=2), Send(1, 70, tag=2)),
            (Receive(0, 70, tag=2, call=3), Receive(0, 2, tag=1, call=1)),
        ),
        each=True,
        words=70,
    ),
    "a message in vain that does not fit": Scenario(
        2,
        (
            (SendInVain(1, 70, tag=1), Send(1, 2, tag=2), Send(1, 2, tag=3)),
            (Receive(0, 2, tag=2, call=2), ReceiveShort(0, 2, call=3)),
        ),
        each=True,
        words=70,
    ),
    "a message without memory": Scenario(
        2,
        (
            (Send(1, 2, tag=1), SendWithoutMemory(1, 70, tag=2), SendWithoutMemory(1, 14, tag=3)),
            (Receive(0, 2, tag=1), Receive(0, 70, tag=2), Receive(0, 14, tag=3)),
        ),
        each=True,
        words=70,
    ),
    "an object": Scenario(2, ((SendObject(1, 40),), (ReceiveObject(0, 40),)), each=True, words=50),
    "an object longer than the ring": Scenario(
        2, ((SendObject(1, 90),), (ReceiveObject(0, 90),)), each=True, words=100
    ),
    "sendrecv": Scenario(2, ((SendRecv(1, 70, dest=1),), (SendRecv(0, 70, dest=0),)), each=True, words=70),
    "sendrecv round a circle": Scenario(
        3,
        ((SendRecv(2, 70, dest=1),), (SendRecv(0, 70, dest=2),), (SendRecv(1, 70, dest=0),)),
        each=True,
        words=70,
    ),
    "sendrecv with who receives first": Scenario(
        2, ((SendRecv(1, 70, dest=1, call=2),), (Receive(0, 70, call=1), Send(0, 70))), each=True, words=70
    ),
    "sendrecv before its turn": Scenario(
        2,
        ((Send(1, 2, tag=5), SendRecv(1, 70, tag=0, dest=1)), (Send(0, 2, tag=5), SendRecv(0, 70, tag=0, dest=0))),
        each=True,
        words=70,
    ),
    "a long message before its turn": Scenario(
        2,
        (
            (Send(1, 70, tag=1), Send(1, 70, tag=2)),
            (Receive(0, 70, tag=2, call=2), Receive(0, 70, tag=1, call=1)),
        ),
        each=True,
        words=70,
    ),
    "messages of anybody": Scenario(
        3, ((Receive(ANY, 1, call=1), Receive(ANY, 1, call=1)), (Send(0, 1),), (Send(0, 1),)), each=True
    ),
    "a posted receive": Scenario(
        2, ((Send(1, 1, tag=1), Send(1, 2)), (ReceivePosted(0, 2, tag=0, call=2),)), each=True
    ),
    "a posted receive, 3 ranks": Scenario(
        3, ((Send(2, 1, tag=1),), (Send(2, 2),), (ReceivePosted(1, 2, tag=0, call=1),)), each=True
    ),
    "a receive gives way": Scenario(2, ((GiveWay(1, 1),), ()), each=True),
    "a receive from any gives way": Scenario(3, ((GiveWay(ANY, 1),), (), ()), each=True),
    "two threads": Scenario(
        2, ((ReceiveBeside(1, 1, call=2, beside=Send(1, 1)),), (Receive(0, 1, call=NUMBER), Send(0, 1))), each=True
    ),
    "two threads of both ranks": Scenario(
        2, tuple((ReceiveBeside(1 - r, 1, call=NUMBER, beside=Send(1 - r, 1)),) for r in (0, 1)), each=True
    ),
    "two threads, 3 ranks": Scenario(
        3,
        tuple((ReceiveBeside((r - 1) % 3, 1, call=NUMBER, beside=Send((r + 1) % 3, 1)),) for r in range(3)),
        each=True,
    ),
    "two threads that receive from any": Scenario(
        2, tuple((ReceiveBeside(ANY, 1, call=NUMBER, beside=Send(1 - r, 1)),) for r in (0, 1)), each=True
    ),
    "two threads, and a long message": Scenario(
        2,
        (
            (ReceiveBeside(1, 1, call=NUMBER, beside=Send(1, 40)),),
            (ReceiveBeside(0, 40, call=NUMBER, beside=Send(0, 1)),),
        ),
        each=True,
        words=40,
    ),
    "a batch": Scenario(2, ((Send(1, 2, tag=1), Send(1, 2)), (ReceiveSoon(0, 2, tag=0, call=2),)), each=True),
    "batches": Scenario(
        2,
        (
            (Send(1, 2, tag=1), Send(1, 2, tag=2), ReceiveSoon(1, 2, tag=1, call=1)),
            (Send(0, 2, tag=1), ReceiveSoon(0, 2, tag=2, call=2), ReceiveSoon(0, 2, tag=1, call=1)),
        ),
        each=True,
    ),
    "a batch, 3 ranks": Scenario(
        3, ((Send(2, 2),), (Send(2, 2),), (ReceiveSoon(ANY, 2, call=1), ReceiveSoon(ANY, 2, call=1))), each=True
    ),
    "a batch receives a long message": Scenario(2, ((Send(1, 70),), (ReceiveSoon(0, 70),)), each=True, words=70),
    "a receive that looks": Scenario(2, ((ReceiveLooking(1, 1), Send(1, 1)), (Send(0, 1), Receive(0, 1))), each=True),
    "a receive that looks at two sleeps": Scenario(
        2,
        (
            (Send(1, 1), Send(1, 1), ReceiveLooking(1, 1)),
            (Receive(0, 1), Receive(0, 1), Send(0, 1)),
        ),
        each=True,
    ),
    # where rank 1 has waited for a flag there is then a word of the last message
    "a receive that looks when the ring has gone round": Scenario(
        2,
        (
            (Send(1, 1), Send(1, 14), Send(1, 14), Send(1, 14, fill=1), ReceiveLooking(1, 1)),
            (Receive(0, 1), Receive(0, 14), Receive(0, 14), Receive(0, 14, fill=1), Send(0, 1)),
        ),
        each=True,
    ),
    "a receive that looks, 3 ranks": Scenario(
        3,
        (
            (ReceiveLooking(1, 1, call=2), Send(2, 1)),
            (Receive(2, 1), Send(0, 1), Receive(2, 1)),
            (Send(1, 1), Receive(0, 1), Send(1, 1)),
        ),
        each=True,
    ),
    "a circle": Scenario(2, ((ReceiveInCircle(1, 1),), (ReceiveAsleep(0, 1),)), each=True),
    "a barrier that looks": Scenario(
        2, ((Send(1, 1), BarrierLooking()), (ReceiveAsleep(0, 1), BarrierLooking())), each=True
    ),
    "a circle with a barrier": Scenario(2, ((BarrierInCircle(),), (ReceiveAsleep(0, 1),)), each=True),
    "a circle, 3 ranks": Scenario(
        3, ((ReceiveInCircle(1, 1),), (ReceiveAsleep(2, 1),), (ReceiveAsleep(0, 1),)), each=True
    ),
    # the receiver answers when it has begun, or has not: the answer says what the sender must find
    "a synchronous message": Scenario(
        2, ((SendSynchronously(1, 1), Receive(1, 1, call=2), Look(1, True)), (Receive(0, 1), Send(0, 1))), each=True
    ),
    "a synchronous message before its turn": Scenario(
        2,
        (
            (Send(1, 2, tag=1), SendSynchronously(1, 2, tag=2), Receive(1, 1, call=2), Look(1, True)),
            (Receive(0, 2, tag=2, call=2), Send(0, 1)),
        ),
        each=True,
    ),
    "a synchronous message that is only found": Scenario(
        2,
        (
            (Send(1, 2, tag=1), SendSynchronously(1, 2, tag=2), Receive(1, 1, call=3), Look(1, False)),
            (Receive(0, 2, tag=1, call=1), Find(0, tag=2), Send(0, 1)),
        ),
        each=True,
    ),
    "a synchronous message before its turn, then the first": Scenario(
        2,
        (
            (Send(1, 2, tag=1), SendSynchronously(1, 2, tag=2), Receive(1, 1, call=2), Look(1, True)),
            (Receive(0, 2, tag=2, call=2), Send(0, 1), Receive(0, 2, tag=1, call=1)),
        ),
        each=True,
    ),
    "a synchronous message that is found, then received": Scenario(
        2,
        (
            (
                Send(1, 2, tag=1),
                SendSynchronously(1, 2, tag=2),
                Receive(1, 1, call=3),
                Look(1, False),
                Send(1, 1, tag=3),
            ),
            (
                Receive(0, 2, tag=1, call=1),
                Find(0, tag=2),
                Send(0, 1),
                Receive(0, 1, tag=3, call=5),
                Receive(0, 2, call=2),
            ),
        ),
        each=True,
    ),
    # TAKEN of the first message is a word of a later one, which is AWAITED
    "a synchronous message that was overwritten": Scenario(
        2,
        (
            (
                *(Send(1, 1), SendSynchronously(1, 1)),
                *(Send(1, 14, fill=AWAITED), Receive(1, 1, call=4)),
                *(Send(1, 14, fill=AWAITED), Receive(1, 1, call=6)),
                *(Send(1, 14, fill=AWAITED), Receive(1, 1, call=8)),
                Look(1, True),
            ),
            (*(Receive(0, 1),) * 2, *(Receive(0, 14, fill=AWAITED), Send(0, 1)) * 3),
        ),
        each=True,
    ),
    "a long synchronous message": Scenario(
        2,
        ((SendSynchronously(1, 100), Receive(1, 1, call=2), Look(1, True)), (Receive(0, 100), Send(0, 1))),
        each=True,
        words=100,
    ),
    "a synchronous message to a rank that returns": Scenario(
        2,
        (
            (SendSynchronously(1, 2), Receive(1, 1, call=2), Look(1, True)),
            (Receive(0, 2), Send(0, 1), End(records.DEPARTED)),
        ),
        each=True,
    ),
    "a message stored at once": Scenario(2, ((Store(1, 20, must=True),), (Receive(0, 20),)), each=True, words=20),
    "messages stored at once both ways": Scenario(
        2,
        tuple((Store(1 - r, 20, must=True), Receive(1 - r, 20, call=1)) for r in (0, 1)),
        each=True,
        words=20,
    ),
    "messages stored until there is no room": Scenario(
        2,
        ((Store(1, 20, must=True), Store(1, 20), Store(1, 40)), (Receive(0, 20), Receive(0, 20), Receive(0, 40))),
        each=True,
        words=40,
    ),
    "a message too long to be stored at once": Scenario(
        2, ((Store(1, 100),), (Receive(0, 100),)), each=True, words=100
    ),
    "a message stored at once in the arena": Scenario(
        2,
        ((Exposing(Store(1, 20, must=True), IN_ARENA),), (Receive(0, 20),)),
        each=True,
        words=20,
        settings=EXPOSING,
    ),
    "a message that is there as a whole": Scenario(
        2, ((Store(1, 20, must=True),), (ReceiveWhole(0, 20),)), each=True, words=20, settings=SPIN
    ),
    "a message that may be there as a whole": Scenario(
        2, ((Send(1, 40),), (ReceiveWhole(0, 40),)), each=True, words=40, settings=SPIN
    ),
    "messages that are there as a whole, by tag": Scenario(
        2,
        (
            (Send(1, 1, tag=1), Store(1, 20, tag=2)),
            (ReceiveWhole(0, 20, tag=2, call=2), ReceiveWhole(0, 1, tag=1, call=1)),
        ),
        each=True,
        words=20,
        settings=SPIN,
    ),
    "an offered message that is no whole": Scenario(
        2, ((Exposing(Send(1, 20), IN_ARENA),), (ReceiveWhole(0, 20),)), each=True, words=20, settings=EXPOSING | SPIN
    ),
    "an offered message": Scenario(
        2, ((Exposing(Send(1, 17), IN_ARENA),), (Receive(0, 17),)), each=True, words=17, settings=EXPOSING
    ),
    "an offered message after polling": Scenario(
        2, ((Exposing(Send(1, 17), IN_ARENA),), (Receive(0, 17),)), each=True, words=17, settings=EXPOSING | SPIN
    ),
    "an offered message that may be read": Scenario(
        2,
        ((Exposing(Send(1, 17)), Exposing(Send(1, 17))), (Receive(0, 17), Receive(0, 17))),
        each=True,
        words=17,
        settings=EXPOSING | {"readable": 0},
    ),
    # the first one has a ring made in which there is room for two others, once it has been read
    "offered messages by tag": Scenario(
        2,
        (
            tuple(Exposing(Send(1, words, tag=tag), IN_ARENA) for tag, words in ((1, 50), (2, 17), (3, 17))),
            tuple(Receive(0, words, tag=tag, call=tag) for tag, words in ((1, 50), (3, 17), (2, 17))),
        ),
        each=True,
        words=50,
        settings=EXPOSING,
    ),
    "offered messages both ways": Scenario(
        2,
        tuple((Exposing(Send(1 - r, 70), IN_ARENA), Receive(1 - r, 70, call=1)) for r in (0, 1)),
        each=True,
        words=70,
        settings=EXPOSING,
    ),
    "an offered synchronous message": Scenario(
        2,
        (
            (Exposing(SendSynchronously(1, 17), IN_ARENA), Receive(1, 1, call=2), Look(1, True)),
            (Receive(0, 17), Send(0, 1)),
        ),
        each=True,
        words=17,
        settings=EXPOSING,
    ),
    "an offered message in vain": Scenario(
        2,
        ((Exposing(SendInVain(1, 70, tag=1), IN_ARENA), Send(1, 2)), (Receive(0, 2, tag=0, call=2),)),
        each=True,
        words=70,
        settings=EXPOSING,
    ),
    "an offered message that does not fit": Scenario(
        2, ((Exposing(Send(1, 17), IN_ARENA),), (ReceiveShort(0, 16),)), each=True, words=17, settings=EXPOSING
    ),
    "an offered message to a posted receive": Scenario(
        2, ((Exposing(Send(1, 17), IN_ARENA),), (ReceivePosted(0, 17),)), each=True, words=17, settings=EXPOSING
    ),
    "sendrecv of offered messages": Scenario(
        2,
        tuple((Exposing(SendRecv(1 - r, 70, dest=1 - r), IN_ARENA),) for r in (0, 1)),
        each=True,
        words=70,
        settings=EXPOSING,
    ),
    "sendrecv of offered messages round a circle": Scenario(
        3,
        tuple((Exposing(SendRecv((r - 1) % 3, 70, dest=(r + 1) % 3), IN_ARENA),) for r in range(3)),
        each=True,
        words=70,
        settings=EXPOSING,
    ),
    "a handler raises in an offered send": Scenario(
        2,
        ((Exposing(Send(1, 17), IN_ARENA),), (Receive(0, 17),)),
        each=True,
        words=17,
        events=(Raises(), None),
        settings=EXPOSING,
    ),
    "a rank returns": Scenario(2, ((BARRIER, BARRIER), (BARRIER, End(records.DEPARTED))), each=True),
    "a rank returns, 3 ranks": Scenario(3, ((BARRIER,), (BARRIER,), (End(records.DEPARTED),)), each=True),
    "a rank raises": Scenario(2, ((BARRIER, BARRIER), (BARRIER, End(records.FAILED))), each=True),
    "a handler receives while its rank does": Scenario(
        2,
        (
            (Send(1, 2, tag=1), Send(1, 3, tag=2)),
            (ReceiveNew(0, 2, tag=1, call=1),),
        ),
        each=True,
        events=(None, Calls(ReceiveNew(0, 3, tag=2, call=2))),
    ),
    "a handler sends while its rank does": Scenario(
        2,
        (
            (Send(1, 70, tag=1),),
            (Receive(0, 70, tag=1), Receive(0, 2, tag=9, call=50)),
        ),
        each=True,
        words=70,
        events=(Calls(Send(1, 2, tag=9)), None),
    ),
    "a handler sends while its rank sends beside a receive": Scenario(
        2,
        ((SendBesidePosted(1, 70, tag=1),), (Receive(0, 70, tag=1), Receive(0, 2, tag=9, call=50))),
        each=True,
        words=70,
        events=(Calls(Send(1, 2, tag=9)), None),
    ),
    "a handler calls in an all_gather_v": Scenario(
        2,
        ((all_gather_v((2, 8), halfway=True),), (all_gather_v((2, 8), halfway=True), BarrierApart())),
        each=True,
        events=(Calls(BarrierApart()), None),
    ),
    "a handler calls in an all_reduce": Scenario(
        2, ((INLINE,), (INLINE, BarrierApart())), each=True, events=(Calls(BarrierApart()), None)
    ),
    "a handler calls in a scatter": Scenario(
        2,
        ((Scatter(2, halfway=True), BarrierApart()), (Scatter(2, halfway=True),)),
        each=True,
        events=(None, Calls(BarrierApart())),
    ),
    "a handler raises in a barrier": Scenario(2, (BARRIER,) * 2, events=(Raises(), None)),
    "a handler raises in a barrier, 3 ranks": Scenario(3, (BARRIER,), events=(Raises(), None, None)),
    "a handler raises at the root of an exposed broadcast": Scenario(
        2, (Exposing(Broadcast(10), ranks=(0,)), BARRIER), events=(Raises(), None), settings=EXPOSING
    ),
    "a handler raises in an exposed all_gather": Scenario(
        2, (Exposing(AllGather(10)), BARRIER), words=20, events=(Raises(), None), settings=EXPOSING
    ),
    "a handler raises in an all_gather_v": Scenario(
        2, (all_gather_v((2, 8), halfway=True), BARRIER), events=(None, Raises())
    ),
    "a handler raises in a recv": Scenario(
        2, ((Send(1, 2),), (ReceiveNew(0, 2, call=1),)), each=True, events=(None, Raises())
    ),
    "a handler raises in a send": Scenario(
        2, ((Send(1, 70),), (Receive(0, 70),)), each=True, words=70, events=(Raises(), None)
    ),
    "a handler aborts": Scenario(2, (BARRIER,) * 2, events=(Aborts(), None)),
    "a receive is withdrawn": Scenario(
        2,
        ((Send(1, 2, tag=1), Send(1, 2)), (ReceiveOrWithdraw(0, 2, tag=0, call=2), Receive(0, 2, tag=1, call=1))),
        each=True,
        events=(None, Cancels()),
    ),
    "a limit beside a thread that keeps the GIL": Scenario(
        2, ((AwaitInVain(1, 100),), ()), each=True, events=(KeepsGil(100), None)
    ),
    "a shared result": Scenario(2, (ShareResult(),)),
    "a shared result, 3 ranks": Scenario(3, (ShareResult(),)),
    "a shared result of an owner that leaves": Scenario(2, (ShareResult(fails=True),)),
    "a shared result of an owner that leaves, 3 ranks": Scenario(3, (ShareResult(fails=True),)),
    "spans that are read": Scenario(2, ((WriteSpans(),), (ReadSpans(),)), each=True),
    "a lock of ranks": Scenario(2, (Lock(),)),
    "a lock of ranks, shared and not": Scenario(2, ((Lock(),), (Lock(shared=True),)), each=True),
    "a lock of ranks, 3 ranks": Scenario(3, (Lock(),)),
    "a lock of ranks, and one that does not wait": Scenario(2, ((Lock(),), (Lock(looks=1),)), each=True),
    "a team of threads": Scenario(2, ((ShareWork(2), ShareWork(2)), (Help(),)), each=True),
    "a team with one piece": Scenario(2, ((ShareWork(2),), (Help(),)), each=True),
    "a team of two helpers": Scenario(3, ((ShareWork(2),), (Help(),), (Help(),)), each=True),
    "a team that two threads want": Scenario(3, ((ShareWork(2),), (Help(),), (ShareWork(2),)), each=True),
    "a rank raises, 3 ranks": Scenario(3, ((BARRIER,), (BARRIER,), (End(records.FAILED),)), each=True),
}
