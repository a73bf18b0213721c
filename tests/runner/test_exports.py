"""The names of `shmcoll` for callers of ranks."""

import pydoc
import subprocess
import sys

import shmcoll


def test_they_are_listed_in_order() -> None:
    names = ["map", "ranks", "run", "shared", "Ranks"]
    assert [name for name in names if name not in dir(shmcoll)] == []
    assert dir(shmcoll) == sorted(dir(shmcoll))
    assert shmcoll.__all__ == sorted(shmcoll.__all__)


def test_a_star_import_leaves_the_builtin_map_alone() -> None:
    names: dict[str, object] = {}
    exec("from shmcoll import *", names)
    assert "map" not in names
    assert {"run", "ranks", "shared", "Ranks"} <= names.keys()


def test_help_begins_with_use() -> None:
    text = pydoc.plain(pydoc.render_doc(shmcoll)).partition("DESCRIPTION")[2].split()
    assert text[:3] == ["`shmcoll.init()`", "joins", "the"]


def test_jit_is_an_attribute_that_a_star_import_leaves_alone() -> None:
    """It imports numba, which a job without jitted code never does."""
    code = (
        "import sys\nfrom shmcoll import *\nprint('numba' in sys.modules)\n"
        "import shmcoll\nprint(shmcoll.jit.__name__, shmcoll.Plan.__name__, shmcoll.Grid.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nshmcoll.jit Plan Grid\n"
