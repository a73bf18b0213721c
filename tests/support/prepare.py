"""Routines and kernels loaded into the test process, so that the ranks it forks have them."""

import os
import sys

from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.compiler.compile import all_kernels, load_kernel, load_routine
from shmcoll.engine.system.cores import usable_cores
from shmcoll.startup.warm import fill_cache

USUAL = ("sum", "prod", "min", "max", "avg")


def load(reductions: bool) -> None:
    """Load the usual routines and kernels; `reductions`: those of all reductions, for tests that try each.

    What the cache lacks is compiled in children, one a core: this process stays without numba.
    """
    wanted = [(d, r) for d, r in all_kernels() if reductions or r in USUAL]
    missing = [(d, r) for d, r in wanted if not object_cache.holds(f"{r}_{d.name}")]
    fill_cache(RECORDS, _tell)
    for record in RECORDS.values():
        load_routine(record)
    if missing:
        _tell(f"compiling {len(missing)} reduce kernels")
        workers = usable_cores()
        for pid in [_fork_to_compile(missing[i::workers]) for i in range(workers)]:
            os.waitpid(pid, 0)
    for dtype, reduction in wanted:
        load_kernel(dtype, reduction)


def _tell(text: str) -> None:
    print(f"shmcoll: {text}", file=sys.stderr, flush=True)


def _fork_to_compile(kernels: list) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for dtype, reduction in kernels:
                load_kernel(dtype, reduction)
            code = 0
        finally:
            os._exit(code)
    return pid
