"""`shmrun warm`: compile ahead what jobs would compile when they first need it."""

import sys
import time


def warm(*, everything: bool) -> int:
    """Compile the routines, and with `everything` each reduction for each dtype. Returns the exit code."""
    begin = time.monotonic()
    try:
        from shmcoll.engine.compiler import object_cache
        from shmcoll.engine.system.cache_dir import cache_folder
        from shmcoll.startup.warm import ALL, fill_cache, kernels

        folder = cache_folder()
        names, what = [*ALL], f"{len(ALL)} routines"
        if everything:
            names += (reductions := kernels())
            what += f" and {len(reductions)} reductions"
        fill_cache(names, lambda text: print(f"shmrun: {text}", file=sys.stderr, flush=True))
        lost = [name for name in names if not object_cache.holds(name)]
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
