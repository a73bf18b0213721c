"""A program: runs the tests of packages that were written for mpi4py, unchanged, on the library of MPI that shmcoll is
and on MPICH, and prints a table.

    python tests/mpi/packages.py FOLDER [--mpich HOME] [NAME...]

FOLDER gets an environment with the packages, and their source archives. HOME: an environment with MPICH; without it,
that column is missing. A test has passed when it has on all ranks, or on the one that passed fewest where ranks skip
others. What the jobs have written stands in FOLDER/logs. The exit code is 1 if a test failed here and not over MPICH.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
LIMIT = 900.0  # seconds for a job
MPI4PY = "mpi4py==4.1.2"
PYTEST = ["-v", "-rfE", "--no-header", "-p", "no:cacheprovider", "-p", "no:mpi-pytest"]

#: no test of emcee has a pool of MPI: its chain is the one that a process computes alone
EMCEE = """
import emcee, numpy as np, schwimmbad

def log_prob(theta):
    return -0.5 * float(np.sum(theta**2))

def chain(pool):
    sampler = emcee.EnsembleSampler(8, 2, log_prob, pool=pool)
    sampler.random_state = np.random.RandomState(1).get_state()
    sampler.run_mcmc(np.random.RandomState(0).randn(8, 2), 40)
    return sampler.get_chain()

with schwimmbad.MPIPool() as pool:
    assert (chain(pool) == chain(None)).all()
"""

#: nor is a test in the archive of executorlib, whose workers are jobs of MPI
EXECUTORLIB = """
from executorlib import SingleNodeExecutor

def calculate(i):
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    return i, comm.size, comm.rank, comm.allreduce(i + comm.rank)

if __name__ == "__main__":
    with SingleNodeExecutor(resource_dict={"cores": 2}) as executor:
        futures = [executor.submit(calculate, i) for i in range(3)]
        results = [future.result(timeout=300) for future in futures]
    assert results == [[(i, 2, r, 2 * i + 1) for r in range(2)] for i in range(3)], results
"""


class Package(NamedTuple):
    """A package. tests: what pytest runs. programs: scripts that are tests. starts: the tests start `mpirun` by
    themselves, so pytest runs once; ranks: how many it starts at most. needs: what the tests need."""

    version: str
    ranks: int
    tests: str = ""
    programs: tuple[tuple[str, ...], ...] = ()
    starts: bool = False
    needs: str = ""


PACKAGES = {
    "schwimmbad": Package(
        "0.4.2", 3, programs=(("tests/test_mpi.py",), ("tests/test_mpi_with_dill.py",)), needs="dill"
    ),
    "emcee": Package("3.1.6", 3, programs=(("-c", EMCEE),), needs="schwimmbad"),
    "mpi-list": Package("0.4.0", 2, "tests", needs="pytest-cov"),
    "mpiparticles": Package("0.1.0", 4, "src/mpiparticles/tests", starts=True),
    "mpiarray": Package("0.2.1", 2, "src/mpiarray/tests", needs="astropy xarray h5py zarr"),
    "numpi": Package("0.18.1", 2, "test"),
    "numba-mpi": Package("1.3.1", 2, "tests/api"),
    "mpi4py-fft": Package("2.0.6", 2, "tests --ignore tests/test_speed.py", needs="scipy"),
    "pylops-mpi": Package("0.8.0", 2, "tests"),
    "pshmem": Package("1.3.5", 2, "src/pshmem/test.py"),
    "mpi-pytest": Package("2026.0", 3, "-p pytest_mpi.plugin -m parallel[3] tests"),
    "dask-mpi": Package("2026.3.0", 4, "dask_mpi/tests/test_execute.py dask_mpi/tests/test_initialize.py", starts=True),
    "deephyper": Package(
        "0.13.2",
        4,
        "--run-marks-subset mpi tests/evaluator/storage/test_mpi_win_storage.py "
        "tests/evaluator/test_mpi_comm_evaluator.py",
        starts=True,
    ),
    "executorlib": Package("1.11.0", 2, programs=(("-c", EXECUTORLIB),), starts=True),
    "pysdc": Package(
        "5.9",
        3,
        "-p pytest_mpi.plugin -m parallel[3] pySDC/projects/DAE/tests/test_MPI_sweepers.py "
        "pySDC/projects/parallelSDC/tests/test_preconditioner_MPI.py",
        needs="mpi-pytest",
    ),
    "ultranest": Package(
        "4.6.3", 2, "-o addopts= tests/test_utils.py tests/test_netiterintegrate.py tests/test_store.py"
    ),
    "cobaya": Package(  # its archive lacks what the other tests import; one gives each rank another folder
        "3.6.2",
        2,
        "tests/test_mcmc_initial_covmat.py tests/test_post.py -k not(post_params)",
    ),
    "ipie": Package(
        "0.7.1",
        3,
        "ipie/propagation/tests/test_generic_chunked.py ipie/propagation/tests/test_generic_complex.py "
        "ipie/systems/tests/test_generic.py",
    ),
    "mpi-sppy": Package(
        "0.14.0", 6, "mpisppy/tests/test_spwindow_multisource.py mpisppy/tests/test_spwindow_partial_get.py"
    ),
}


class Machine(NamedTuple):
    """A library of MPI. launch: what starts a program's ranks on it. alone: what starts one process that may use it."""

    name: str
    launch: list[str]
    alone: list[str]
    environment: dict[str, str]


class Result(NamedTuple):
    """What the tests of a package have given."""

    passed: int
    failed: set[str]


def machine(folder: Path, mpich: Path | None) -> Machine:
    """Return a library. Its `bin` has `mpirun` and `mpiexec` for the tests that start programs themselves."""
    own = folder / "bin"
    own.mkdir(exist_ok=True)
    for name in ("mpirun", "mpiexec"):
        (own / name).write_text(f'#!/bin/sh\nexec {folder}/venv/bin/shmrun --mpi "$@"\n')
        (own / name).chmod(0o755)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    home = own if mpich is None else mpich.absolute() / "bin"
    environment["PATH"] = f"{home}:{folder}/venv/bin:{environment['PATH']}"
    if mpich:
        library = str(home.parent / "lib/libmpi.so.12")
        environment |= {"MPI4PY_LIBMPI": library, "LD_LIBRARY_PATH": str(home.parent / "lib")}
    launch = [str(home / "mpiexec")]
    return Machine("mpich" if mpich else "shmcoll", launch, [] if mpich else [*launch, "-n", "1"], environment)


def run(here: Machine, folder: Path, name: str) -> Result:
    """Run the tests of a package."""
    package, python = PACKAGES[name], str(folder / "venv/bin/python")
    jobs = [[python, *program] for program in package.programs]
    if package.tests:
        jobs.append([python, str(folder / "venv/bin/pytest"), *PYTEST, *package.tests.split()])
    passed, failed = 0, set()
    with (folder / "logs" / f"{name}.{here.name}").open("w") as log:
        for job in jobs:
            command = [*(here.alone if package.starts else [*here.launch, "-n", str(package.ranks)]), *job]
            code, said = output(command, source(folder, name), here.environment)
            log.write(f"$ {' '.join(command)}\n{said}\nexit code {code}\n")
            found = set(re.findall(r"^(?:FAILED|ERROR) (\S+\.py\S*)", said, re.M))
            failed |= found or ({f"{job[-1].strip()[:40]} ended with {code}"} if code else set())
            counts = [int(number) for number in re.findall(r"\b(\d+) passed", said)]
            passed += min(counts, default=0) if package.tests else not code
    return Result(passed, failed)


def output(command: list[str], cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command. Return its exit code, and what it has written."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=LIMIT)[0]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return 124, process.communicate()[0]


def source(folder: Path, name: str) -> Path:
    """Return the folder of a package's source, as its archive has it."""
    pattern = re.sub("[-_.]", "[-_.]", f"{name}-{PACKAGES[name].version}")
    for path in (folder / "src").iterdir():
        if re.fullmatch(pattern, path.name, re.IGNORECASE) and path.is_dir():
            return path
    raise FileNotFoundError(f"no source of {name} in {folder}/src")


def install(folder: Path, name: str) -> None:
    """Install a package, and unpack its source."""
    python, package = str(folder / "venv/bin/python"), PACKAGES[name]
    wanted = f"{name}=={package.version}"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", wanted, MPI4PY, *package.needs.split()], check=True)
    try:
        source(folder, name)
    except FileNotFoundError:
        archives = folder / "archives" / name
        subprocess.run(
            [*pip, "download", "--no-deps", "--no-binary", name, "--dest", str(archives), wanted], check=True
        )
        subprocess.run(["tar", "xzf", *archives.glob("*.tar.gz"), "-C", folder / "src"], check=True)


def prepare(folder: Path) -> None:
    """Make the folder, with an environment that has shmcoll."""
    for part in ("src", "logs", "archives"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "src/pytest.ini").touch()  # else pytest takes this project's settings for a package without its own
    if not (folder / "venv").exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([folder / "venv/bin/pip", "install", "-q", "-e", PROJECT, MPI4PY, "pytest<9"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mpich", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    folder = options.folder.absolute()
    prepare(folder)
    machines = [machine(folder, None)] + ([machine(folder, options.mpich)] if options.mpich else [])
    print(f"{'package':14} {'version':10} ranks " + " ".join(f"{one.name:>20}" for one in machines))
    unexplained = 0
    for name in options.names or PACKAGES:
        try:
            install(folder, name)
        except subprocess.CalledProcessError as error:
            print(f"{name:14} cannot be installed: {error}", flush=True)
            continue
        results = [run(one, folder, name) for one in machines]
        counts = " ".join(f"{one.passed:5} of {one.passed + len(one.failed):5} passed" for one in results)
        print(f"{name:14} {PACKAGES[name].version:10} {PACKAGES[name].ranks:5} {counts}", flush=True)
        for test in sorted(results[0].failed):
            also = len(results) > 1 and test in results[1].failed
            print(f"    {test}{': fails over MPICH as well' if also else ''}", flush=True)
            unexplained += not also
    return bool(unexplained)


if __name__ == "__main__":
    sys.exit(main())
