"""`shmrun warm`: compile ahead what jobs would compile when they first need it.

python -m shmrun.commands.warm NAMES     what `warm` starts, one process a core: compiles kernels, prints each name
"""

import os
import subprocess
import sys
import time
from contextlib import ExitStack


def warm(*, everything: bool) -> int:
    """Compile the routines, and with `everything` each reduction for each dtype. Returns the exit code."""
    begin = time.monotonic()
    try:
        from shmcoll.engine.compiler import object_cache
        from shmcoll.engine.system.cache_dir import cache_folder
        from shmcoll.startup import warm as routines

        folder = cache_folder()
        routines.fill_cache(routines.ALL, _tell)
        lost = [name for name in routines.ALL if not object_cache.holds(name)]
        what = f"{len(routines.ALL)} routines"
        if everything:
            names = _kernels()
            _compile([name for name in names if not object_cache.holds(name)])
            lost += [name for name in names if not object_cache.holds(name)]
            what += f" and {len(names)} reductions"
    except (ImportError, OSError) as e:
        print(f"shmrun: cannot compile ahead: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("shmrun: interrupted by SIGINT; what has been compiled is kept", file=sys.stderr)
        return 130
    if lost:
        reason = "is it full, or not ours to write?"
        print(f"shmrun: {folder} has not kept {', '.join(lost)}; {reason}", file=sys.stderr)
        return 1
    print(f"shmrun: {what} are ready in {folder} ({time.monotonic() - begin:.1f} s)")
    return 0


def _tell(text: str) -> None:
    print(f"shmrun: {text}", file=sys.stderr, flush=True)


def _kernels() -> list[str]:
    """The names of all kernels, as the cache has them: reduction and dtype."""
    from shmcoll.engine.compiler.compile import all_kernels

    return [f"{reduction}_{dtype.name}" for dtype, reduction in all_kernels()]


def _compile(names: list[str]) -> None:
    """In one process a usable core. A name that fails is missing from the cache afterwards; its process says why."""
    from shmcoll.engine.system.cores import usable_cores

    workers = min(usable_cores(), len(names))
    if not workers:
        return
    _tell(f"compiling {len(names)} reductions")
    with ExitStack() as stack:
        for process in [_worker(names[i::workers], stack) for i in range(workers)]:
            assert process.stdout is not None
            for line in process.stdout:
                _tell(f"compiled {line.strip()}")


def _worker(names: list[str], stack: ExitStack) -> subprocess.Popen[str]:
    from shmcoll.startup.rank_process import interpreter, interpreter_environment

    command = [*interpreter(), "-m", "shmrun.commands.warm", *names]
    environment = interpreter_environment(os.environ, sys.path)
    return stack.enter_context(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))


def main(names: list[str]) -> None:
    from shmcoll.engine.compiler.compile import all_kernels, load_kernel

    for dtype, reduction in all_kernels():
        if f"{reduction}_{dtype.name}" in names:
            load_kernel(dtype, reduction)
            print(f"{reduction}_{dtype.name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
