"""Statistics of profiles that are made up here: the verdict, the tables, the JSON."""

import json
from pathlib import Path

from shmcoll.profiling.spans import RankProfile, Total
from shmcoll.profiling.statistics import Statistics, statistics

S = 1_000_000_000


def profile(rank: int, *totals: Total, waited_for: dict[int, int] | None = None, seconds: float = 10) -> RankProfile:
    return RankProfile(
        rank, totals=list(totals), waited_for=waited_for or {}, begun=S, ended=S + int(seconds * S), dropped=rank
    )


def slow() -> Statistics:
    """Rank 2 of three keeps the others waiting, mostly."""
    small = Total("all_reduce", 8, 1000, 8000, 6 * S, 5 * S)
    quick = Total("all_reduce", 8, 1000, 8000, 1 * S, S // 10)
    large = Total("broadcast", 1 << 20, 3, 3 << 20, S // 2, 0)
    return statistics(
        [
            profile(0, small, large, waited_for={1: S // 2, 2: 9 * S // 2}),
            profile(1, small, large, Total("barrier", 0, 2, 0, 0, 0), waited_for={0: S // 2, 2: 9 * S // 2}),
            profile(2, quick, waited_for={0: S // 10}),
        ]
    )


def test_the_slow_rank() -> None:
    found = slow()
    assert (
        str(found)
        == """\
The ranks spend 47% of their time in calls: 34% waiting for other ranks, 13% moving bytes.
Rank 2 is slow: each other rank waited 4.5 s for it, 89% of all waiting for single ranks. It waited 100 ms itself.
Of the time that moves bytes, 74% is in all_reduce of 8 B and more.

rank  time  in calls  waiting  others waited for it
   0  10 s       65%      50%                600 ms
   1  10 s       65%      50%                500 ms
   2  10 s       10%       1%                   9 s

operation     size  calls     bytes  time  waiting   bandwidth
all_reduce    8 B+   3000  23.4 KiB  13 s      78%  8.08 KiB/s
broadcast   1 MiB+      6     6 MiB   1 s       0%     6 MiB/s
barrier        0 B      2       0 B  0 us        -           -"""
    )


def test_the_document(tmp_path: Path) -> None:
    slow().write_json(str(tmp_path / "stats.json"))
    found = json.loads((tmp_path / "stats.json").read_text())
    assert found.keys() == {"format", "slow_rank", "in_calls", "waiting", "verdict", "ranks", "operations"}
    assert (found["format"], found["slow_rank"], found["verdict"]) == (1, 2, slow().verdict())
    assert found["ranks"][2] == {
        "rank": 2, "node": 0, "seconds": 10, "in_calls": 1, "waiting": 0.1, "waited_for": 9, "dropped": 2,
    }  # fmt: skip
    first = found["operations"][0]
    assert round(first.pop("bandwidth")) == round(24000 / 2.9)
    assert first == {
        "operation": "all_reduce", "size": 8, "calls": 3000, "bytes": 24000, "seconds": 13, "waiting": 10.1,
    }  # fmt: skip


def test_it_is_not_communication() -> None:
    found = statistics([profile(rank, Total("barrier", 0, 9, 0, S // 10, S // 10)) for rank in range(2)])
    assert found.slow_rank() is None
    assert found.verdict() == [
        "The ranks spend 1% of their time in calls: 1% waiting for other ranks, 0% moving bytes.",
        "It is not communication: look at what the ranks compute between their calls.",
    ]


def test_ranks_that_wait_in_turn() -> None:
    waits = Total("barrier", 0, 9, 0, 4 * S, 4 * S)
    found = statistics([profile(rank, waits, waited_for={1 - rank: 4 * S}) for rank in range(2)])
    assert found.slow_rank() is None
    assert found.verdict()[1:] == [
        "The ranks wait for one another in turn: no rank is slower than the others all the time."
    ]


def test_bytes_take_the_time() -> None:
    moves = Total("all_to_all", 1 << 20, 9, 9 << 20, 8 * S, S // 10)
    found = statistics([profile(rank, moves, waited_for={1 - rank: S // 10}) for rank in range(2)])
    assert found.verdict()[1:] == ["Of the time that moves bytes, 100% is in all_to_all of 1 MiB and more."]


def test_nothing_has_been_called() -> None:
    for none in (statistics([]), statistics([profile(0)]), statistics([profile(0, seconds=0)])):
        assert none.verdict() == ["No rank has called anything while it was recorded."]
        assert "rank" in str(none) and none.document()["slow_rank"] is None


def test_only_the_longest_operations_have_rows() -> None:
    found = statistics([profile(0, *(Total("all_reduce", 1 << i, 2, 2 << i, i, 0) for i in range(20)))])
    rows = str(found).splitlines()[-9:]
    assert rows[1].startswith("all_reduce  512 KiB+") and rows[-1].startswith("13 others")
    assert len(found.document()["operations"]) == 20
