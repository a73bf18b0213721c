"""kill -9 at random instants of a job's life: when, whom, and that nothing is left of the job then.

An instant synchronises nothing: whatever the job is doing then is what the kill meets. Tests print what they draw, so
that a failure shows which kill it was.
"""

import contextlib
import itertools
import random
import subprocess
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.support import leaks
from tests.support.waiting import until

DEADLINE = 30.0  # seconds; reached only when something hangs
LIMIT = 15.0  # seconds of an ordinary test, after which no other kill begins: on a busy machine a job takes long
COMPILING = 5.0  # seconds: a job that needs more until its first collective has compiled its routines

#: A rank that joins, by arguments or environment, and calls collectives until it fails; a few when it is told LAST.
FOREVER = """
import itertools, os, sys
import numpy as np
import shmcoll

arguments = dict(rank=int(sys.argv[1]), size=int(sys.argv[2]), job=sys.argv[3]) if len(sys.argv) > 1 else {}
comm = shmcoll.init(**arguments)
comm.barrier()
print("joined\\n", end="", flush=True)
for _ in range(9) if "LAST" in os.environ else itertools.count():
    assert comm.all_reduce(np.ones(3))[0] == comm.size
"""

#: Stands before a program: the process ends itself as it comes to its AT_LINE-th different line within FILES.
AT_LINE = """
import os, signal, sys

def end_at_line(frame, event, _, seen=set(), at=int(os.environ.get("AT_LINE", 0)), files=os.environ.get("FILES")):
    code = frame.f_code
    if code.co_name == "<module>" or not code.co_filename.endswith(tuple(files.split())):
        return None
    if event == "line":
        seen.add((code.co_filename, frame.f_lineno))
        if len(seen) == at:
            os.kill(os.getpid(), signal.SIGKILL)
    return end_at_line

if "AT_LINE" in os.environ:
    sys.settrace(end_at_line)
"""


def life_of(job: Callable[[], float]) -> float:
    """Seconds from the start until all ranks are within collectives on this machine; `job` measures them once."""
    life = job()
    return life if life < COMPILING else job()


def instants(draw: random.Random, times: int, span: float, limit: float) -> Iterator[float]:
    """Instants in seconds: one from each of `times` equal parts of `span`, in random order, for at most `limit` s."""
    drawn = [(part + draw.random()) * span / times for part in range(times)]
    draw.shuffle(drawn)
    end = time.monotonic() + limit
    return itertools.takewhile(lambda _: time.monotonic() < end, drawn)


def children(pid: int) -> list[psutil.Process]:
    """The living children of a process; none when it has ended."""
    try:
        return [child for child in psutil.Process(pid).children() if child.status() != psutil.STATUS_ZOMBIE]
    except psutil.NoSuchProcess:
        return []


def ranks_of(shmrun: int) -> list[psutil.Process]:
    """The living ranks of a job: children of the launcher, which is the child of the process started as shmrun."""
    return [rank for launcher in children(shmrun) for rank in children(launcher.pid)]


def kill_one(draw: random.Random, candidates: Callable[[], list[psutil.Process]]) -> None:
    """Kill one of the candidates, as soon as there are any."""

    def kill() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end meanwhile
            if found := candidates():
                draw.choice(found).kill()
                return True
        return False

    until(kill, "there was nothing to kill", DEADLINE)


def end_of(job: "subprocess.Popen[str]", otherwise: str) -> tuple[str, str]:
    """What a job has printed by the time that nobody holds its pipes any more; the test fails where somebody stays."""
    try:
        return job.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        pytest.fail(otherwise)


def nothing_left(before: leaks.Snapshot) -> None:
    """Fail when a process of the job is left, or a name in /dev/shm; its pipes the test has closed."""
    left = leaks.left_since(before)
    assert left == [], "\n".join(left)
