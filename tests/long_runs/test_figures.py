"""The figures of docs/reliability.md, measured: each test prints one line that begins with 'figure:'.

All are long forms: `make stress ARGS='tests/long_runs -s'`. Other figures are measured beside what they are about, in
other folders. What is merely counted is printed at the end of a run (`tests/support/tally.py`).
"""

import mmap
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shmcoll.errors import RankFailed
from tests.support import kills, leaks
from tests.support.calls import LONG, SHORT, barrier
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.stress

KILLS, CYCLES, BARRIERS, INSTANTS = 1000, 500, 100_000, 200


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def until_it_fails(comm: Any, operation: str, sizes_late: np.ndarray) -> str:
    """Call until the group ends; note when this rank knew."""
    call = (SHORT | LONG)[operation]
    try:
        while True:
            call(comm)
    except RankFailed as error:
        sizes_late[comm.rank] = time.monotonic_ns()
        return str(error)


def test_a_thousand_kills_are_told_right_and_soon(ranks: Any, allowed: Any, seed: int) -> None:
    board = np.frombuffer(mmap.mmap(-1, 4096), np.int64)
    draw, seconds = random.Random(seed), []
    for i in range(KILLS):
        n, operation = draw.choice((2, 3, 4, 8)), draw.choice([*SHORT, *LONG])
        victim = draw.randrange(n)
        job = ranks.start(n, until_it_fails, operation, board, tell=i % 2 == 0)
        job.until(lambda job=job, v=victim: job.sequence(v) > 0, "the victim calls")
        time.sleep(draw.random() * 0.01)
        killed = time.monotonic_ns()
        os.kill(job.pids[victim], signal.SIGKILL)
        for outcome in job.finish():
            if outcome.rank != victim:
                assert outcome.error is None, outcome.traceback
                assert f"rank {victim} " in outcome.value.partition(": ")[2], outcome.value
                seconds.append((int(board[outcome.rank]) - killed) / 1e9)
    told = ", ".join(f"p{round(100 * p)} {1e3 * percentile(seconds, p):.1f} ms" for p in (0.5, 0.99))
    print(f"figure: {KILLS} kills, the right rank named {KILLS} times, {told}, max {1e3 * max(seconds):.0f} ms")
    assert max(seconds) < allowed(1.0)


def make_barriers(comm: Any, times: int) -> int:
    for _ in range(times):
        comm.barrier()
    return times


def test_no_false_alarms_beside_a_busy_loop(ranks: Any) -> None:
    """16 ranks on the cores that there are, one of which somebody else uses too."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    begun = time.monotonic()
    try:
        assert ranks(16, make_barriers, BARRIERS, deadline=3600.0) == [BARRIERS] * 16
    finally:
        busy.kill()
        busy.wait()
    print(f"figure: {BARRIERS:,} barriers of 16 ranks beside a busy loop: 0 alarms, {time.monotonic() - begun:.0f} s")


def test_memory_stays_flat_over_jobs_that_are_killed(ranks: Any, seed: int) -> None:
    draw, process = random.Random(seed), psutil.Process()
    marks = []
    for i in range(CYCLES):
        victim = draw.randrange(3)
        job = ranks.start(3, again_until_it_fails, tell=i % 2 == 0)
        job.until(lambda job=job, v=victim: job.sequence(v) > 0, "the victim calls")
        os.kill(job.pids[victim], signal.SIGKILL)
        assert all(f"rank {victim} " in o.value for o in job.finish() if o.rank != victim)
        del job
        ranks._jobs.clear()  # the fixture would keep them all
        if i >= CYCLES // 10:  # before, allocators still grow
            marks.append((process.memory_info().rss, process.num_fds()))
    grown = (marks[-1][0] - marks[0][0]) / (1 << 20)
    print(
        f"figure: {CYCLES} cycles create-kill-create: memory {grown:+.2f} MiB, descriptors {marks[0][1]}-{marks[-1][1]}"
    )
    assert grown < 1.0 and marks[0][1] == marks[-1][1]


def again_until_it_fails(comm: Any) -> str:
    try:
        while True:
            barrier(comm)
    except RankFailed as error:
        return str(error)


def test_nothing_is_left_of_jobs_killed_at_random_instants(tmp_path: Path, seed: int) -> None:
    """Launcher, a rank, or both, at instants from shmrun's start to within collectives."""
    program = tmp_path / "forever.py"
    program.write_text("import shmcoll\ncomm = shmcoll.init()\nwhile True: comm.barrier()\n")
    draw, before = random.Random(seed), leaks.snapshot()
    for number in range(INSTANTS):
        whom = ("launcher", "rank", "both")[number % 3]
        command = [sys.executable, "-m", "shmrun", "-n", "3", str(program)]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.random() * 1.2)
        ranks = kills.ranks_of(job.pid)
        if whom != "launcher" and ranks:
            draw.choice(ranks).kill()
        if whom != "rank" or not ranks:
            job.kill()
        job.wait(timeout=PATIENCE)
        left = leaks.left_since(before)
        assert not left, f"seed {seed}, kill {number} of {whom}: {left}"
    print(f"figure: {INSTANTS} random instants of killing launcher, rank or both: 0 names, processes, descriptors left")
