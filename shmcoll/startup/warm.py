"""Compiling ahead: what the cache lacks, on all usable cores.

A job begins with the routines that nearly all use; the others are compiled or loaded when they are first called.

python -m shmcoll.startup.warm              compiles every routine that is missing, for images and CI
python -m shmcoll.startup.warm PID NAMES    what `fill_cache` of process PID starts, one a core; prints each name done
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable

from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.compiler.compile import all_kernels, load_gate, load_kernel, load_routine
from shmcoll.engine.kernels.dtypes import DType
from shmcoll.engine.system.cores import usable_cores
from shmcoll.startup.rank_process import die_with, interpreter, interpreter_environment

Progress = Callable[[str], None]

#: what nearly every job uses
USUAL = ("all_reduce", "barrier")
GATE = "gate"  # for jitted code
ALL = (*RECORDS, GATE)

# seconds on a machine of today: to import numba, and to compile one of them
_START, _ROUTINE, _REDUCTION = 3.0, 3.0, 0.4


def preload(progress: Progress | None = None) -> None:
    """Load the usual routines into this process; what the cache lacks is compiled before. Starts no thread."""
    fill_cache(USUAL, progress)
    for name in USUAL:
        load_routine(RECORDS[name], progress)


def kernels() -> dict[str, tuple[DType, str]]:
    """The kernels of all reductions, by the names that the cache has for them: reduction and dtype."""
    return {f"{reduction}_{dtype.name}": (dtype, reduction) for dtype, reduction in all_kernels()}


def fill_cache(names: Iterable[str], progress: Progress | None = None) -> None:
    """Compile the routines and kernels that are missing, in one process a usable core.

    One that fails is left to `load_routine` or `load_kernel`, which raises; until then its process says why.
    """
    missing = [name for name in names if not object_cache.holds(name)] if object_cache.can_keep() else []
    workers = min(usable_cores(), len(missing))
    if progress and missing:
        routines = sum(name in ALL for name in missing)
        reductions = len(missing) - routines
        what = " and ".join(_counted(n, unit) for n, unit in ((routines, "routine"), (reductions, "reduction")) if n)
        seconds = _START + (_ROUTINE * routines + _REDUCTION * reductions) / workers
        progress(f"compiling {what} for this machine, once; about {seconds:.0f} s")
    running = [
        subprocess.Popen(
            [*interpreter(), "-m", "shmcoll.startup.warm", str(os.getpid()), *missing[i::workers]],
            env=interpreter_environment(os.environ, sys.path),
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(workers)
    ]
    for process in running:
        assert process.stdout is not None
        for line in process.stdout:
            if progress:
                progress(f"compiled {line.strip()}")
        process.stdout.close()
        process.wait()


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}{'s' if number > 1 else ''}"


def main(names: list[str]) -> None:
    if not names:
        names = list(ALL)
        fill_cache(names, lambda text: print(f"shmcoll: {text}", file=sys.stderr))
    else:
        object_cache.leave_to_rank_0()
        die_with(int(names.pop(0)))  # of whose death we would not learn before we are done
    reductions = kernels()
    for name in names:
        if name == GATE:
            load_gate()
        elif name in RECORDS:
            load_routine(RECORDS[name])
        else:
            load_kernel(*reductions[name])
        print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
