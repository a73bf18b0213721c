"""Object files on disk: compiled once, never believed when damaged or when others could have written them."""

import fcntl
import inspect
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from shmcoll.collectives import ROUTINES
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.native import entry, entry_counts
from shmcoll.engine.system import cache_dir
from shmcoll.engine.system.text import to_bytes
from tests.support.waiting import until

#: a process that needs one kernel, and says what it compiled and what the kernel made of 2 + 3
NEEDS_ONE = """
    import sys
    import numpy as np
    from shmcoll.engine.kernels.dtypes import BY_NAME
    from shmcoll.engine.compiler.compile import load_kernel
    import ctypes

    address = load_kernel(BY_NAME["int32"], "sum", print)
    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(address)
    a, b, out = np.full(5, 2, np.int32), np.full(5, 3, np.int32), np.zeros(5, np.int32)
    kernel(2, out.ctypes.data, a.ctypes.data, b.ctypes.data, 5, 2)
    print(out.tolist(), "numba" in sys.modules)
"""


def start(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(NEEDS_ONE)],
        env=os.environ | {"SHMCOLL_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path) -> tuple[list[str], str]:
    process = start(folder)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.splitlines(), err


COMPILED = [
    "compiling sum_int32 (once per machine; shmrun warm compiles everything ahead)",
    "[5, 5, 5, 5, 5] True",
]
LOADED = ["[5, 5, 5, 5, 5] False"]


@pytest.mark.slow
def test_compiled_once_then_loaded_without_numba_and_again_when_damaged(tmp_path):
    folder = tmp_path / "made" / "when needed"
    assert run(folder) == (COMPILED, "")
    assert run(folder) == (LOADED, "")
    (file,) = folder.glob("*.o")
    assert folder.stat().st_mode & 0o777 == 0o700
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert run(folder) == ([f"ignored {file}, which is damaged; it is compiled anew", *COMPILED], "")
    assert object_cache._read(file) is not None
    assert run(folder) == (LOADED, "")
    file.write_bytes(object_cache.sealed(object_cache._read(file), "sum_int8-1.o"))
    text = f"ignored {file}, which is the compiled code of sum_int8-1.o; it is compiled anew"
    assert run(folder) == ([text, *COMPILED], "")
    assert [p.suffix for p in sorted(folder.iterdir())] == [".lock", ".o"]


@pytest.mark.stress  # as in the test of two kernels
def test_processes_that_start_at_once_all_work_and_one_compiles(tmp_path):
    processes = [start(tmp_path / "cache") for _ in range(3)]
    told = [p.communicate() for p in processes]
    assert sorted(out.splitlines() for out, _ in told) == sorted([LOADED, LOADED, COMPILED])
    assert [err for _, err in told] == [""] * 3


@pytest.mark.slow
def test_a_folder_that_others_may_write_is_not_used(tmp_path):
    tmp_path.chmod(0o777)
    out, err = run(tmp_path)
    assert out == [
        "compiled code cannot be kept, so every process compiles for itself: "
        f"others may write {tmp_path} (mode 777); chmod go-w it; "
        "or set SHMCOLL_CACHE_DIR to a directory of yours that nobody else may write",
        "[5, 5, 5, 5, 5] True",
    ]
    assert (list(tmp_path.iterdir()), err) == ([], "")


def test_a_folder_that_cannot_be_made(monkeypatch, tmp_path, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "file" / "below"))
    for _ in range(2):
        assert object_cache.object_file("name", lambda: b"built", None) == b"built"
    (line,) = caplog.messages
    assert f"every process compiles for itself: {tmp_path}/file: Not a directory; or set SHMCOLL_CACHE_DIR" in line


def test_a_folder_of_somebody_else(monkeypatch, tmp_path):
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(PermissionError, match=f" belongs to uid {os.getuid()}, not to uid 4711"):
        cache_dir.cache_folder()


def test_what_was_built_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    assert not object_cache.holds("name")
    assert object_cache.object_file("name", lambda: b"built", None) == b"built"
    assert object_cache.holds("name")
    assert object_cache.object_file("name", lambda: b"never", None) == b"built"


def test_a_file_under_another_name_or_damaged_anywhere_is_not_used(monkeypatch, tmp_path):
    """Renamed, linked, of another routine, of another version: its own name is in it."""
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    for name in ("one", "two"):
        object_cache.object_file(name, lambda name=name: name.encode(), None)
    one, two = (tmp_path / object_cache.cached_name(name) for name in ("one", "two"))
    whole = two.read_bytes()
    two.replace(one)
    told: list[str] = []
    assert not object_cache.holds("one")
    assert object_cache.object_file("one", lambda: b"anew", told.append) == b"anew"
    assert told[0] == f"ignored {one}, which is the compiled code of {two.name}; it is compiled anew"
    assert object_cache._read(one) == b"anew"
    for length in range(len(whole)):
        two.write_bytes(whole[:length])
        assert object_cache._read(two) is None
    for place in range(len(whole)):
        two.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert object_cache._read(two) is None
    two.write_bytes(whole.replace(to_bytes(two.name), to_bytes(one.name)))
    assert object_cache._read(two) is None
    two.replace(one)
    assert object_cache._read(one) is None  # the checksum covers the name


def test_a_slow_holder_is_waited_for_and_a_stopped_one_is_not(monkeypatch, tmp_path):
    """Slow: it uses processor time, however long it takes."""
    monkeypatch.setattr(object_cache, "_NAP", 1e-4)
    monkeypatch.setattr(object_cache, "PATIENCE", 1e-3)
    (tmp_path / "lock").touch()
    with open(tmp_path / "lock", "w") as lock, open(tmp_path / "lock", "r+") as other:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for told, wanted in (([*range(200), *[200] * 11], False), ([None] * 10, False)):
            looks = iter(told)
            monkeypatch.setattr(object_cache, "_time_used", lambda _, looks=looks: next(looks))
            assert object_cache._has_come(other.fileno()) is wanted
            assert next(looks, "all") == "all"

        def release(_: int) -> int:
            fcntl.flock(lock, fcntl.LOCK_UN)
            return 1

        monkeypatch.setattr(object_cache, "_time_used", release)
        assert object_cache._has_come(other.fileno())


def test_the_time_that_the_holder_of_a_lock_uses(tmp_path):
    ready_read, ready = os.pipe()
    holder = os.fork()
    if holder == 0:
        with object_cache._lock(tmp_path / "lock"):
            os.write(ready, b"x")
            while os.getppid() != 1:
                pass
    os.read(ready_read, 1)
    with open(tmp_path / "lock") as lock:
        begin = object_cache._time_used(lock.fileno())
        until(lambda: object_cache._time_used(lock.fileno()) != begin)
        os.kill(holder, signal.SIGSTOP)
        os.waitpid(holder, os.WUNTRACED)
        assert object_cache._time_used(lock.fileno()) == object_cache._time_used(lock.fileno()) is not None
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        assert object_cache._time_used(lock.fileno()) is None
    with object_cache._lock(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text().split()[0] == str(os.getpid())
    assert (tmp_path / "lock").read_text() == ""
    os.close(ready_read)
    os.close(ready)


def test_nobody_waits_for_ever_for_a_lock_that_is_held(monkeypatch, tmp_path):
    """Its holder may be stopped: then everybody compiles for himself."""
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(object_cache, "PATIENCE", 0.05)
    with open(tmp_path / f"name-{object_cache._fingerprint('name')}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert object_cache.object_file("name", lambda: b"built", None) == b"built"


def test_a_full_disk_costs_a_compilation_and_no_more(monkeypatch, tmp_path):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "replace", full)
    told: list[str] = []
    for _ in range(2):
        assert object_cache.object_file("name", lambda: b"built", told.append) == b"built"
    assert [line for line in told if "cannot be kept" in line] == [
        f"compiled code cannot be kept, so every process compiles for itself: {tmp_path} cannot be written: "
        "No space left on device; or set SHMCOLL_CACHE_DIR to a directory of yours that nobody else may write"
    ]
    assert not object_cache.holds("name")
    assert not list(tmp_path.glob("*.tmp"))


def test_the_name_of_a_file_depends_on_the_sources_that_it_is_made_from():
    def reached(*start: str) -> set[str]:
        return {str(path.relative_to(object_cache._ROOT)) for path in object_cache._reached(start)}

    kernel, routine = reached("engine/kernels/kernels.py"), reached("collectives/all_to_all.py")
    assert {"engine/kernels/kernels.py", "engine/atomics.py", "engine/kernels/dtypes.py"} <= kernel
    assert {
        "collectives/all_to_all.py",
        "engine/protocol/sync.py",
        "engine/protocol/wait.py",
        "engine/layout.py",
    } <= routine
    assert "engine/memory/arena.py" not in kernel | routine
    assert "collectives/gather.py" not in routine
    assert (
        object_cache._fingerprint("gather")
        != object_cache._fingerprint("barrier")
        != object_cache._fingerprint("sum_int8")
    )
    assert object_cache._fingerprint("sum_int8") == object_cache._fingerprint("max_float64")


@pytest.mark.parametrize("name", ROUTINES)
def test_a_routine_is_named_by_all_that_it_is_compiled_from(name):
    makers = (ROUTINES[name], entry.make_entry, entry_counts.make_entry)
    assert {inspect.getsourcefile(maker) for maker in makers} <= {str(path) for path in object_cache._sources(name)}


def test_the_source_of_an_object_may_be_a_file_of_another_package(monkeypatch, tmp_path):
    monkeypatch.setattr(object_cache, "_SOURCE", dict(object_cache._SOURCE))
    names = []
    for name, text in (("one", "# a"), ("two", "# a"), ("three", "# b")):
        source = tmp_path / f"{name}.py"
        source.write_text(f"from shmcoll.engine.atomics import copy\n{text}\n")
        object_cache.know(name, source)
        assert {source, object_cache._ROOT / "engine/atomics.py"} <= object_cache._sources(name)
        names.append(object_cache.cached_name(name).removeprefix(f"{name}-"))
    assert names[0] == names[1] != names[2]


#: a process that needs two kernels, and says whether it has compiled
NEEDS_TWO = """
    import sys
    from shmcoll.engine.compiler import object_cache
    from shmcoll.engine.compiler.compile import load_kernel
    from shmcoll.engine.kernels.dtypes import BY_NAME

    object_cache.HEAD_START = 5.0
    for reduction in ("sum", "max"):
        load_kernel(BY_NAME["int32"], reduction)
    print("numba" in sys.modules)
"""


@pytest.mark.slow
def test_the_process_that_has_imported_numba_compiles_what_comes_next(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(NEEDS_TWO)]
    env = os.environ | {"SHMCOLL_CACHE_DIR": str(tmp_path)}
    processes = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sorted(process.communicate()[0].strip() for process in processes) == ["False", "False", "True"]
    assert len(list(tmp_path.glob("*.o"))) == 2


def test_the_first_line_about_compiling_says_how_to_do_it_ahead(monkeypatch, tmp_path):
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(object_cache, "_hints", ["; and a hint"])
    told: list[str] = []
    for name in ("one", "two"):
        object_cache.object_file(name, lambda: b"built", told.append)
    assert told == ["compiling one (once per machine; and a hint)", "compiling two (once per machine)"]
