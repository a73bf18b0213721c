"""Object files on disk: compiled once per machine, shared by all processes of a user.

A file is named by a hash of everything that matters (the sources it is made from, the versions of numba and llvmlite,
the CPU and its features) and written by rename into the directory of `engine/system/cache_dir.py`, which nobody else
may write. The file is executed, so it is checked as well (`engine/system/trusted_files.py`): somebody may have put it
there while the directory was open to all. One that does not pass is said, and replaced. A checksum guards against
damage. (numba's own cache has no lock, and pairs wrong code with an index when first runs race: numba #4807, #10128.)

Several processes: who compiles holds a lock on a file beside the object. Who waits for longer than PATIENCE compiles
for itself: both write the same bytes under the same name.

Where compiled code cannot be kept, every process of a job finds that out, and one says so: the launcher, whose forks
know what it has said, else rank 0.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numpy as np

import shmcoll
from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.system import trusted_files
from shmcoll.engine.system.cache_dir import cache_folder

PATIENCE = 60.0  # seconds

_ROOT = Path(shmcoll.__file__).parent

Progress = Callable[[str], None]


_said: set[str] = set()  # by this process or one that it is a fork of
_silent = False


def leave_to_rank_0() -> None:
    """Say nothing from now on about what cannot be kept or trusted: another process of the job does."""
    global _silent
    _silent = True


def object_file(name: str, build: Callable[[], bytes], progress: Progress | None) -> bytes:
    """The object file of a name: from the cache, or built and put there."""
    try:
        folder = cache_folder()
    except OSError as e:
        _say_lost(e, progress)
        with deferred_signals():
            return build()
    path = folder / f"{name}-{_fingerprint(name)}.o"
    data = _read(path)
    if data is None:
        with _lock(path.with_suffix(".lock")):
            data = _read(path, progress)
            if data is None:
                if progress:
                    progress(f"compiling {name} (once per machine)")
                with deferred_signals():  # not around the lock: its holder may be stopped
                    data = build()
                    _write(path, data, progress)
    return data


def holds(name: str) -> bool:
    """Whether the cache has the object file of a name."""
    try:
        return _read(cache_folder() / f"{name}-{_fingerprint(name)}.o") is not None
    except OSError:
        return False


def can_keep() -> bool:
    """Whether it makes sense to compile in one process for another."""
    try:
        return os.access(cache_folder(), os.W_OK)
    except OSError:
        return False


def _read(path: Path, progress: Progress | None = None) -> bytes | None:
    try:
        data = trusted_files.read(path)
    except trusted_files.Distrusted as e:
        if progress:
            _say(f"ignored compiled code that somebody else may have put there: {e}; it is compiled anew", progress)
        return None
    except OSError:
        return None
    check, body = data[:32], data[32:]
    return body if hashlib.sha256(body).digest() == check else None


def _write(path: Path, body: bytes, progress: Progress | None) -> None:
    try:
        trusted_files.write(path, hashlib.sha256(body).digest() + body)
    except OSError as e:
        _say_lost(OSError(f"{path.parent} cannot be written: {e.strerror}"), progress)


def _say_lost(error: OSError, progress: Progress | None) -> None:
    reason = f"{error.filename}: {error.strerror}" if error.filename else error
    advice = "or set SHMCOLL_CACHE_DIR to a directory of yours that nobody else may write"
    _say(f"compiled code cannot be kept, so every process compiles for itself: {reason}; {advice}", progress)


def _say(text: str, progress: Progress | None) -> None:
    if not _silent and text not in _said:
        _said.add(text)
        if progress:
            progress(text)
        else:
            print(f"shmcoll: {text}", file=sys.stderr)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, or go on without it after PATIENCE seconds: its holder may be stopped."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            fd = trusted_files.open_own(path, os.O_RDWR | os.O_CREAT)
            stack.callback(os.close, fd)
            os.fchmod(fd, 0o600)  # who can read a file can lock it
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.02)
        yield


@cache
def _fingerprint(name: str) -> str:
    """A hash of all that decides what the machine code of a routine or kernel looks like."""
    digest = hashlib.sha256()
    for path in sorted(_sources(name)):
        digest.update(path.read_bytes())
    digest.update(_platform().encode())
    return digest.hexdigest()[:32]


def _sources(name: str) -> set[Path]:
    """The files that a routine or kernel is made from."""
    folder = "engine/messages" if name in ("send", "recv") else "collectives"
    routine = _ROOT / folder / f"{name}.py"
    own: tuple[Path | str, ...] = ("engine/native/jit_gate.py",) if name == "gate" else ("engine/kernels/kernels.py",)
    if routine.exists():
        own = (routine, "engine/native/entry.py", "engine/native/entry_counts.py")
    return _reached([*own, "engine/compiler/intrinsics.py"]) | {_ROOT / "engine/compiler/compile.py"}


@cache
@deferred_signals()
def _platform() -> str:
    # The features name the CPU well enough; llvmlite's host queries take a millisecond each
    versions = _numba(), llvmlite.__version__, np.__version__
    facts = (sys.implementation.cache_tag, *versions, platform.machine())
    return repr((facts, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()))


def _numba() -> str:
    """Its version, without importing it, nor importlib.metadata, which takes 20 ms where code is loaded from here."""
    spec = find_spec("numba")
    file = Path(spec.origin).with_name("_version.py") if spec and spec.origin else None
    if file and file.exists():
        return file.read_text()
    from importlib.metadata import version

    return version("numba")


def _reached(start: Iterable[Path | str]) -> set[Path]:
    """Our source files that some of them import, directly or not, and these themselves."""
    found: set[Path] = set()
    todo = [_ROOT / path for path in start]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += _imported(path)
    return found


@cache
def _imported(path: Path) -> list[Path]:
    modules = re.findall(r"^from (shmcoll[.\w]*) import (\([^)]*\)|.*)", path.read_text(), re.MULTILINE)
    names = [module for module, _ in modules] + [f"{m}.{n}" for m, names in modules for n in re.findall(r"\w+", names)]
    paths = (_ROOT / (name.removeprefix("shmcoll").lstrip(".").replace(".", "/") + ".py") for name in names)
    return [path for path in paths if path.exists()]
