"""Compiling ahead what is neither in the cache nor in the package, on all usable cores.

A job compiles only what it calls, at the first call.

python -m shmcoll.startup.warm              compiles every routine that is missing, for images and CI
python -m shmcoll.startup.warm PID NAMES    one process per core, started by `fill_cache` of process PID; prints each
                                            name done
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.compiler.compile import all_kernels, load_allocator, load_gate, load_kernel, load_routine
from shmcoll.engine.kernels.dtypes import DType
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.text import to_text
from shmcoll.startup.rank_process import die_with

Progress = Callable[[str], None]

#: routines that nearly every job uses
USUAL = ("all_reduce", "barrier")
GATE = "gate"  # for jitted code
OTHERS: dict[str, Callable[[], object]] = {
    GATE: load_gate,
    "array_allocator": load_allocator,
    "calls_over_nodes": lambda: _calls_over_nodes(),
}
ALL = (*RECORDS, *OTHERS)

_ROUTINE = 6  # time to compile a routine, in units of the time for a reduction


def _calls_over_nodes() -> object:
    """Load them. A job on one machine imports nothing of `nodes/`."""
    from shmcoll.nodes.native import collectives

    return collectives.load()


def preload(progress: Progress | None = None) -> None:
    """Load into this process the usual routines that have been compiled. Starts no thread.

    The ranks compile the others, because the job may never call them. If compiled code cannot be kept, they are
    compiled here, once for all ranks that are forks of this process.
    """
    for name in USUAL:
        if object_cache.holds(name) or not object_cache.can_keep():
            load_routine(RECORDS[name], progress)


def kernels() -> dict[str, tuple[DType, str]]:
    """Return the kernels of all reductions, by the names that the cache has for them: reduction and dtype."""
    return {f"{reduction}_{dtype.name}": (dtype, reduction) for dtype, reduction in all_kernels()}


def fill_cache(names: Iterable[str], progress: Progress | None = None) -> None:
    """Compile the routines and kernels that are missing, in one process per usable core.

    Each process imports numba once and compiles its share. If one fails, its process prints the reason, and
    `load_routine` or `load_kernel` raises the error later.
    """
    missing = [name for name in names if not object_cache.holds(name)] if object_cache.can_keep() else []
    if not missing:
        return
    report = progress or (lambda _text: None)
    routines = sum(name in ALL for name in missing)
    counts = (routines, "routine"), (len(missing) - routines, "reduction")
    report(f"compiling {' and '.join(counted(n, unit) for n, unit in counts if n)} for this machine, once")
    workers = min(usable_cores(), len(missing))
    begin = time.monotonic()
    done: list[str] = []
    reader, writer = os.pipe()
    with open(reader, "rb") as lines:
        try:
            running = [
                subprocess.Popen(
                    interpreter.command("shmcoll.startup.warm", os.getpid(), *missing[i::workers]),
                    env=interpreter.environment(os.environ, sys.path),
                    stdout=writer,
                    process_group=0,  # Ctrl-C reaches this process, whose end is theirs
                )
                for i in range(workers)
            ]
        finally:
            os.close(writer)
        for line in lines:  # each line is one write, so lines of several processes do not mix
            done.append(to_text(line).strip())
            report(f"compiled {done[-1]}: {_progress(done, missing, time.monotonic() - begin)}")
    for process in running:
        process.wait()


def _progress(done: list[str], missing: list[str], elapsed: float) -> str:
    """Return how many of them are done, and how long the others take at the present speed."""
    text = f"{len(done)} of {len(missing)}"
    left = _cost(missing) - _cost(done)
    return f"{text}, about {max(1.0, elapsed * left / _cost(done)):.0f} s left" if left else text


def _cost(names: list[str]) -> int:
    return sum(_ROUTINE if name in ALL else 1 for name in names)


def counted(number: int, unit: str) -> str:
    """Return '1 routine', '2 routines' and so on."""
    return f"{number} {unit}{'s' if number > 1 else ''}"


def main() -> None:
    interpreter.begin()
    names = sys.argv[1:]
    if not names:
        names = list(ALL)
        fill_cache(names, lambda text: print(f"shmcoll: {text}", file=sys.stderr))
    else:
        object_cache.leave_to_rank_0()
        die_with(int(names.pop(0)))  # we would not learn of its death before we are done
    reductions = kernels()
    for name in names:
        if name in OTHERS:
            OTHERS[name]()
        elif name in RECORDS:
            load_routine(RECORDS[name])
        else:
            load_kernel(*reductions[name])
        print(name, flush=True)


if __name__ == "__main__":
    main()
