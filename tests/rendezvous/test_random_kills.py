"""kill -9 of a rank that nobody watches, at any instant from its start to within collectives.

The others end by themselves, and say why. A name stays only when its maker was killed before it took the name away:
then the next job replaces it at once.
"""

import itertools
import math
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shmcoll.startup.launchers import find_placement
from tests.support import kills, leaks
from tests.support.named_arenas import files_of
from tests.support.waiting import comes_true

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]
Ranks = dict[int, "subprocess.Popen[str]"]

SIZE = 3
SOON = 0.04  # seconds

#: Where rank 0 ends, and what makes it do so.
INSTANTS = {
    "the arena is half made": "os.posix_fallocate = end",
    "all are let in": "rendezvous.meet = lambda *a, meet=rendezvous.meet, **o: (meet(*a, **o), end())",
}
ENDS_WHEN = """
import os, signal, sys
from shmcoll.startup import rendezvous
def end(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "0" and "LAST" not in os.environ: {instant}
"""


class Meeting:
    """Ranks that are told their place by arguments ("by hand"), or by the variables that torchrun sets."""

    def __init__(self, start: Start, way: str):
        self._start = start
        self._by_hand = way == "by hand"
        # Jobs that others run on this machine meanwhile have other names, and so has the test before
        self._job = f"kills-{os.getpid()}-{time.monotonic_ns()}"
        place = None if self._by_hand else find_placement(self._variables(0))
        key = place.key if place else f"explicit:{self._job}"
        self.key = key

    def start(self, order: list[int], patience: float, **variables: str) -> Ranks:
        limit = {"SHMCOLL_JOIN_TIMEOUT": f"{patience:.3f}"}
        if self._by_hand:
            return {r: self._start(r, SIZE, self._job, **variables, **limit) for r in order}
        return {r: self._start(**self._variables(r), **variables, **limit) for r in order}

    def run_next(self) -> None:
        """Another job of the same name, which ends well and leaves no name."""
        for process in self.start(list(range(SIZE)), 30.0, LAST="1").values():
            out, err = kills.end_of(process, "the next job does not end")
            assert (out, err, process.returncode) == ("joined\n", "", 0)
        assert not files_of(self.key)

    def _variables(self, rank: int) -> dict[str, str]:
        return {
            "TORCHELASTIC_RUN_ID": self._job,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": "29500",
            "RANK": str(rank),
            "WORLD_SIZE": str(SIZE),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(SIZE),
        }


@pytest.fixture
def meeting(request: pytest.FixtureRequest, start: Start) -> Iterator[Meeting]:
    meeting = Meeting(start, getattr(request, "param", "by hand"))
    yield meeting
    for path in files_of(meeting.key):  # where the test has failed
        path.unlink(missing_ok=True)


in_both_ways = pytest.mark.parametrize(
    "meeting", ["by hand", pytest.param("by environment", marks=pytest.mark.stress)], indirect=True
)


def kill_at_random_instants(meeting: Meeting, seed: int, times: int, limit: float = math.inf) -> None:
    draw = random.Random(seed)
    before = leaks.snapshot()
    life = kills.life_of(lambda: _seconds_until_collectives(meeting))
    for number, instant in enumerate(kills.instants(draw, times, 1.3 * life, limit)):
        victim, order = draw.randrange(SIZE), draw.sample(range(SIZE), SIZE)
        what = ("the start", "the name comes", "the name goes")[number % 3]
        delay = instant if what == "the start" else SOON * draw.random() ** 3  # most of them very soon
        print(f"seed {seed}: kill {number}: rank {victim} of {order}, {delay:.6f} s after {what}")
        ranks = meeting.start(order, patience=life / 2)
        _wait_for(what, meeting.key)
        time.sleep(delay)
        ranks[victim].kill()
        _judge(ranks, victim)
        if files_of(meeting.key):
            meeting.run_next()
        kills.nothing_left(before)
    meeting.run_next()


def _seconds_until_collectives(meeting: Meeting) -> float:
    begun = time.monotonic()
    ranks = meeting.start(list(range(SIZE)), patience=30.0)
    for process in ranks.values():
        assert process.stdout and process.stdout.readline() == "joined\n"
    life = time.monotonic() - begun
    ranks[0].kill()
    _judge(ranks, 0)
    return life


def _wait_for(what: str, key: str) -> None:
    """Soon after the name has come or gone much happens in little time. (Both may be too quick to be seen here.)"""
    end = time.monotonic() + 1.0
    for there in {"the name comes": [True], "the name goes": [True, False]}.get(what, []):
        comes_true(lambda: bool(files_of(key)) == there, end - time.monotonic())  # noqa: B023


def _judge(ranks: Ranks, victim: int, *, may_end_well: bool = False) -> None:
    """All survivors end by themselves, with an error that says why; so may the victim have, before it was killed."""
    for rank, process in ranks.items():
        _, err = kills.end_of(process, f"rank {rank} does not end after kill -9 of rank {victim}")
        if (rank != victim or process.returncode != -signal.SIGKILL) and not (may_end_well and process.returncode == 0):
            assert process.returncode == 1, err
            assert re.match(r"shmcoll\.errors\.(RankFailed|ShmcollError): ", err.splitlines()[-1]), err


@in_both_ways
def test_kill_9_leaves_nothing(meeting: Meeting, script: Path, seed: int) -> None:
    script.write_text(kills.FOREVER)
    kill_at_random_instants(meeting, seed, 4, kills.LIMIT)


@pytest.mark.stress
@in_both_ways
def test_kill_9_leaves_nothing_often(meeting: Meeting, script: Path, seed: int) -> None:
    script.write_text(kills.FOREVER)
    kill_at_random_instants(meeting, seed, 100)


@pytest.mark.parametrize("instant", INSTANTS)
def test_kill_9_of_rank_0_when(meeting: Meeting, script: Path, instant: str) -> None:
    script.write_text(ENDS_WHEN.format(instant=INSTANTS[instant]) + kills.FOREVER)
    ranks = meeting.start(list(range(SIZE)), patience=1.0)
    _judge(ranks, 0)
    assert ranks[0].returncode == -signal.SIGKILL
    meeting.run_next()


@pytest.mark.stress
def test_kill_9_of_rank_0_at_each_line_of_the_way_in(meeting: Meeting, script: Path) -> None:
    script.write_text(kills.AT_LINE + kills.FOREVER)
    files = "startup/rendezvous.py startup/arena_names.py startup/join.py engine/memory/arena.py"
    before = leaks.snapshot()
    for line in itertools.count(1):
        print(f"rank 0 ends at line {line}")
        ranks = meeting.start([0], 0.5, AT_LINE=str(line), FILES=files, LAST="1")
        ranks |= meeting.start([1, 2], 0.5, LAST="1")
        _judge(ranks, 0, may_end_well=True)
        if files_of(meeting.key):
            meeting.run_next()
        kills.nothing_left(before)
        if ranks[0].returncode == 0:
            break
    assert line > 50  # else the lines have not been looked at
