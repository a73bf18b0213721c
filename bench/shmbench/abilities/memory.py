"""Memory: what a rank has for itself beyond numpy and numba, and what the arena of many ranks takes.

Private is what no other process maps too (`Private_` in /proc/self/smaps_rollup). Ranks with interpreters of their own
read it before they import shmcoll and after an all_reduce; ranks that shmrun has forked share most of theirs.
"""

import tempfile
from pathlib import Path

from shmbench.abilities.script import run
from shmbench.contest import Row, Settings

RANKS = 64
MIB = 1 << 20
SCRIPT = """
import os
import numpy as np
import numba


def private():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))


before = private()
import shmcoll

arena = int(os.environ["SHMCOLL_ARENA"].partition(":")[0])
comm = shmcoll.init()
comm.barrier()
total = comm.all_reduce(np.ones(2, np.float32))
assert total.tolist() == 2 * [float(comm.size)]
most = comm.all_reduce(np.array([private() - before]), "max")
if comm.rank == 0:
    print(most[0], 512 * os.fstat(arena).st_blocks)
"""


def rows(settings: Settings) -> list[Row]:
    ranks = settings.ranks(RANKS)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "memory.py"
        script.write_text(SCRIPT, encoding="utf-8")
        private = [float(run(script, 2, "--fresh").split()[0]) for _ in range(settings.rounds)]
        committed = float(run(script, ranks).split()[1])
    return [
        Row("private memory of a rank beyond numpy, numba", private, asked=10 * MIB, unit="B"),
        Row(f"committed in the arena of {ranks} ranks", [committed], asked=256 * MIB, unit="B"),
    ]
