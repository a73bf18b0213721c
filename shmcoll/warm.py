"""Compiling ahead: every routine that the cache lacks, on all usable cores.

python -m shmcoll.warm              compiles what is missing, for images and CI
python -m shmcoll.warm PID NAMES    what `fill_cache` of process PID starts, one a core; prints a name when it is done
"""

import os
import subprocess
import sys
from collections.abc import Callable

from shmcoll.collectives import ROUTINES
from shmcoll.engine import cache
from shmcoll.engine.compile import load_routine
from shmcoll.engine.cores import usable_cores
from shmcoll.ranks import die_with

Progress = Callable[[str], None]

#: longest compilation first, so that the processes end together
_BY_COST = ("all_to_all_v", "all_reduce", "all_to_all", "barrier", "gather")


def preload(progress: Progress | None = None) -> None:
    """Load every routine into this process; what the cache lacks is compiled before. Starts no thread."""
    fill_cache(progress)
    for routine in ROUTINES:
        load_routine(routine, progress)


def fill_cache(progress: Progress | None = None) -> None:
    """Compile the routines that are missing, in parallel. One that fails is left to `load_routine`, which raises."""
    missing = [name for name in _BY_COST if not cache.holds(name)]
    workers = min(usable_cores(), len(missing))
    if workers < 2:
        return
    if progress:
        progress(f"compiling {len(missing)} routines for this machine, once; about {8 * len(missing) // 5} s")
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "shmcoll.warm", str(os.getpid()), *missing[i::workers]],
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


def main(names: list[str]) -> None:
    if not names:
        preload(lambda text: print(f"shmcoll: {text}", file=sys.stderr))
        return
    die_with(int(names[0]))  # of whose death we would not learn before we are done
    for routine in ROUTINES:
        if routine.__name__ in names:
            load_routine(routine)
            print(routine.__name__, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
