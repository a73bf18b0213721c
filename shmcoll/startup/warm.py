"""Compiling ahead what is neither in the cache nor in the package, on all usable cores.

A job compiles only what it calls, at the first call. Ahead, one process lowers all, so what several routines call is
lowered once. Forks of it, one per core at a time, optimise and emit; they inherit what is lowered.

python -m shmcoll.startup.warm PID NAMES    that process, started by `fill_cache` of process PID; prints each name done
"""

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable

from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.compiler.compile import (
    Functions,
    all_kernels,
    allocator_functions,
    emitted,
    gate_functions,
    kernel_functions,
    routine_functions,
)
from shmcoll.engine.kernels import runs
from shmcoll.engine.kernels.dtypes import DType
from shmcoll.engine.native import mpi_functions, profile_calls, tensor_entry
from shmcoll.engine.protocol import team
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.text import to_text
from shmcoll.startup.rank_process import die_with

Progress = Callable[[str], None]

GATE = "gate"  # for jitted code
OF_FILES = {file.NAME: file.functions for file in (tensor_entry, runs, profile_calls, team)}
ALL = (*RECORDS, GATE, "array_allocator", *OF_FILES, mpi_functions.NAME, "calls_over_nodes")

_ROUTINE = 10  # time to compile a routine, in units of the time for a reduction
_TOGETHER = 8  # so many reductions in a fork


def functions_of(name: str) -> Functions:
    """Return what is compiled under a name of the cache."""
    if name in RECORDS:
        return routine_functions(RECORDS[name])
    if name == GATE:
        return gate_functions()
    if name == "array_allocator":
        return allocator_functions()
    if name in OF_FILES:
        return OF_FILES[name]()
    if name == mpi_functions.NAME:
        return mpi_functions.functions({record.name: record.code for record in RECORDS.values()})
    if name == "calls_over_nodes":
        from shmcoll.nodes.algorithms import collectives  # a job on one machine imports nothing of `nodes/`

        return collectives.functions()
    return kernel_functions(*kernels()[name])


def kernels() -> dict[str, tuple[DType, str]]:
    """Return the kernels of all reductions, by the names that the cache has for them: reduction and dtype."""
    return {f"{reduction}_{dtype.name}": (dtype, reduction) for dtype, reduction in all_kernels()}


def fill_cache(names: Iterable[str], progress: Progress | None = None) -> None:
    """Compile the routines and kernels that are missing, on all usable cores, in a process of its own.

    If one fails, that process prints the reason, and `load_routine` or `load_kernel` raises the error later.
    """
    missing = [name for name in names if not object_cache.holds(name)] if object_cache.can_keep() else []
    if not missing:
        return
    report = progress or (lambda _text: None)
    routines = sum(name in ALL for name in missing)
    counts = (routines, "routine"), (len(missing) - routines, "reduction")
    report(f"compiling {' and '.join(counted(n, unit) for n, unit in counts if n)} for this machine, once")
    begin = time.monotonic()
    done: list[str] = []
    with subprocess.Popen(
        interpreter.command("shmcoll.startup.warm", os.getpid(), *missing),
        env=interpreter.environment(os.environ, sys.path),
        stdout=subprocess.PIPE,
        process_group=0,  # Ctrl-C reaches this process, whose end is theirs
    ) as running:
        assert running.stdout
        for line in running.stdout:  # each line is one write, so lines of several processes do not mix
            done.append(to_text(line).strip())
            report(f"compiled {done[-1]}: {_progress(done, missing, time.monotonic() - begin)}")


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
    starter, *names = sys.argv[1:]
    object_cache.leave_to_rank_0()
    die_with(int(starter))  # we would not learn of its death before we are done
    for name in names:
        object_cache.cached_name(name)  # of the sources as they are now, not as an editor leaves them meanwhile
    compile_in_forks(names, lambda name: object_cache.object_file(name, lambda: emitted(functions_of(name)), None))


def compile_in_forks(names: list[str], emit: Callable[[str], object]) -> bool:
    """Lower the functions of all names here, and emit them in forks, which print the names. Returns whether all of that
    has succeeded."""
    from shmcoll.engine.compiler import lowering

    routines, others = [n for n in names if n in ALL], [n for n in names if n not in ALL]
    shares = [[name] for name in routines] + [others[i : i + _TOGETHER] for i in range(0, len(others), _TOGETHER)]
    running = 0
    failed = 0
    for share in shares:
        for name in share:
            lowering.module(functions_of(name))
        if running == usable_cores():
            failed += os.wait()[1] != 0
            running -= 1
        _fork(share, emit)
        running += 1
    return failed + sum(os.wait()[1] != 0 for _ in range(running)) == 0


def _fork(names: list[str], emit: Callable[[str], object]) -> None:
    starter = os.getpid()
    if os.fork() == 0:
        status = 1
        try:
            die_with(starter)
            for name in names:
                emit(name)
                print(name, flush=True)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)


if __name__ == "__main__":
    main()
