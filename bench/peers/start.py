"""One rank of a job that `shmbench start` times: `mpiexec -n 2 python start.py mpi numpy`.

It imports its library, makes one barrier, and ends. With `numpy` it imports that, too; with `memory` it prints between
two barriers how many KiB it has, where what several ranks share counts once.
"""

import sys

library, *more = sys.argv[1:]
if "numpy" in more:
    import numpy  # noqa: F401
if library == "shmcoll":
    import shmcoll

    barrier = shmcoll.init().barrier
else:
    from mpi4py import MPI

    barrier = MPI.COMM_WORLD.Barrier
barrier()
if "memory" in more:
    with open("/proc/self/smaps_rollup", encoding="utf-8") as file:
        print(next(line.split()[1] for line in file if line.startswith("Pss:")), flush=True)
    barrier()
