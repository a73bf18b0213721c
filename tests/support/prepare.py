"""Routines and kernels loaded into the test process, so that the ranks it forks have them."""

import sys

from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler.compile import all_kernels, load_kernel, load_routine
from shmcoll.startup.warm import fill_cache

USUAL = ("sum", "prod", "min", "max", "avg")


def load(reductions: bool) -> None:
    """Load the usual routines and kernels; `reductions`: those of all reductions, for tests that try each.

    What the cache lacks is compiled in a child: this process stays without numba.
    """
    wanted = [(d, r) for d, r in all_kernels() if reductions or r in USUAL]
    fill_cache([*RECORDS, *(f"{r}_{d.name}" for d, r in wanted)], _tell)
    for record in RECORDS.values():
        load_routine(record)
    for dtype, reduction in wanted:
        load_kernel(dtype, reduction)


def _tell(text: str) -> None:
    print(f"shmcoll: {text}", file=sys.stderr, flush=True)
