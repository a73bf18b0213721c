"""kill -9 of mpiexec, torchrun or one of their ranks, at instants from the first to within collectives.

No rank lives on. A name stays only when its maker was killed before it took the name away: then the next job replaces
it at once. What launchers leave of their own is not looked at. Those that are not there are skipped.
"""

import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support import kills, leaks
from tests.support.waiting import until

pytestmark = pytest.mark.slow

RANKS = 3
DEADLINE = 10.0  # seconds; reached only when a rank lives on


class Launched:
    """Jobs of one launcher, whose ranks run `script`.

    Output goes to a file, for the end of a pipe would have to wait for the last of the launcher's own processes.
    """

    def __init__(self, command: list[str], script: Path, environment: dict[str, str]):
        self._rank = [sys.executable, str(script)]
        self._command = [*command, str(script)]
        self._environment = {**environment, "TMPDIR": str(script.parent)}
        self._output = script.parent / "output"

    def start(self, **variables: str) -> "subprocess.Popen[bytes]":
        environment = {**self._environment, **variables}
        with self._output.open("wb") as output:
            return subprocess.Popen(self._command, env=environment, stdout=output, stderr=subprocess.STDOUT)

    def output(self) -> str:
        return self._output.read_text()

    def ranks(self) -> list[psutil.Process]:
        """The living ranks; one whose launcher is dead is a child of the test by now."""
        return [process for process in psutil.Process().children(recursive=True) if self._is_rank(process)]

    def _is_rank(self, process: psutil.Process) -> bool:
        try:
            return bool(process.cmdline() == self._rank)
        except psutil.Error:  # it has ended
            return False


@pytest.fixture(params=["openmpi", "mpich", pytest.param("torch", marks=pytest.mark.stress)])
def launched(
    request: pytest.FixtureRequest,
    launcher_command: Callable[[str], list[str]],
    script: Path,
    environment: dict[str, str],
) -> Iterator[Launched]:
    script.write_text(kills.FOREVER)
    launched = Launched(launcher_command(request.param), script, environment)
    yield launched
    for rank in launched.ranks():  # where the test has failed
        rank.kill()


def kill_at_random_instants(launched: Launched, seed: int, times: int, limit: float = math.inf) -> None:
    draw = random.Random(seed)
    before = leaks.snapshot()
    life = kills.life_of(lambda: _seconds_until_collectives(launched))
    for number, instant in enumerate(kills.instants(draw, times, 1.3 * life, limit)):
        victim = draw.choice(("launcher", "rank"))
        print(f"seed {seed}: kill {number}: {victim}, {instant:.4f} s after the start")
        job = launched.start(SHMCOLL_JOIN_TIMEOUT="1.5")  # the others wait so long for a rank killed before it joins
        time.sleep(instant)
        if victim == "launcher":
            job.kill()
        else:
            kills.kill_one(draw, launched.ranks)
        assert job.wait(DEADLINE) != 0
        until(lambda: not launched.ranks(), f"ranks live on after kill -9 of the {victim}", DEADLINE)
        if leaks.snapshot()["name in /dev/shm"] - before["name in /dev/shm"]:
            _run_next_job(launched)
        kills.nothing_left(before)
    _run_next_job(launched)


def _seconds_until_collectives(launched: Launched) -> float:
    begun = time.monotonic()
    job = launched.start()
    until(lambda: launched.output().count("joined\n") == RANKS, "ranks do not join", 50.0)
    life = time.monotonic() - begun
    launched.ranks()[0].kill()
    job.wait(DEADLINE)
    return life


def _run_next_job(launched: Launched) -> None:
    status = launched.start(LAST="1").wait(kills.DEADLINE)
    assert (status, launched.output().count("joined\n")) == (0, RANKS), launched.output()


def test_kill_9_leaves_nothing(launched: Launched, seed: int) -> None:
    kill_at_random_instants(launched, seed, 2, kills.LIMIT)


@pytest.mark.stress
def test_kill_9_leaves_nothing_often(launched: Launched, seed: int) -> None:
    kill_at_random_instants(launched, seed, 100)
