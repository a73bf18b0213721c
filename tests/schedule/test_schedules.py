"""Every schedule of small jobs, with any single kill too, and random schedules of larger ones.

No deadlock, exact results, nobody leaves a collective before all have entered it, operations in a row do not mix up
their headers and cells; after a kill every survivor returns. A sleeper is rescued by the end of its slice only where a
rank simply returns.
"""

import pytest

from shmcoll.engine import context as c
from tests.schedule.explorer.scenarios import SCENARIOS
from tests.schedule.explorer.search import TooLarge, exhaust, sample
from tests.support import tally

BUFFERED = {"buffered": True}
KILLS = {"kills": True}
BOTH = BUFFERED | KILLS
SIGNAL = {"signals": 1}
PASSING = {"signals": 2, "slices": 6}
REORDERED = {"reordered": True}
RUNS = 3  # random schedules of each large job; the long forms try more

PLAIN_CASES = [
    "park",
    "park after polling",
    "park in turn",
    "park for two",
    "barrier, 2 ranks",
    "barrier after polling",
    "barrier, 3 ranks",
    "disagreement",
    "all_reduce",
    "all_reduce in place",
    "all_reduce in cells",
    "all_reduce, 3 ranks",
    "ring",
    "shared all_reduce",
    "ordered all_reduce",
    "reduce",
    "reduce by the ring",
    "reduce_scatter",
    "ordered reduce_scatter",
    "ordered reduce_scatter of 2 rounds",
    "scan",
    "scan, 3 ranks",
    "scan in place, 3 ranks",
    "scan without room for sums, 3 ranks",
    "chain of exscan",
    "gather",
    "gather of 2 rounds, then all_reduce",
    "gather of 2 rounds where PROGRESS wraps",
    "all_to_all",
    "all_to_all of 2 rounds",
    "all_to_all_v",
    "all_to_all_v, then another",
    "all_to_all_v refused",
    "gather_v",
    "gather_v of 2 rounds, then all_reduce",
    "gather_v refused",
    "scatter_v",
    "scatter_v of 2 rounds, then all_reduce",
    "scatter_v refused",
    "all_gather_v",
    "all_gather_v of 2 rounds, then all_reduce",
    "all_gather_v refused",
    "broadcast",
    "broadcast of 4 rounds, then all_reduce",
    "broadcasts run ahead",
    "broadcasts run ahead of two roots",
    "gathers run ahead",
    "roots take turns",
    "ahead, then cells",
    "ahead without an array, then cells",
    "ahead without a part, then cells",
    "rows ahead, then cells",
    "a row without room",
    "each rank is the root",
    "all_gather",
    "all_gather of 2 rounds, then all_reduce",
    "all_gather of 3 rounds",
    "exposed gather",
    "exposed broadcast to a rank without an array",
    "scatter",
    "scatter halfway",
    "scatter of 2 rounds, then all_reduce",
    "scatter of a list",
    "scatter refused",
    "permute",
    "permute of 2 rounds, then all_reduce",
    "chain of permute, then all_reduce",
    "halo",
    "halo of 2 rounds, then all_reduce",
    "halo of 3 rounds",
    "halo of unlike faces",
    "chain of permute of 4 rounds",
    "all_to_all of lists",
    "a message",
    "messages both ways",
    "messages by tag",
    "a synchronous message",
    "a synchronous message before its turn",
    "a synchronous message that is only found",
    "a message taken before its turn is gone",
    "a posted receive",
    "a receive gives way",
    "a receive from any gives way",
    "two threads",
    "a batch",
    "an offered message",
    "a receive that looks",
    "a circle",
    "a barrier that looks",
    "a circle with a barrier",
    "a circle, 3 ranks",
    "a synchronous message to a rank that returns",
    "a shared result",
    "spans that are read",
    "a lock of ranks",
    "a lock of ranks, shared and not",
    "a team with one piece",
    "a team of threads",
    "a shared result of an owner that leaves",
    "a rank raises",
    "a rank raises, 3 ranks",
]
BUFFERED_CASES = [
    "park",
    "park after polling",
    "park in turn",
    "park for two",
    "barrier, 2 ranks",
    "all_reduce in place",
    "reduce",
    "reduce_scatter",
    "a message",
    "a synchronous message",
    "messages by tag",
    "a posted receive",
    "a receive gives way",
    "a circle",
    "a shared result",
    "a lock of ranks",
    "a lock of ranks, shared and not",
    "a team of threads",
    "a shared result of an owner that leaves",
]
REORDERED_CASES = [
    "spans that are read",
    "park",
    "park in turn",
    "park for two",
    "barrier, 2 ranks",
    "all_reduce in place",
    "reduce",
    "a message",
    "a receive gives way",
    "a synchronous message",
    "a shared result of an owner that leaves",
]
KILL_CASES = [
    "park",
    "park in turn",
    "park for two",
    "barrier after polling",
    "disagreement",
    "each rank is the root",
    "all_reduce in place",
    "reduce",
    "a message",
    "a synchronous message",
    "a shared result",
    "a lock of ranks",
    "a lock of ranks, shared and not",
]

EVENT_CASES = [
    "a handler receives while its rank does",
    "a handler calls in an all_gather_v",
    "a handler calls in an all_reduce",
    "a handler calls in a scatter",
    "a handler raises in a barrier",
    "a handler raises in a barrier, 3 ranks",
    "a handler raises in an all_gather_v",
    "a handler raises in a recv",
    "a handler aborts",
    "a receive is withdrawn",
]
LARGE_EVENT_CASES = [
    "a handler raises at the root of an exposed broadcast",
    "a handler raises in an exposed all_gather",
    "a handler sends while its rank does",
    "a handler sends while its rank sends beside a receive",
    "a handler raises in a send",
    "a handler raises in an offered send",
]
LIMIT_CASE = "a limit beside a thread that keeps the GIL"

#: more than a second of computing each
LONG_CASES = {
    "a barrier that looks",
    "a handler raises in a barrier, 3 ranks",
    "a handler receives while its rank does",
    "a lock of ranks",
    "a message taken before its turn is gone",
    "a posted receive",
    "a receive is withdrawn",
    "a receive that looks",
    "a synchronous message before its turn",
    "a synchronous message that is only found",
    "a synchronous message to a rank that returns",
    "a synchronous message",
    "a team of threads",
    "ahead without a part, then cells",
    "ahead without an array, then cells",
    "ahead, then cells",
    "all_gather of 2 rounds, then all_reduce",
    "all_gather of 3 rounds",
    "all_gather_v of 2 rounds, then all_reduce",
    "all_gather_v refused",
    "all_reduce in place",
    "all_reduce, 3 ranks",
    "all_to_all of 2 rounds",
    "all_to_all of lists",
    "all_to_all_v refused",
    "all_to_all_v, then another",
    "barrier after polling",
    "barrier, 3 ranks",
    "broadcast of 4 rounds, then all_reduce",
    "broadcast",
    "broadcasts run ahead of two roots",
    "broadcasts run ahead",
    "chain of exscan",
    "chain of permute of 4 rounds",
    "chain of permute, then all_reduce",
    "gather of 2 rounds where PROGRESS wraps",
    "gather of 2 rounds, then all_reduce",
    "gather_v of 2 rounds, then all_reduce",
    "gathers run ahead",
    "halo of 2 rounds, then all_reduce",
    "messages both ways",
    "messages by tag",
    "ordered all_reduce",
    "ordered reduce_scatter of 2 rounds",
    "park for two",
    "permute of 2 rounds, then all_reduce",
    "reduce by the ring",
    "ring",
    "roots take turns",
    "scan, 3 ranks",
    "scatter of 2 rounds, then all_reduce",
    "scatter_v of 2 rounds, then all_reduce",
    "scatter_v refused",
    "two threads",
}

#: as much computing as all others; random schedules of these are tried among the large ones. Those that move blocks in
#: more rounds than 2: every schedule of 2 rounds of the same call is tried, and of 3 and 4 rounds of other calls
LONGEST_CASES = [
    ("an offered message", {}),
    ("gather", {}),
    ("all_to_all", {}),
    ("all_gather_v", {}),
    ("gather_v", {}),
    ("scatter_v", {}),
    ("shared all_reduce", {}),
    ("a synchronous message", REORDERED),
    ("a synchronous message", KILLS),
    ("a shared result", KILLS),
]

LARGE_CASES = [
    "broadcasts run further ahead",
    "gathers run further ahead",
    "scans run further ahead",
    "scans run further ahead, 3 ranks",
    "broadcasts run ahead, 3 ranks",
    "gathers run ahead, 3 ranks",
    "roots take turns, 3 ranks",
    "each rank is the root, 3 ranks",
    "barrier after polling, 3 ranks",
    "two barriers, 3 ranks",
    "disagreement, 3 ranks",
    "all_reduce in cells, 3 ranks",
    "ring, then flat",
    "two rings",
    "shared all_reduce",
    "shared all_reduce, then others",
    "shared all_reduce, 3 ranks",
    "shared reduce",
    "shared reduce of 3 rounds",
    "shared reduce, 3 ranks",
    "shared reduce_scatter",
    "shared reduce_scatter, 3 ranks",
    "shared scan",
    "shared scan in place, 3 ranks",
    "shared exscan, 3 ranks",
    "scans of shared and of private arrays",
    "ring, 3 ranks",
    "ordered reduce",
    "ordered reduce, 3 ranks",
    "reduce by the ring, 3 ranks",
    "reduce_scatter by the ring",
    "reduce_scatter by the ring, 3 ranks",
    "reduce_scatter_v",
    "ordered reduce_scatter, 3 ranks",
    "chain",
    "chain, 3 ranks",
    "chain of exscan, 3 ranks",
    "gather",
    "gather, 3 ranks",
    "all_to_all",
    "all_to_all, 3 ranks",
    "all_to_all_v, 3 ranks",
    "gather_v",
    "gather_v, 3 ranks",
    "gather_v, one sender is done early",
    "scatter_v",
    "scatter_v, 3 ranks",
    "scatter_v, one receiver is done early",
    "all_gather_v",
    "all_gather_v, 3 ranks",
    "broadcast, 3 ranks",
    "broadcast of 4 rounds, 3 ranks",
    "broadcast of 4 rounds, cells move on",
    "all_gather, 3 ranks",
    "scatter, 3 ranks",
    "scatter refused, 3 ranks",
    "permute in a ring, 3 ranks",
    "permute in a chain, 3 ranks",
    "permute with itself, 3 ranks",
    "halo of a line, 3 ranks",
    "halo of 2 axes, 4 ranks",
    "all_to_all of lists, 3 ranks",
    "exposed all_gather",
    "exposed all_gather, 3 ranks",
    "exposed by one of two, all_gather",
    "exposed broadcast",
    "exposed broadcast, 3 ranks",
    "exposed by one of two senders, gather",
    "exposed scatter",
    "exposed all_to_all",
    "exposed by one of two, all_to_all",
    "exposed permute",
    "exposed permute, one way",
    "exposed all_gather_v",
    "exposed by one of two, all_gather_v",
    "exposed all_to_all_v",
    "exposed gather_v",
    "exposed scatter_v",
    "witness",
    "a message longer than the ring",
    "messages round the ring",
    "messages that look like flags",
    "long messages both ways",
    "a message in vain",
    "a message in vain before its turn",
    "a message in vain that does not fit",
    "a message without memory",
    "an object",
    "an object longer than the ring",
    "sendrecv",
    "sendrecv round a circle",
    "sendrecv with who receives first",
    "sendrecv before its turn",
    "a long message before its turn",
    "a synchronous message before its turn, then the first",
    "a synchronous message that is found, then received",
    "a synchronous message that was overwritten",
    "a long synchronous message",
    "messages of anybody",
    "a posted receive, 3 ranks",
    "two threads",
    "two threads of both ranks",
    "two threads that receive from any",
    "two threads, 3 ranks",
    "two threads, and a long message",
    "batches",
    "a batch, 3 ranks",
    "a batch receives a long message",
    "an offered message",
    "an offered message after polling",
    "an offered message that may be read",
    "offered messages by tag",
    "offered messages both ways",
    "an offered synchronous message",
    "an offered message in vain",
    "an offered message that does not fit",
    "an offered message to a posted receive",
    "sendrecv of offered messages",
    "sendrecv of offered messages round a circle",
    "a receive that looks at two sleeps",
    "a receive that looks when the ring has gone round",
    "a receive that looks, 3 ranks",
    "a shared result, 3 ranks",
    "a lock of ranks, 3 ranks",
    "a shared result of an owner that leaves, 3 ranks",
    "a team of two helpers",
    "a team that two threads want",
]
#: their actors are threads, which are not killed one by one
THREADS = ["a team with one piece", "a team of threads", "a team of two helpers", "a team that two threads want"]
RETURNING = ["a rank returns", "a rank returns, 3 ranks"]


def marks(name: str, options: dict[str, bool]) -> tuple[pytest.MarkDecorator, ...]:
    """Return what leaves a search out of the quick tests, or of the slow ones as well."""
    if (name, options) in LONGEST_CASES:
        return (pytest.mark.stress,)
    return (pytest.mark.slow,) if name in LONG_CASES else ()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, marks=marks(name, options))
        for name, options in (
            *((name, {}) for name in PLAIN_CASES),
            *((name, BUFFERED) for name in BUFFERED_CASES),
            *((name, REORDERED) for name in REORDERED_CASES),
            *((name, KILLS) for name in KILL_CASES),
            ("park in turn", BOTH),
            *((name, SIGNAL) for name in EVENT_CASES),
            (LIMIT_CASE, PASSING),
        )
    ],
)
def test_every_schedule(name: str, options: dict[str, int]) -> None:
    report = exhaust(SCENARIOS[name].machine(**options))
    print(report.states, "states,", report.transitions, "transitions")
    tally.count("small jobs of which every schedule was tried")
    tally.count("states of these", report.states)
    killed = {status for outcome in report.outcomes for status in outcome if status == "killed"}
    assert bool(killed) == ("kills" in options), "the search did not do what it was asked to"


@pytest.mark.parametrize("name", RETURNING)
def test_who_waits_for_a_rank_that_has_returned(name: str) -> None:
    """It learns so from the record, without any slice that ends by itself: no ring of the one that returns is lost."""
    report = exhaust(SCENARIOS[name].machine())
    assert all(set(outcome) == {c.OK, c.PEER_LOST} for outcome in report.outcomes)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(pytest.param(name, {}, id=f"{name}-plain") for name in LARGE_CASES),
        *(pytest.param(name, options, id=f"{name}-{min(options)}") for name, options in LONGEST_CASES if options),
        *(
            pytest.param(name, BUFFERED, id=f"{name}-buffered", marks=pytest.mark.slow)
            for name in LARGE_CASES
            if name in THREADS
        ),
        *(
            pytest.param(name, BOTH, id=f"{name}-both", marks=pytest.mark.stress if i % 2 else pytest.mark.slow)
            for i, name in enumerate(LARGE_CASES)
            if name not in THREADS
        ),
    ],
)
def test_random_schedules(name: str, options: dict[str, bool], seed: int) -> None:
    sample(SCENARIOS[name].machine(**options), seed, runs=RUNS)
    tally.count("random schedules of larger jobs", RUNS)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(SIGNAL, id="signal", marks=pytest.mark.slow),
        pytest.param({"signals": 3}, id="signals"),
        pytest.param(SIGNAL | BOTH, id="both", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", [*LARGE_EVENT_CASES, *EVENT_CASES])
def test_random_schedules_with_events(name: str, options: dict[str, int], seed: int) -> None:
    sample(SCENARIOS[name].machine(**options), seed, runs=RUNS)
    tally.count("random schedules of larger jobs", RUNS)


@pytest.mark.stress
@pytest.mark.parametrize("options", [{}, KILLS], ids=["plain", "kills"])
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in RETURNING + THREADS])
def test_some_schedules_of_all(name: str, options: dict[str, bool], seed: int) -> None:
    """For `make coverage`."""
    sample(SCENARIOS[name].machine(**options), seed, runs=20)


@pytest.mark.stress
@pytest.mark.parametrize("options", [{}, BUFFERED, KILLS, BOTH], ids=["plain", "buffered", "kills", "both"])
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in RETURNING + THREADS])
def test_every_schedule_of_all(name: str, options: dict[str, bool], seed: int) -> None:
    """What has more states than half a minute allows is sampled at length."""
    machine = SCENARIOS[name].machine(**options)
    try:
        states = exhaust(machine, limit=600_000).states
        print(states, "states")
        tally.count("small jobs of which every schedule was tried")
        tally.count("states of these", states)
    except TooLarge:
        print(sample(machine, seed, runs=4_000, changes=8).transitions, "steps of random schedules")
        tally.count("random schedules of larger jobs", 4_000)
