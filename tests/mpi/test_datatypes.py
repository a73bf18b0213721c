"""Datatypes of MPI against models, by the functions that C calls."""

from pathlib import Path

from tests.support.launched import Shmrun

PROGRAM = Path(__file__).parent / "programs" / "datatypes.py"


def test_datatypes_are_as_the_standard_has_them(shmrun: Shmrun) -> None:
    done = shmrun("-n", "1", PROGRAM)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
