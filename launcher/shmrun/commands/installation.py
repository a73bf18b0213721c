"""What `shmrun doctor` checks in the installation: versions, the native entry, the contents of the cache, a trial."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from shmcoll.engine.system.interpreter import flags
from shmcoll.engine.system.text import to_text
from shmrun.cli.settings import SETTINGS
from shmrun.commands.findings import Finding, Level

_DISTRIBUTIONS = ("shmcoll", "numpy", "numba", "llvmlite", "ml_dtypes", "cloudpickle")


def versions() -> Iterator[Finding]:
    import platform

    found, missing = [f"Python {platform.python_version()} ({platform.python_implementation()})"], []
    for name in _DISTRIBUTIONS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if "shmcoll" in missing:  # runs from its sources
        from shmcoll import __version__

        missing.remove("shmcoll")
        found.insert(1, f"shmcoll {__version__}, not installed")
    yield Finding(Level.OK, "versions", ", ".join(found))
    if missing:
        names = " ".join(missing)
        yield Finding(Level.ERROR, "versions", f"not installed: {names}", f"pip install {names}")


def native_entry() -> Iterator[Finding]:
    from shmcoll.engine.native import entry

    if entry.FAST:
        yield Finding(Level.OK, "native entry", "fast")
    else:
        advice = "a build of CPython with the GIL and numpy 1.26 or later has the fast one"
        yield Finding(Level.WARNING, "native entry", "through ctypes, some microseconds a call more", advice)


def compiled() -> Iterator[Finding]:
    from shmcoll.engine.compiler import object_cache
    from shmcoll.engine.system.cache_dir import cache_folder
    from shmcoll.startup.join import USUAL
    from shmcoll.startup.warm import ALL, kernels

    try:
        folder = cache_folder()
    except OSError as e:
        advice = "set SHMCOLL_CACHE_DIR to a directory of your own that nobody else may write"
        yield Finding(Level.WARNING, "cache", f"{e}; every process compiles for itself", advice)
        return
    if not os.access(folder, os.W_OK):
        yield Finding(Level.WARNING, "cache", f"{folder} cannot be written", "set SHMCOLL_CACHE_DIR to one that can")
    else:
        yield Finding(Level.OK, "cache", f"{folder}, which nobody else may write")
    missing = [name for name in ALL if not object_cache.holds(name)]
    text = f"compiled: {len(ALL) - len(missing)} of {len(ALL)}"
    if all(map(object_cache.is_packaged, ALL)):
        text = f"nothing to compile: all {len(ALL)} came with shmcoll"
    if any(name in missing for name in USUAL):
        advice = "the first job will compile what it needs; shmrun warm does so ahead"
        text = f"{text}; missing: {', '.join(missing)}"
        yield Finding(Level.WARNING, "routines", text, advice, prevents_trial=True)
    else:
        yield Finding(Level.OK, "routines", f"{text}; others are when they are first used" if missing else text)
    reductions = kernels()
    held = sum(map(object_cache.holds, reductions))
    text = f"compiled: {held} of {len(reductions)}; others are when they are first used"
    if held == len(reductions):
        packaged = all(map(object_cache.is_packaged, reductions))
        text = f"nothing to compile: all {held} came with shmcoll" if packaged else f"compiled: all {held}"
    yield Finding(Level.OK, "reductions", text)


BARRIER = "import shmcoll\nshmcoll.init().barrier()\n"


def trial() -> Iterator[Finding]:
    """Run two ranks that meet once, without the settings of this directory and of the environment."""
    environment = {k: v for k, v in os.environ.items() if k not in {s.variable for s in SETTINGS.values()}}
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(place).absolute()) for place in sys.path)
    python = [sys.executable, *flags(), "-m"]
    command = [*python, "shmrun", "-n", "2", "--timeout", "60", "-c", BARRIER]
    told = subprocess.run(command, env=environment, cwd="/", capture_output=True, check=False)
    if told.returncode == 0:
        yield Finding(Level.OK, "trial", "two ranks have met in a barrier")
    else:
        yield Finding(
            Level.ERROR, "trial", f"two ranks could not meet (exit code {told.returncode}):\n{to_text(told.stderr)}"
        )
