"""Small jobs over nodes, by name. With the sizes of `nodes.py`, a row of 3 words runs ahead and one of 6 words does
not, up to 2 calls run ahead, and 9 words are sent from where they are."""

import random
from dataclasses import dataclass
from typing import Any

from shmcoll.engine import context as c
from tests.schedule.explorer.calls_over_nodes import (
    AllGatherOverNodes as AllGather,
)
from tests.schedule.explorer.calls_over_nodes import (
    BarrierOverNodes as Barrier,
)
from tests.schedule.explorer.calls_over_nodes import (
    BroadcastOverNodes as Broadcast,
)
from tests.schedule.explorer.calls_over_nodes import (
    GatherOverNodes as Gather,
)
from tests.schedule.explorer.calls_over_nodes import (
    OverNodes,
)
from tests.schedule.explorer.calls_over_nodes import (
    ScatterOverNodes as Scatter,
)
from tests.schedule.explorer.machine import Machine
from tests.schedule.explorer.nodes import TOLD, JobOverNodes
from tests.schedule.explorer.stand_ins_over_nodes import MOST_AHEAD

APART = "arrays sent from where they are"
MOST_KEPT = MOST_AHEAD + 1  # of one leader, as `running_ahead.py` says
TWO, THREE, SHARED = (1, 1), (1, 1, 1), (2, 1)


@dataclass(frozen=True)
class ScenarioOverNodes:
    """The calls of all ranks, or of each rank, if they differ."""

    sizes: tuple[int, ...]
    calls: tuple[Any, ...]
    each: bool = False
    ends: bool = False  # a leader ends the job, because the others make no call in which they would meet

    def machine(self, kept: int = MOST_KEPT, **options: Any) -> Machine:
        """Call it while `exploring()` and `over_nodes()`; kept: see `channels.py`; options: see `Machine`."""
        return JobOverNodes(self.sizes, self.calls_of, self.is_allowed, kept=kept).machine(**options)

    def calls_of(self, rank: int) -> list[OverNodes]:
        return list(self.calls[rank] if self.each else self.calls)

    @property
    def told(self) -> int:
        """The number of the first call in which ranks differ, which all are told; 0 if none does."""
        if not self.each:
            return 0
        return next(i for i, calls in enumerate(zip(*self.calls, strict=False), start=1) if len(set(calls)) > 1)

    def is_allowed(self, status: int) -> bool:
        if self.ends:
            return status in (c.OK, c.INTERRUPTED)
        return status == (TOLD + self.told if self.told else c.OK)


B, G, S, BARRIER = Broadcast(), Gather(), Scatter(), Barrier()
B1, G1 = Broadcast(root=1), Gather(root=1)
LONGER, EMPTY = Broadcast(6), Broadcast(0)

EQUAL = {
    "a stream from a node": ScenarioOverNodes(TWO, (B,) * 8),
    "a stream to a node": ScenarioOverNodes(TWO, (G,) * 8),
    "streams of other roots": ScenarioOverNodes(TWO, (B, B, B1, B1, G1, G1, B1, B, G, G)),
    "a stream from a node by several calls": ScenarioOverNodes(TWO, (B, S, B, Scatter(2), BARRIER, S, B, S)),
    "rows as long as a slot in a stream": ScenarioOverNodes(TWO, (B, Broadcast(2), Broadcast(3), B, G, Gather(7), G)),
    "an empty row in a stream": ScenarioOverNodes(TWO, (B, B, EMPTY, B, B, Gather(0), G)),
    "a longer row in each second call": ScenarioOverNodes(TWO, (B, LONGER) * 4),
    "a scatter that a node refuses": ScenarioOverNodes(TWO, (S, Scatter(odd=1), S, S, BARRIER)),
    "a stream from a node, 3 nodes": ScenarioOverNodes(THREE, (B1,) * 5),
    "a stream to a node, 3 nodes": ScenarioOverNodes(THREE, (G1,) * 5),
    "streams of other roots, 3 nodes": ScenarioOverNodes(THREE, (B, B, B1, B1, G1, G1, B)),
    "streams and calls of all": ScenarioOverNodes(THREE, (B, B, BARRIER, B, B, AllGather(2), G, G, BARRIER)),
    APART: ScenarioOverNodes(
        TWO,
        (Broadcast(9), B, Gather(9), G, Scatter(9), S, AllGather(9), Scatter(9, root=1), Gather(9, root=1)),
    ),
    f"{APART}, 3 nodes": ScenarioOverNodes(THREE, (Gather(9), Broadcast(9), Scatter(9, root=1), AllGather(2))),
    "a longer row in a stream": ScenarioOverNodes(THREE, (B, B, LONGER, B, B, Gather(6), G, G, Gather(9), G)),
}


def differ(sizes: tuple[int, ...], *calls: tuple[OverNodes, ...]) -> ScenarioOverNodes:
    """Return a job in which each rank makes its own calls, and all meet in a barrier at last."""
    return ScenarioOverNodes(sizes, tuple((*own, BARRIER) for own in calls), each=True)


DIFFERENT = {
    "one call more on a node": differ(TWO, (B, B, B), (B, B)),
    "two calls more on a node": differ(TWO, (B, B, B), (B,)),
    "one call more on the other node": differ(TWO, (B, B), (B, B, B)),
    "one gather more on a node": differ(TWO, (G, G, G), (G, G)),
    "one gather more on the other node": differ(TWO, (G, G), (G, G, G)),
    "another root": differ(TWO, (B, B, B, B), (B, B, B1, B)),
    "another root of gathers": differ(TWO, (G, G, G, G), (G, G, G1, G)),
    "another operation": differ(TWO, (B, G, G, G), (B, B, G, G)),
    "another length": differ(TWO, (B, B, B), (B, Broadcast(2), B)),
    "another length of gathers": differ(TWO, (G, G, G), (G, G, Gather(2))),
    "an array sent from where it is on a node": differ(TWO, (B, Broadcast(9), B), (B, Gather(9), B)),
    "a longer row on a node": differ(TWO, (B, LONGER, B), (B, B, B)),
    "a barrier in the place of a call": differ(TWO, (B, B, B), (B, BARRIER, B)),
    "one call more on a node of 3": differ(THREE, (B, B, B), (B, B), (B, B)),
    "one call more on a node of 3 that receives": differ(THREE, (B, B), (B, B, B), (B, B)),
    "one gather more on a node of 3": differ(THREE, (G, G), (G, G, G), (G, G)),
    "another root on a node of 3": differ(THREE, (B, B, B), (B, B, B1), (B, B, B)),
    "each node is the root of 3": differ(THREE, *((G, G, B, *(Broadcast(root=root),) * 3) for root in range(3))),
    "another operation on a node of 3": differ(THREE, (G, G, G), (G, G, G), (G, B, G)),
    "three kinds of calls": differ(THREE, (B, B, BARRIER), (B, G, B), (B, B1, B1)),
    "another length on a node of 3": differ(THREE, (B, B, B), (B, B, B), (B, Broadcast(3), B)),
    "another length of gathers on a node of 3": differ(THREE, (G, G, G), (G, Gather(2), G), (G, G, G)),
    "two nodes leave a stream to another one": differ(THREE, (G, G, G), (G, B1, G), (G, B1, G)),
    "a longer row on a node of 3": differ(THREE, (B, LONGER, B), (B, B, B), (B, LONGER, B)),
}
SHARING = {
    "streams of other roots, 2 ranks in a node": ScenarioOverNodes(SHARED, (B, B1, B1, G, G, G1, G1, B1)),
    "streams of another node, 2 ranks in a node": ScenarioOverNodes(
        SHARED, (*(Broadcast(root=2),) * 4, Broadcast(6, root=2), Gather(3, root=2), Gather(root=2), BARRIER)
    ),
    "longer rows, 2 ranks in a node": ScenarioOverNodes(
        SHARED, (B, Broadcast(3), LONGER, B, Gather(2), G, Gather(9), G, S, Scatter(2))
    ),
    "another operation on a rank of 2": differ(SHARED, (B, B, B), (B, G, B), (B, B, B)),
    "another operation on the node of one rank": differ(SHARED, (B, B, B), (B, B, B), (B, G, B)),
    "one call more on the root of 2 ranks": differ(SHARED, (B1, B1), (B1, B1, B1), (B1, B1)),
}
#: a leader that has found another call, and waits alone
ALONE = "a leader waits alone"

SCENARIOS_OVER_NODES = (
    EQUAL | DIFFERENT | SHARING | {ALONE: ScenarioOverNodes(TWO, ((G, G), (G, Gather(2))), each=True, ends=True)}
)


def random_job(sizes: tuple[int, ...], chance: random.Random) -> ScenarioOverNodes:
    """Return a job of rows of equal calls, of which a rank may leave one out, make another one, or make one more."""
    calls: list[OverNodes] = []
    for _ in range(chance.randrange(2, 5)):
        calls += [_random_call(sum(sizes), chance)] * chance.randrange(1, 4)
    ranks = [list(calls) for _ in range(sum(sizes))]
    own, place = chance.choice(ranks), chance.randrange(len(calls))
    what = chance.choice(["nothing", "less", "another", "more"])
    if what in ("less", "another"):
        del own[place]
    if what in ("another", "more"):
        own.insert(place, _random_call(sum(sizes), chance))
    end = AllGather(5)  # unlike all others, so that calls which differ do so before it
    each = any(one != calls for one in ranks)
    return ScenarioOverNodes(sizes, tuple((*one, end) for one in ranks) if each else (*calls, end), each)


def _random_call(ranks: int, chance: random.Random) -> OverNodes:
    kind, root, words = (
        chance.choice([Broadcast, Gather, Scatter]),
        chance.randrange(ranks),
        chance.choice([1, 1, 2, 6]),
    )
    return chance.choice([kind(1, 0), kind(words if kind is not Scatter else 1, root), BARRIER, AllGather(words)])
