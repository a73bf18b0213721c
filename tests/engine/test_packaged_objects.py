"""Objects that a wheel brings: found without compiling, only for levels that this processor has, only if trusted."""

import os
import platform
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler import levels, object_cache
from shmcoll.engine.compiler.levels import Level
from shmcoll.engine.kernels.dtypes import BY_NAME
from shmcoll.engine.system import processor as system_processor

V4, V3, V2 = levels._LEVELS["x86_64"]


def never() -> bytes:
    raise AssertionError("it is in the package")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(object_cache, "_said", set())
    monkeypatch.setattr(object_cache, "_hints", [])
    return tmp_path / "cache"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Level, bytes], Path]:
    """Return a function that puts an object called `name` into the package."""
    monkeypatch.setattr(object_cache, "_PACKAGED", tmp_path / "objects")

    def put(level: Level, body: bytes) -> Path:
        path = tmp_path / "objects" / level.name / object_cache.packaged_name("name", level)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(object_cache.sealed(body, path.name))
        return path

    return put


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[frozenset[str]], None]]:
    """Return a function that gives this machine an x86-64 processor with these features and no others."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    levels.supported.cache_clear()
    yield lambda features: monkeypatch.setattr(system_processor, "features", lambda: frozenset(features))
    levels.supported.cache_clear()


def test_an_object_of_the_package_is_found_and_not_copied(cache, package, processor):
    processor(V4.needs)
    assert not object_cache.holds("name")
    package(V3, b"packaged")
    assert object_cache.holds("name")
    assert object_cache.object_file("name", never, None) == b"packaged"
    assert list(cache.iterdir()) == []


def test_the_cache_goes_first(cache, package, processor):
    processor(V4.needs)
    assert object_cache.object_file("name", lambda: b"for this very processor", None) == b"for this very processor"
    package(V4, b"packaged")
    assert object_cache.object_file("name", never, None) == b"for this very processor"


def test_the_highest_level_of_the_processor_is_taken(cache, package, processor):
    for level in (V2, V3, V4):
        package(level, level.name.encode())
    processor(V3.needs | {"avx512f"})
    assert object_cache.object_file("name", never, None) == b"x86-64-v3"


@pytest.mark.parametrize("lacking", sorted(V4.needs))
def test_a_level_is_not_taken_if_the_processor_lacks_a_feature_of_it(cache, package, processor, lacking):
    processor(V4.needs - {lacking})
    for level in (V2, V3, V4):
        if lacking in level.needs:
            package(level, b"would be an illegal instruction")
    assert object_cache.object_file("name", lambda: b"compiled", None) == b"compiled"


def test_another_architecture_takes_nothing_of_x86(cache, package, monkeypatch):
    levels.supported.cache_clear()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    package(V2, b"of another machine")
    assert object_cache.object_file("name", lambda: b"compiled", None) == b"compiled"
    levels.supported.cache_clear()


@pytest.mark.parametrize("which", ["file", "folder"])
def test_an_object_that_others_may_write_is_named_and_not_used(cache, package, processor, which):
    processor(V2.needs)
    path = package(V2, b"evil")
    target = path if which == "file" else path.parent
    target.chmod(0o777)
    said: list[str] = []
    assert object_cache.object_file("name", lambda: b"compiled", said.append) == b"compiled"
    assert said == [
        "ignored compiled code that somebody else may have put there: "
        f"others may write {target} (mode 777); chmod go-w it; it is compiled anew",
        "compiling name (once per machine)",
    ]


def test_an_object_of_another_user_is_named_and_not_used(cache, package, processor, monkeypatch):
    processor(V2.needs)
    path = package(V2, b"evil")
    if os.getuid():
        pytest.skip("only root can give a file away")
    os.chown(path, 4711, -1)
    said: list[str] = []
    assert object_cache.object_file("name", lambda: b"compiled", said.append) == b"compiled"
    assert f"{path} belongs to uid 4711" in said[0]


def test_a_link_is_not_followed(cache, package, processor):
    processor(V2.needs)
    path = package(V2, b"elsewhere")
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))
    assert object_cache.object_file("name", lambda: b"compiled", None) == b"compiled"


def test_an_installer_may_link_the_file_from_its_own_cache(cache, package, processor, tmp_path):
    processor(V2.needs)
    os.link(package(V2, b"packaged"), tmp_path / "the installer's")
    assert object_cache.object_file("name", never, None) == b"packaged"


def test_a_damaged_object_is_compiled_anew(cache, package, processor):
    processor(V2.needs)
    path = package(V2, b"packaged")
    path.write_bytes(path.read_bytes()[:-1])
    assert object_cache.object_file("name", lambda: b"compiled", None) == b"compiled"


def test_a_cache_that_cannot_be_used_is_not_missed(cache, package, processor, capsys, caplog):
    processor(V2.needs)
    package(V2, b"packaged")
    cache.touch()  # a file is in its place
    assert object_cache.object_file("name", never, None) == b"packaged"
    assert object_cache.holds("name")
    assert (capsys.readouterr(), caplog.text) == (("", ""), "")


@pytest.mark.parametrize("name", ["gate", "barrier", "sum_int8"])
def test_the_name_depends_on_the_sources_and_the_level_only(monkeypatch, name):
    """Not on the versions of Python, numpy, numba and llvmlite: a wheel is made with some, and used with others."""
    before = object_cache.packaged_name(name, V2)
    monkeypatch.setattr(object_cache, "_platform", lambda: "other versions")
    object_cache._fingerprint.cache_clear()
    assert object_cache.packaged_name(name, V2) == before != object_cache.packaged_name(name, V3)
    object_cache._fingerprint.cache_clear()
    monkeypatch.setattr(object_cache, "_sources", lambda _name: {Path(__file__)})
    assert object_cache.packaged_name(name, V2) != before
    object_cache._fingerprint.cache_clear()


#: a process that needs one kernel of the package
NEEDS_ONE = """
    import ctypes, sys
    from pathlib import Path
    import numpy as np
    from shmcoll.engine.compiler import object_cache
    object_cache._PACKAGED = Path(sys.argv[1])
    from shmcoll.engine.compiler.compile import load_kernel
    from shmcoll.engine.kernels.dtypes import BY_NAME

    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(load_kernel(BY_NAME["int32"], "sum", print))
    a, b, out = np.full(99, 2, np.int32), np.full(99, 3, np.int32), np.zeros(99, np.int32)
    kernel(2, out.ctypes.data, a.ctypes.data, b.ctypes.data, 99, 2)
    print(set(out.tolist()), "numba" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("level", levels.levels(), ids=lambda level: level.name)
def test_a_kernel_of_each_level_runs_without_numba(tmp_path, level):
    if level not in levels.supported():
        pytest.skip(f"this processor has not all of {level.name}")
    path = tmp_path / "objects" / level.name / object_cache.packaged_name("sum_int32", level)
    path.parent.mkdir(parents=True)
    made = code.emitted(code.kernel_functions(BY_NAME["int32"], "sum"), level)
    path.write_bytes(object_cache.sealed(made, path.name))
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NEEDS_ONE), str(tmp_path / "objects")],
        env=os.environ | {"SHMCOLL_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("{5} False\n", "")
    assert list((tmp_path / "cache").iterdir()) == []
