"""Object files on disk: compiled once per machine, shared by all processes of a user; or installed with the package.

A file is found in one of two places. Both name it by a hash of what it is made from:

    the cache      the directory of `engine/system/cache_dir.py`, to which no other user may write. The hash covers the
                   sources, the versions of what compiled them, the CPU and its features. Processes write to it by
                   rename. It is searched first: its code is made for exactly this CPU
    the package    shmcoll/objects/LEVEL beside our code, where a wheel was installed; a checkout has no such folder.
                   The hash covers the sources and the level (`levels.py`) only: the code calls libc and CPython by
                   name, reads arrays at offsets that `native/cpython.py` checks in each process, and is loaded by any
                   llvmlite. So it does not depend on the version of Python, numpy, numba or llvmlite. Jobs only read it

A file is executed, so it is checked as well (`engine/system/trusted_files.py`): another user may have put it there
while the directory was open to all. If a file is not trusted, a message names it, and its contents are compiled again.
It begins with its own name, which says for what it was compiled: under another name, it is compiled anew. A checksum
guards against damage. (numba's own cache has no lock, and pairs wrong code with an index when first runs
race: numba #4807, #10128.)

Several processes. A process that compiles holds a lock on a file beside the object. The others wait for the lock, and
then read the object. The lock is the kernel's, so it is free as soon as its holder has ended. The holder writes its pid
and start time into the file. As long as it uses processor time, it compiles, however slow the machine is, and the
others wait. If it has used none for PATIENCE seconds, as when it is stopped, a process that waits compiles for itself:
both write the same bytes under the same name. A holder in another container or on another machine cannot be looked at,
and has PATIENCE seconds.

No rank waits here inside a routine, so no limit of a collective passes meanwhile. A process that has not imported numba
lets the others take the lock first, for HEAD_START. So one rank of a job compiles everything that the ranks call, and
numba is imported once.

If compiled code cannot be kept, every process of a job finds that out, and one reports it: the launcher, whose forks
know what it has said, else rank 0.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import llvmlite
import numpy as np

import shmcoll
from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.compiler.enabled_jit import enabled_jit
from shmcoll.engine.compiler.levels import Level, supported
from shmcoll.engine.system import hidden_modules, log, processor, trusted_files
from shmcoll.engine.system.cache_dir import cache_folder
from shmcoll.engine.system.handlers import ignored, reraise_of_handler
from shmcoll.engine.system.processes import process_start
from shmcoll.engine.system.text import read_text, to_bytes, to_text

PATIENCE = 60.0  # seconds
HEAD_START = 0.1  # seconds
_NAP = 0.02  # seconds between two looks

_ROOT = Path(shmcoll.__file__).parent
_PACKAGED = _ROOT / "objects"

#: objects with a source of their own
_SOURCE: dict[str, Path | str] = {
    "gate": "engine/native/jit_gate.py",
    "array_allocator": "engine/native/array_allocator.py",
    "tensor_entry": "engine/native/tensor_entry.py",
    "profile": "engine/native/profile_calls.py",
    "team": "engine/protocol/team.py",
    "runs": "engine/kernels/runs.py",
    "mpi_functions": "engine/native/mpi_functions.py",
    "calls_over_nodes": "nodes/algorithms/collectives.py",
}

Progress = Callable[[str], None]


_said: set[str] = set()  # by this process or by one that has forked it
_silent = False


def leave_to_rank_0() -> None:
    """Report nothing from now on about objects that cannot be kept or trusted: another process of the job does."""
    global _silent
    _silent = True


def know(name: str, source: Path) -> None:
    """Make `source`, a file of another package, the source of an object."""
    _SOURCE[name] = source


def object_file(name: str, build: Callable[[], bytes], progress: Progress | None) -> bytes:
    """Return the object file of this name: from the cache, from the package, or built and put into the cache."""
    path: Path | None = None
    lost: OSError | None = None
    try:
        path = cache_folder() / cached_name(name)
    except OSError as e:
        reraise_of_handler(e)
        lost = e
    data = (_read(path) if path else None) or _packaged(name)
    if data is not None:
        return data
    _packaged(name, progress)  # it reports a file that it does not trust
    if path is None:
        assert lost is not None
        _say_lost(lost, progress)
        with deferred_signals():
            return _built(build)
    if "numba" not in sys.modules:
        time.sleep(HEAD_START)
    with _lock(path.with_suffix(".lock")):
        data = _read(path, progress)
        if data is None:
            if progress:
                progress(f"compiling {name} (once per machine{_hint()})")
            with deferred_signals():  # not around the lock: its holder may be stopped
                data = _built(build)
                _write(path, data, progress)
    return data


def _built(build: Callable[[], bytes]) -> bytes:
    try:
        with enabled_jit():
            return build()
    except (ImportError, AttributeError) as e:  # perhaps of a file numba.py beside the script
        if (explained := hidden_modules.explained(e)) is e:
            raise
        raise explained from None


def holds(name: str) -> bool:
    """Return whether the cache or the package has the object file of a name."""
    with ignored(OSError):
        if _read(cache_folder() / cached_name(name)) is not None:
            return True
    return _packaged(name) is not None


def is_packaged(name: str) -> bool:
    """Return whether the package has the object file of a name, for this processor."""
    return _packaged(name) is not None


def cached_name(name: str) -> str:
    """Return the name of its file in the cache."""
    return f"{name}-{_fingerprint(name)}.o"


def packaged_name(name: str, level: Level) -> str:
    """Return the name of its file for a level, in the folder of that level."""
    return f"{name}-{_fingerprint(name, level)}.o"


def sealed(body: bytes, name: str) -> bytes:
    """Return the contents of the file of an object. name: that of the file."""
    key = to_bytes(name)
    return key + b"\n" + hashlib.sha256(key + body).digest() + body


def _packaged(name: str, progress: Progress | None = None) -> bytes | None:
    """Return the object of the highest level that this processor supports and the package has."""
    if not _PACKAGED.is_dir():
        return None
    paths = (_PACKAGED / level.name / packaged_name(name, level) for level in supported())
    found = (_read(path, progress, trusted_files.read_installed) for path in paths)
    return next((data for data in found if data is not None), None)


def can_keep() -> bool:
    """Return whether compiled code can be kept, so that one process can compile for another."""
    with ignored(OSError):
        return os.access(cache_folder(), os.W_OK)
    return False


def _read(
    path: Path, progress: Progress | None = None, reader: Callable[[Path], bytes] = trusted_files.read
) -> bytes | None:
    try:
        key, _, rest = reader(path).partition(b"\n")
    except trusted_files.Distrusted as e:
        if progress:
            _say(f"ignored compiled code that somebody else may have put there: {e}; it is compiled anew", progress)
        return None
    except OSError as e:
        reraise_of_handler(e)
        return None
    check, body = rest[:32], rest[32:]
    is_whole = hashlib.sha256(key + body).digest() == check
    if is_whole and key == to_bytes(path.name):
        return body
    if progress:
        what = f"is the compiled code of {to_text(key)}" if is_whole else "is damaged"
        _say(f"ignored {path}, which {what}; it is compiled anew", progress)
    return None


def _write(path: Path, body: bytes, progress: Progress | None) -> None:
    try:
        trusted_files.write(path, sealed(body, path.name))
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
            log.warning(text)


_hints = ["; shmrun warm compiles everything ahead"]


def _hint() -> str:
    """Return the advice in the first line about compiling."""
    return _hints.pop() if _hints else ""


_holders: dict[Path, int] = {}  # of locks: the thread


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, or go on without it if its holder does not work any more, or is this thread: what is
    imported or finalised while it compiles may make a call that needs the same code."""
    with contextlib.ExitStack() as stack:
        if _holders.get(path) == threading.get_ident():
            yield
            return
        with ignored(OSError):
            fd = trusted_files.open_own(path, os.O_RDWR | os.O_CREAT)
            stack.callback(os.close, fd)
            os.fchmod(fd, 0o600)  # a process that can read a file can lock it
            if _has_come(fd):
                _holders[path] = threading.get_ident()
                stack.callback(_holders.pop, path)
                stack.callback(fcntl.flock, fd, fcntl.LOCK_UN)  # a process that was forked has the descriptor, too
                stack.callback(os.ftruncate, fd, 0)
                os.pwrite(fd, b"%d %d" % (os.getpid(), process_start(os.getpid())), 0)
        yield


def _has_come(fd: int) -> bool:
    """Wait for the lock. Returns False if its holder has used no processor time for PATIENCE seconds.

    They are counted as looks, so that the time for which this process is stopped does not count.
    """
    used, looks = None, 0
    while looks * _NAP < PATIENCE:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        before, used = used, _time_used(fd)
        looks = looks + 1 if used == before else 0
        time.sleep(_NAP)
    return False


def _time_used(fd: int) -> int | None:
    """Return how much processor time the holder of the lock has used, in clock ticks; None if that cannot be known."""
    with ignored(OSError, ValueError):
        pid, start = map(int, os.pread(fd, 64, 0).split())
        fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if int(fields[19]) == start:
            return int(fields[11]) + int(fields[12])
    return None


@cache
def _fingerprint(name: str, level: Level | None = None) -> str:
    """Return a hash of everything that determines the machine code of a routine or kernel, here or for a level."""
    digest = hashlib.sha256()
    for path in sorted(_sources(name)):
        digest.update(path.read_bytes())
    digest.update(to_bytes(repr((level.cpu, level.features)) if level else _platform()))
    return digest.hexdigest()[:32]


def _sources(name: str) -> set[Path]:
    """Return the files that a routine or kernel is made from."""
    folder = "engine/messages" if name in ("send", "recv") else "collectives"
    routine = _ROOT / folder / f"{name}.py"
    own: tuple[Path | str, ...] = (_SOURCE.get(name, "engine/kernels/kernels.py"),)
    if routine.exists():
        own = (routine, "engine/native/entry.py", "engine/native/entry_counts.py")
    compiler = {_ROOT / f"engine/compiler/{file}.py" for file in ("compile", "half_floats", "lowering", "numba_target")}
    return _reached([*own, "engine/compiler/intrinsics.py"]) | compiler


@cache
def _platform() -> str:
    versions = _numba(), llvmlite.__version__, np.__version__
    facts = (sys.implementation.cache_tag, *versions, platform.machine())
    return repr((facts, processor.kind()))


def _numba() -> str:
    """Return the version of numba, without importing it. importlib.metadata is not imported either: it takes 20 ms."""
    spec = find_spec("numba")
    file = Path(spec.origin).with_name("_version.py") if spec and spec.origin else None
    if file and file.exists():
        return read_text(file)
    from importlib.metadata import version

    return version("numba")


def _reached(start: Iterable[Path | str]) -> set[Path]:
    """Return these source files and all of ours that they import, directly or not."""
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
    found = []
    for module, names in re.findall(r"^from (shmcoll[.\w]*) import (\([^)]*\)|.*)", read_text(path), re.MULTILINE):
        if file := _file_of(module):
            found.append(file)
        else:  # a package, and modules in it
            found += [file for name in re.findall(r"\w+", names) if (file := _file_of(f"{module}.{name}"))]
    return found


@cache
def _file_of(module: str) -> Path | None:
    path = Path(f"{_ROOT}/{module.removeprefix('shmcoll').lstrip('.').replace('.', '/')}.py")
    return path if path.exists() else None
