"""Whole jobs of `shmrun`, started as users start them: how long a short one takes, and how much memory ranks use.

Private is the memory that no other process maps (`Private_` in /proc/self/smaps_rollup). Ranks with interpreters of
their own read it before they import shmcoll and after an all_reduce; ranks that shmrun has forked share most of theirs.
"""

import subprocess
import sys
import tempfile
import time

from shmbench.timing.ab_timing import Row, Settings
from shmbench.timing.launch import Failed
from shmcoll.engine.system.interpreter import flags

SECONDS = 60
START = {8: 0.5, 64: 1.2}  # ranks, and what is asked
RANKS = 64
MIB = 1 << 20
BARRIER = "import shmcoll\nshmcoll.init().barrier()\n"
PRIVATE = """
import numpy as np
import numba


def private():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))


before = private()
import shmcoll

comm = shmcoll.init()
comm.barrier()
total = comm.all_reduce(np.ones(2, np.float32))
assert total.tolist() == [2.0, 2.0]
most = comm.all_reduce(np.array([private() - before]), "max")
if comm.rank == 0:
    print(most[0])
"""
COMMITTED = """
import os
import numpy as np
import shmcoll

arena = int(os.environ["SHMCOLL_ARENA"].partition(":")[0])
comm = shmcoll.init()
total = comm.all_reduce(np.ones(2, np.float32))
assert total.tolist() == 2 * [comm.size]
if comm.rank == 0:
    print(512 * os.fstat(arena).st_blocks)
comm.barrier()
"""


def start(settings: Settings) -> list[Row]:
    """Measure from the command to its end: a script that imports shmcoll and does one barrier."""
    counts = {settings.ranks(usual): asked for usual, asked in START.items()}
    seconds: dict[int, list[float]] = {ranks: [] for ranks in counts}
    for _ in range(1 + settings.rounds):  # the first warms up
        for ranks in counts:
            began = time.perf_counter()
            _printed(BARRIER, ranks)
            seconds[ranks].append(time.perf_counter() - began)
    return [
        Row(f"shmrun -n {ranks}: import, a barrier, the end", seconds[ranks][1:], asked=asked)
        for ranks, asked in counts.items()
    ]


def memory(settings: Settings) -> list[Row]:
    """Measure the private memory of a rank beyond numpy and numba, and the size of the arena of many ranks."""
    ranks = settings.ranks(RANKS)
    private = [float(_printed(PRIVATE, 2, "--fresh")) for _ in range(settings.rounds)]
    committed = [float(_printed(COMMITTED, ranks))]
    return [
        Row("private memory of a rank beyond numpy, numba", private, asked=10 * MIB, unit="B"),
        Row(f"committed in the arena of {ranks} ranks", committed, asked=256 * MIB, unit="B"),
    ]


def _printed(text: str, ranks: int, *options: str) -> str:
    """Return what a script prints. Raises `Failed` with the last line of the error, also if the time is over."""
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as script:
        script.write(text)
        script.flush()
        command = [sys.executable, *flags(), "-m", "shmrun", "-n", str(ranks), *options, script.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"shmrun -n {ranks}: not done after {SECONDS} s") from None
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"shmrun -n {ranks}: exit code {done.returncode}: {(told or ['nothing printed'])[-1]}")
    return done.stdout
