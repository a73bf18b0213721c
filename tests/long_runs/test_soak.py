"""A soak run: random operations, and somebody who kills a rank every 5 s; the survivors go on, and then a new job.

SHMCOLL_SOAK    seconds; 60
"""

import json
import os
import random
import signal
import time
from typing import Any

import pytest

from tests.support import kills, leaks, prepare, soaking

pytestmark = pytest.mark.stress

SECONDS = float(os.environ.get("SHMCOLL_SOAK") or 60)
RANKS = 6
PAUSE = 5.0  # seconds between kills, on the average
STILL = 25.0  # seconds without a step of anybody, after which a job hangs


class Punisher:
    """Kills a rank of a job now and then; stops one, too, and lets it go on."""

    def __init__(self, draw: random.Random, job: Any, lenient: bool):
        self.draw, self.job = draw, job
        self.mercy = 1.0 if lenient else 0.3  # how often it only stops a rank
        self.kills = self.stops = 0
        self.next = self._later()

    def _later(self) -> float:
        return time.monotonic() + self.draw.uniform(0.5, 1.5) * PAUSE

    def look(self) -> None:
        if time.monotonic() < self.next:
            return
        self.next = self._later()
        victims = kills.ranks_of(self.job.pid)
        if len(victims) <= soaking.FEWEST:
            return
        victim = self.draw.choice(victims)
        if self.draw.random() < self.mercy:
            victim.suspend()
            time.sleep(self.draw.uniform(0, 1))
            victim.resume()
            self.stops += 1
        else:
            victim.kill()
            self.kills += 1


def soak_one(shmrun: Any, draw: random.Random, seconds: float, lenient: bool) -> tuple[Punisher, list[dict[str, Any]]]:
    """One job, to its end; returns what its survivors report. `lenient`: ranks are stopped and not killed."""
    for file in shmrun.folder.iterdir():
        file.unlink()
    seed = draw.getrandbits(32)
    job = shmrun.start("-n", RANKS, "--on-failure", "continue", soaking.__file__, seed, seconds)
    punisher, steps, moved = Punisher(draw, job, lenient), "", time.monotonic()
    while job.poll() is None:
        punisher.look()
        if steps != (now := "".join(file.read_text() for file in shmrun.folder.glob("steps*"))):
            steps, moved = now, time.monotonic()
        if time.monotonic() - moved > STILL:
            pytest.fail(f"seed {seed}: a hang:\n{shmrun('inspect', job.pid, '--stacks').stdout}", pytrace=False)
        time.sleep(0.01)
    _, err = job.communicate()
    reports = [json.loads(file.read_text()) for file in shmrun.folder.glob("report*")]
    wrong = [report["wrong"] for report in reports if report["wrong"]]
    assert not wrong, f"seed {seed}: {wrong}\n{err}"
    assert len(reports) == RANKS - punisher.kills, f"seed {seed}: {err}"
    assert job.returncode == (128 + signal.SIGKILL if punisher.kills else 0), err
    return punisher, reports


def growth(report: dict[str, Any], what: str) -> float:
    """By how much what a rank cannot give back was more in the last quarter of its life than in the second."""
    values = [mark[what] for mark in report["marks"]]
    quarter = len(values) // 4
    return min(values[-quarter:]) - min(values[quarter : 2 * quarter])


def test_soak(shmrun: Any, seed: int) -> None:
    """The first quarter of the time goes to one job whose ranks live on, and must not grow."""
    prepare.load(reductions=True)  # here, and not in the ranks, which would import the compiler
    draw, before, begun = random.Random(seed), leaks.snapshot(), time.monotonic()
    _, lasting = soak_one(shmrun, draw, SECONDS / 4, lenient=True)
    jobs = killed = stopped = steps = 0
    while (left := SECONDS - (time.monotonic() - begun)) > 0:
        punisher, reports = soak_one(shmrun, draw, left, lenient=False)
        assert leaks.left_since(before) == []
        jobs, killed, stopped = jobs + 1, killed + punisher.kills, stopped + punisher.stops
        steps += max(report["steps"] for report in reports)
    descriptors, memory, held = (max(growth(r, what) for r in lasting) for what in ("descriptors", "memory", "held"))
    print(
        f"figure: {SECONDS:.0f} s, {jobs} jobs of {RANKS} ranks, {killed} kills, {stopped} stops, "
        f"{steps + lasting[0]['steps']:,} steps: 0 hangs, 0 wrong results, nothing left; ranks that lived "
        f"{SECONDS / 4:.0f} s: memory {memory:+.1f} MiB, of the arena {held:+.1f} MiB, descriptors {descriptors:+.0f}"
    )
    assert descriptors <= 0
    assert memory < 8 or SECONDS < 400  # allocators grow until each size of array has come up often enough
    assert held < 4
