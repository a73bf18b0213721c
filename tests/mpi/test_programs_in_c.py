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
    words = [
        "-Wall",
        "-Werror",
        "-Wno-deprecated-declarations",
        source,
        "-I",
        MPICH / "include",
        MPICH / "lib" / "libmpi.so.12",
        "-o",
        program,
        *more,
    ]
    subprocess.run([str(COMPILER), *map(str, words)], check=True, timeout=60)
    return f"./{program.name}"


@needs_compiler
@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("ring", 2),
        pytest.param("halo", 4, marks=pytest.mark.slow),
        pytest.param("reduction", 3, marks=pytest.mark.slow),
        pytest.param("first_version", 2, marks=pytest.mark.slow),
    ],
)
def test_a_program_prints_what_it_prints_over_mpich(shmrun: Shmrun, name: str, ranks: int) -> None:
    program = compiled(shmrun.folder, PROGRAMS / f"{name}.c")
    done = shmrun("-n", ranks, "--mpi", program, "last")
    assert done.returncode == 0, done.stderr
    peer = subprocess.run(
        [MPICH / "bin" / "mpiexec", "-outfile-pattern", "rank%r.out", "-n", str(ranks), program, "last"],
        cwd=shmrun.folder,  # each rank has a file there: mpiexec tears lines
        env={"LD_LIBRARY_PATH": str(MPICH / "lib"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert peer.returncode == 0, peer.stderr
    printed = [line for file in shmrun.folder.glob("rank*.out") for line in file.read_text().splitlines()]
    assert sorted(done.stdout.splitlines()) == sorted(printed)


#: exit code, what rank 1 prints, what is said
ENDS = {
    "later": (4, "rank 1 is over: 1", "rank 1 failed first, with exit code 4"),
    "abort": (5, "rank 1 has begun", "MPI_Abort(5)"),
    "well": (0, "rank 1 is over: 1", ""),
    "return": (0, "rank 1 has begun", ""),
    "exit": (3, "rank 1 has begun", "rank 1 exited with code 3"),
    "kill": (137, "", "SIGKILL"),
    "interrupt": (130, "", "SIGINT"),
    "error": (6, "rank 1 has begun", "MPI_Send: "),  # MPI_ERR_RANK
}
QUICK = ("abort",)


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


@pytest.mark.slow
@needs_compiler
def test_a_program_with_an_interpreter_of_its_own_keeps_it(shmrun: Shmrun) -> None:
    pytest.importorskip("mpi4py")
    program = compiled(shmrun.folder, PROGRAMS / "embeds.c", str(host.libpython()))
    own = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PYTHONHOME": sys.base_prefix}
    done = shmrun("-n", 2, "--mpi", program, env=own)
    assert done.returncode == 0, done.stderr
    wanted = [*(f"C: rank {i}, sum 1" for i in (0, 1)), *(f"Python: rank {i} sum 1" for i in (0, 1))]
    assert sorted(done.stdout.splitlines()) == wanted


@pytest.mark.slow
@needs_compiler
def test_a_program_that_looks_for_its_own_mpi_first_gets_ours(shmrun: Shmrun) -> None:
    program = compiled(shmrun.folder, PROGRAMS / "ring.c", f"-Wl,--disable-new-dtags,-rpath,{MPICH / 'lib'}")
    done = shmrun("-n", 2, "--mpi", program)
    assert done.returncode == 0 and "0: token 1 from 1" in done.stdout, done


@needs_compiler
def test_a_program_that_is_linked_to_another_mpi_is_refused(shmrun: Shmrun) -> None:
    (shmrun.folder / "mpi.c").write_text("int MPI_Init(int *argc, char ***argv) { return !argc && !argv; }")
    words = [COMPILER, "-shared", "-fPIC", "mpi.c", "-o", "libmpi.so.40", "-Wl,-soname,libmpi.so.40"]
    subprocess.run([*map(str, words)], cwd=shmrun.folder, check=True)
    (shmrun.folder / "other.c").write_text("int MPI_Init(int *, char ***); int main(void) { return MPI_Init(0, 0); }")
    subprocess.run([str(COMPILER), "other.c", "libmpi.so.40", "-o", "other"], cwd=shmrun.folder, check=True)
    done = shmrun("-n", 2, "--mpi", "./other")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "is linked to libmpi.so.40, which is not of the MPICH family" in done.stderr


def test_the_library_for_programs_is_the_same_in_each_folder(shmrun: Shmrun) -> None:
    """Each would be another file in the cache."""
    made = []
    for name in ("one", "two"):
        (shmrun.folder / name).mkdir()
        words = [
            sys.executable,
            "-c",
            "import os, shmcoll.mpi.host as host; print(host.environment('x')['MPI4PY_LIBMPI'])",
        ]
        own = {**os.environ, "PYTHONPATH": str(shmrun.folder / name)}
        done = subprocess.run(words, cwd=shmrun.folder / name, env=own, capture_output=True, text=True, check=True)
        made.append(done.stdout)
    assert made[0] == made[1] and made[0].endswith("libmpi.so.12\n")
