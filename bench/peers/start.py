"""One rank of a job that `shmbench start` times: `mpiexec -n 2 python start.py mpi numpy`.

It imports its library, makes one barrier, and ends. With `numpy` it imports that, too. With a folder it writes there,
between two barriers, how many KiB it has, where what several ranks share counts once.
"""

import os
import sys

library, wanted, folder = (*sys.argv[1:], "", "")[:3]
if wanted == "numpy":
    import numpy  # noqa: F401
if library == "shmcoll":
    import shmcoll

    barrier = shmcoll.init().barrier
else:
    from mpi4py import MPI

    barrier = MPI.COMM_WORLD.Barrier
barrier()
if folder:
    with open("/proc/self/smaps_rollup", encoding="utf-8") as file:
        size = next(line.split()[1] for line in file if line.startswith("Pss:"))
    with open(f"{folder}/{os.getpid()}", "w", encoding="utf-8") as file:
        file.write(size)
    barrier()
