"""The hook that compiles for a wheel: what it adds, when it adds nothing, and that it never adds a part.

What it compiles is another test's: here the program that compiles is a small one.
"""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "wheel_build" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Any]:
    """Return a function that makes a hook in a project whose `compile_objects.py` is this text."""
    monkeypatch.delenv("SHMCOLL_BUILD_OBJECTS", raising=False)
    file = module("hatch_hook")

    def make(program: str) -> Any:
        (tmp_path / "wheel_build").mkdir()
        (tmp_path / "wheel_build" / "compile_objects.py").write_text(program)
        return file.ObjectsHook(str(tmp_path), {}, None, None, str(tmp_path / "dist"), "wheel")

    return make


def data() -> dict[str, Any]:
    return {"force_include": {}, "pure_python": True}


WRITES_A_FILE = "import sys, pathlib; pathlib.Path(sys.argv[1], 'name').write_text('code')"
FAILS = "import sys; sys.exit('no compiler today')"


def test_what_is_compiled_is_added_as_objects_and_the_wheel_is_for_this_machine(hook):
    one, build = hook(WRITES_A_FILE), data()
    one.initialize("standard", build)
    ((folder, place),) = build["force_include"].items()
    assert place == "shmcoll/objects"
    assert {path.name: path.read_text() for path in Path(folder).iterdir()} == {"name": "code"}
    assert build["pure_python"] is False
    assert build["tag"].startswith("py3-none-manylinux_2_30_")
    one.finalize("standard", build, "wheel")
    assert not Path(folder).exists()


def test_an_editable_installation_has_no_objects(hook):
    build = data()
    hook(FAILS).initialize("editable", build)
    assert build == data()


def test_a_wheel_without_objects_is_built_when_asked_for(hook, monkeypatch):
    monkeypatch.setenv("SHMCOLL_BUILD_OBJECTS", "0")
    build = data()
    hook(FAILS).initialize("standard", build)
    assert build == data()


def test_a_failure_ends_the_build_and_says_why_and_what_to_do(hook):
    with pytest.raises(RuntimeError, match=r"(?s)exit code 1; set SHMCOLL_BUILD_OBJECTS=0 to .*no compiler today"):
        (one := hook(FAILS)).initialize("standard", data())
    assert not Path(one._folder.name).exists()


def test_another_value_is_refused(hook, monkeypatch):
    monkeypatch.setenv("SHMCOLL_BUILD_OBJECTS", "no")
    with pytest.raises(ValueError, match="SHMCOLL_BUILD_OBJECTS='no' is neither 0 nor 1"):
        hook(FAILS).initialize("standard", data())


def test_another_system_is_refused(hook, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(RuntimeError, match="shmcoll runs on Linux on x86_64 and aarch64, not on darwin"):
        hook(FAILS).initialize("standard", data())


def test_a_wheel_is_built_with_what_shmcoll_needs_and_an_editable_installation_without(monkeypatch):
    monkeypatch.chdir(ROOT)
    backend = module("backend")
    monkeypatch.delenv("SHMCOLL_BUILD_OBJECTS", raising=False)
    assert any(name.startswith("numba") for name in backend.get_requires_for_build_wheel())
    assert not any(name.startswith("numba") for name in backend.get_requires_for_build_editable())
    monkeypatch.setenv("SHMCOLL_BUILD_OBJECTS", "0")
    assert not any(name.startswith("numba") for name in backend.get_requires_for_build_wheel())
