"""Memory: the private memory of a rank beyond numpy and numba, and the size of the arena of many ranks.

Private is the memory that no other process maps (`Private_` in /proc/self/smaps_rollup). Ranks with interpreters of
their own read it before they import shmcoll and after an all_reduce; ranks that shmrun has forked share most of theirs.
"""

import tempfile
from pathlib import Path

from shmbench.features.script import run
from shmbench.timing.ab_timing import Row, Settings

RANKS = 64
MIB = 1 << 20
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


def rows(settings: Settings) -> list[Row]:
    ranks = settings.ranks(RANKS)
    private = [_printed(PRIVATE, 2, "--fresh") for _ in range(settings.rounds)]
    return [
        Row("private memory of a rank beyond numpy, numba", private, asked=10 * MIB, unit="B"),
        Row(f"committed in the arena of {ranks} ranks", [_printed(COMMITTED, ranks)], asked=256 * MIB, unit="B"),
    ]


def _printed(text: str, ranks: int, *options: str) -> float:
    """Return the number that a script prints."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "memory.py"
        script.write_text(text, encoding="utf-8")
        return float(run(script, ranks, *options))
