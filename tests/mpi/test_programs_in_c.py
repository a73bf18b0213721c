"""Programs in C under `shmrun --mpi`: what they compute, as over MPICH, and how they end."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shmcoll.errors import ShmcollError
from shmcoll.mpi import host
from tests.support.launched import Shmrun

MPICH = Path(__file__).parents[2] / ".launchers" / "mpich"
PROGRAMS = Path(__file__).with_name("programs")
COMPILER = shutil.which("cc")

needs_compiler = pytest.mark.skipif(
    not (COMPILER and (MPICH / "include" / "mpi.h").exists()), reason="needs a C compiler, and an MPICH: make launchers"
)


@pytest.fixture(autouse=True)
def _has_libpython() -> None:
    try:
        host.libpython()
    except ShmcollError as e:
        pytest.skip(str(e))


def compiled(folder: Path, source: Path, *more: str) -> str:
    program = folder / source.stem
    words = ["-Wall", "-Werror", source, "-I", MPICH / "include", MPICH / "lib" / "libmpi.so.12", "-o", program, *more]
    subprocess.run([str(COMPILER), *map(str, words)], check=True, timeout=60)
    return f"./{program.name}"


@needs_compiler
@pytest.mark.parametrize(("name", "ranks"), [("ring", 3), ("halo", 4), ("reduction", 3)])
def test_a_program_prints_what_it_prints_over_mpich(shmrun: Shmrun, name: str, ranks: int) -> None:
    program = compiled(shmrun.folder, PROGRAMS / f"{name}.c")
    done = shmrun("-n", ranks, "--mpi", program, "last")
    assert done.returncode == 0, done.stderr
    peer = subprocess.run(
        [MPICH / "bin" / "mpiexec", "-n", str(ranks), program, "last"],
        cwd=shmrun.folder,
        env={"LD_LIBRARY_PATH": str(MPICH / "lib"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert peer.returncode == 0, peer.stderr
    assert sorted(done.stdout.splitlines()) == sorted(peer.stdout.splitlines())


#: exit code, what rank 1 prints, what is said
ENDS = {
    "later": (4, "rank 1 is over: 1", "rank 1 failed first, with exit code 4"),
    "abort": (5, "rank 1 has begun", "MPI_Abort(5)"),
    "well": (0, "rank 1 is over: 1", ""),
    "return": (0, "rank 1 has begun", ""),
    "exit": (3, "rank 1 has begun", "rank 1 exited with code 3"),
    "kill": (137, "", "SIGKILL"),
    "error": (6, "rank 1 has begun", "MPI_Send: "),  # MPI_ERR_RANK
}
QUICK = ("later", "abort")


@needs_compiler
@pytest.mark.parametrize("how", [how if how in QUICK else pytest.param(how, marks=pytest.mark.slow) for how in ENDS])
def test_a_program_ends_with_its_exit_code_and_its_output(shmrun: Shmrun, how: str) -> None:
    code, printed, told = ENDS[how]
    done = shmrun("-n", 2, "--mpi", compiled(shmrun.folder, PROGRAMS / "ends.c"), how)
    assert done.returncode == code, done
    assert printed in done.stdout and told in done.stderr, done
    assert "Traceback" not in done.stderr, done


def test_without_a_libpython_a_line_says_what_is_missing(shmrun: Shmrun) -> None:
    hidden = shmrun.write(
        """
        import sysconfig, sys
        known = sysconfig.get_config_vars()
        known.update(LDVERSION="9.99", INSTSONAME="libpython9.99.a")
        from shmrun.__main__ import main
        sys.exit(main())
        """
    )
    done = shmrun.finish(
        shmrun.start_process([sys.executable, hidden, "-n", "2", "--mpi", "/bin/true"], dict(os.environ))
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "need libpython9.99.so.1.0" in done.stderr
