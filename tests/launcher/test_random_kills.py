"""kill -9 of shmrun, its launcher or a rank, at instants from its first to within collectives: nothing is left."""

import contextlib
import itertools
import math
import os
import random
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support import kills, leaks

pytestmark = pytest.mark.slow

RANKS = 4
WAYS = {"fork": (), "fresh": ("--fresh",)}


@pytest.fixture(autouse=True)
def no_rank_stays(shmrun):
    """Where a test has failed."""
    yield
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(shmrun.folder):
                process.kill()


def kill_at_random_instants(shmrun, way, seed, times, limit=math.inf):
    draw = random.Random(seed)
    command = ("-n", RANKS, *WAYS[way], shmrun.write(kills.FOREVER))
    before = leaks.snapshot()
    life = kills.life_of(lambda: _seconds_until_collectives(shmrun, command))
    for number, instant in enumerate(kills.instants(draw, times, 1.3 * life, limit)):
        victim = draw.choice(("shmrun", "launcher", "rank"))
        print(f"seed {seed}: kill {number}: {victim}, {instant:.4f} s after the start")
        job = shmrun.start(*command)
        time.sleep(instant)
        if victim == "shmrun":
            job.kill()
        else:
            among = kills.children if victim == "launcher" else kills.ranks_of
            kills.kill_one(draw, lambda among=among, job=job.pid: among(job))
        _, err = kills.end_of(job, f"ranks live on after kill -9 of the {victim}")
        if victim != "rank":
            assert job.returncode == -signal.SIGKILL
        else:
            assert job.returncode == 128 + signal.SIGKILL, err
            assert re.match(r"shmrun: rank \d was killed by signal 9", err.splitlines()[-1]), err
        kills.nothing_left(before)


def _seconds_until_collectives(shmrun, command):
    begun = time.monotonic()
    job = shmrun.start(*command)
    for _ in range(RANKS):
        assert job.stdout.readline() == "joined\n"
    life = time.monotonic() - begun
    job.kill()
    kills.end_of(job, "ranks live on after kill -9 of shmrun")
    return life


@pytest.mark.parametrize("way", ["fork", pytest.param("fresh", marks=pytest.mark.stress)])
def test_kill_9_leaves_nothing(shmrun, seed, way):
    kill_at_random_instants(shmrun, way, seed, 4, kills.LIMIT)


@pytest.mark.stress
@pytest.mark.parametrize("way", WAYS)
def test_kill_9_leaves_nothing_often(shmrun, seed, way):
    kill_at_random_instants(shmrun, way, seed, 100)


@pytest.mark.stress
def test_kill_9_of_shmrun_at_each_line_that_makes_the_arena(shmrun):
    """The window in which the arena has a name is too short for random instants."""
    shmrun.write(kills.AT_LINE + "from shmrun.__main__ import main\nsys.exit(main())", "launcher.py")
    before = leaks.snapshot()
    for line in itertools.count(1):
        environment = {**os.environ, "AT_LINE": str(line), "FILES": "shmcoll/engine/memory/arena.py"}
        command = [sys.executable, "launcher.py", "-n", "1", "true"]
        status = subprocess.run(command, cwd=shmrun.folder, env=environment, timeout=kills.DEADLINE).returncode
        kills.nothing_left(before)
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert line > 20  # else the lines have not been looked at
