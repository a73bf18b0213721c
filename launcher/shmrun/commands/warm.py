"""`shmrun warm`: compile ahead what jobs would compile when they first need it."""

import time
from collections.abc import Sequence

from shmrun.cli.config_sources import near
from shmrun.cli.printing import tell


def warm(wanted: Sequence[str] = (), *, everything: bool = False) -> int:
    """Compile the routines, and with `everything` each reduction for each dtype; or what `wanted` names. Returns the
    exit code."""
    begin = time.monotonic()
    try:
        from shmcoll.engine.compiler import object_cache
        from shmcoll.startup.warm import ALL, counted, fill_cache, kernels

        reductions = kernels()
        for name in wanted:
            if name not in ALL and name not in reductions:
                likely = near(name, [*ALL, *reductions])
                tell(f"shmrun: nothing called {name!r} is compiled{likely} (see shmrun warm --help)")
                return 2
        names = list(wanted) or [*ALL, *(reductions if everything else ())]
        routines = sum(name in ALL for name in names)
        counts = {"routine": routines, "reduction": len(names) - routines}
        what = " and ".join(counted(number, unit) for unit, number in counts.items() if number)
        if all(map(object_cache.is_packaged, names)):
            print(f"shmrun: nothing to compile: {what} came with shmcoll")
            return 0
        from shmcoll.engine.system.cache_dir import cache_folder

        folder = cache_folder()
        fill_cache(names, lambda text: tell(f"shmrun: {text}"))
        lost = [name for name in names if not object_cache.holds(name)]
    except (ImportError, OSError) as e:
        tell(f"shmrun: cannot compile ahead: {type(e).__name__}: {e}")
        return 1
    if lost:
        reason = "is it full, or not ours to write?"
        tell(f"shmrun: {folder} has not kept {', '.join(lost)}; {reason}")
        return 1
    print(f"shmrun: ready in {folder}: {what} ({time.monotonic() - begin:.1f} s)")
    return 0
