"""What the table of facts says, against an MPICH's public header and against what mpi4py's wheel asks for."""

import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import shmcoll.mpi  # noqa: F401 - it registers all functions
from shmcoll.mpi.abi import facts, from_header, library
from shmcoll.mpi.objects import refused
from tests.mpi.elf import Elf

HEADERS = Path(__file__).parents[2] / ".launchers" / "mpich" / "include"


@pytest.mark.skipif(not (HEADERS / "mpi.h").exists(), reason="make launchers installs an MPICH")
def test_the_table_is_what_the_header_says() -> None:
    found = json.loads(json.dumps(from_header.facts(HEADERS)))
    assert found["constants"] == facts.CONSTANTS
    assert found["functions"] == facts.FUNCTIONS
    assert list(found["functions"]) == list(facts.NAMES)  # their order is that of the slots


def test_every_name_that_mpi4py_asks_for_is_there() -> None:
    package = find_spec("mpi4py")
    if package is None or not package.submodule_search_locations:
        pytest.skip("mpi4py is not installed")
    module = next(Path(package.submodule_search_locations[0]).glob("MPI.mpich.*.so"))
    asked = [one for one in Elf.of(module).symbols() if one.name.startswith("MPI") and not one.is_defined]
    ours = Elf(library.image())
    assert [one.name for one in asked if not ours.find(one.name)] == []
    assert [one.name for one in asked if one.name in refused.REFUSED] == []
    if version("mpi4py") == "4.1.2":
        weak = [one for one in asked if one.is_weak]
        assert (len(asked), len(weak)) == (626, 287)
        assert sum(one.name.endswith("_c") for one in weak) == sum(one.name.endswith("_c") for one in asked) == 159
