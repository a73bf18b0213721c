"""`shmbench compare --python`: mpi4py and torch of a Python that the user has. Packages and launcher are stand-ins."""

import sys
from pathlib import Path

import pytest
from shmbench.commands import compare
from shmbench.timing.peers import Home, of_python

MPI = """
import os
class MPI:
    get_vendor = staticmethod(lambda: ({vendor!r}, (1, 2, 3)))
    class COMM_WORLD:
        size = int(os.environ.get("STAND_IN_SIZE", "1"))
"""
#: starts a program n times, whose mpi4py is of this MPI (or is not)
MPIEXEC = """#!/bin/sh
while [ "$1" != -n ]; do shift; done
n=$2; shift 2
i=0; while [ $i -lt $n ]; do STAND_IN_SIZE={size} "$@" || exit; i=$((i+1)); done
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make an environment; returns its Python. vendor: of its MPI. size: how many ranks its mpiexec says it has."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    def make_one(*, vendor: str = "", torch: str = "", size: str = "$n", shell: str = "exec") -> Path:
        binaries, stubs = tmp_path / "bin", tmp_path / "stubs"
        binaries.mkdir()
        hidden = {name: None for name, has in (("mpi4py", vendor), ("torch", torch)) if not has}
        start = f"import sys; sys.path.insert(0, {str(stubs)!r}); sys.modules.update({hidden}); exec(sys.argv[1])"
        programs = {"python": f'#!/bin/sh\n{shell} {sys.executable} -c "{start}" "$2"\n'}
        programs["mpiexec"] = MPIEXEC.replace("{size}", size)
        for name, text in programs.items():
            (binaries / name).write_text(text)
            (binaries / name).chmod(0o755)
        packages = {"mpi4py": vendor and MPI.replace("{vendor!r}", repr(vendor)), "torch": torch}
        for name, text in packages.items():
            if text:
                (stubs / name).mkdir(parents=True)
                (stubs / name / "__init__.py").write_text(text)
        if torch:
            (stubs / "torch" / "distributed.py").write_text(torch)
        return binaries / "python"

    return make_one


@pytest.mark.slow
@pytest.mark.parametrize(("vendor", "name"), [("Open MPI", "openmpi"), ("MPICH", "mpich"), ("Intel MPI", "impi")])
def test_its_mpi_and_its_torch_are_found(make, vendor: str, name: str) -> None:
    python = make(vendor=vendor, torch="is_gloo_available = lambda: True")
    home = Home(python, python.parent / "mpiexec")
    assert of_python(python) == {"gloo": home, name: home}


@pytest.mark.parametrize(
    ("has", "told"),
    [
        ({}, "has neither mpi4py nor torch"),
        pytest.param({"vendor": "Other MPI"}, "is on Other MPI, and shmbench knows Open MPI,", marks=pytest.mark.slow),
        ({"vendor": "MPICH", "size": "1"}, "mpiexec does not start ranks of MPICH, which mpi4py of"),
        pytest.param({"torch": "raise OSError('no libgomp')"}, "OSError: no libgomp", marks=pytest.mark.slow),
        ({"shell": "echo 'SyntaxError: too old' >&2; exit 1;"}, "cannot run shmbench: SyntaxError: too old"),
    ],
)
def test_what_cannot_be_used_is_one_line(make, capsys, tmp_path: Path, has: dict[str, str], told: str) -> None:
    python = make(**has)
    with pytest.raises(SystemExit) as end:
        compare.main(["all_reduce", "--python", str(python), "--peers", str(tmp_path)])
    assert end.value.code == 2
    complaint = capsys.readouterr().err
    assert "--python: " in complaint and told in complaint and complaint.count("\n") == 1


def test_a_python_that_does_not_exist(capsys, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        compare.main(["all_reduce", "--python", str(tmp_path / "none"), "--peers", str(tmp_path)])
    assert "No such file or directory" in capsys.readouterr().err
