"""The wheel and the sdist, installed into an empty environment, run a job and import the front ends.

On each version of Python that pyproject.toml lists and this machine has. The wheel carries compiled code, made once by
the Python that runs the tests: with it, a first job imports no numba, compiles nothing and writes nothing to the cache.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcoll.engine.compiler.levels import levels
from shmcoll.engine.compiler.object_cache import packaged_name
from shmcoll.startup.warm import ALL, kernels

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"

JOB = """
import numpy as np
import shmcoll

comm = shmcoll.init()
assert "site-packages" in shmcoll.__file__
print(comm.all_reduce(np.full(2, comm.rank + 1.0)))
"""

EXAMPLE = re.findall(r"```python\n# mean\.py\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
CALLED = ("all_reduce", "barrier", "gather", "sum_float32", "sum_float64")  # by both, at their start and their end
LOADED = """
import os, sys
assert "numba" not in sys.modules
assert os.listdir(os.environ["SHMCOLL_CACHE_DIR"]) == []
"""


def interpreter(version: str) -> str | None:
    """Return an interpreter of this version that can make environments: from PATH, pyenv or uv."""
    candidates = [sys._base_executable] if version == RUNNING else []
    candidates += [path] if (path := shutil.which(f"python{version}")) else []
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    candidates += [str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python"))]
    if uv := shutil.which("uv"):
        candidates += run([uv, "python", "find", "--no-project", version]).stdout.split()
    ask = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    return next((path for path in candidates if run([path, "-c", ask]).stdout.strip() == version), None)


def run(
    command: list[str], cwd: Path | None = None, timeout: int = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        command, cwd=cwd, env=inherited | variables, capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is removed at once: an environment is 300 MB, and pytest would keep three."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def check_installed(python: Path, folder: Path) -> None:
    """Run a job of two ranks with the command of the environment, and import the front ends."""
    (folder / "job.py").write_text(JOB)
    bin = python.parent
    job = run([str(bin / "shmrun"), "-n", "2", "job.py"], folder, SHMCOLL_CACHE_DIR=str(folder / "cache"))
    assert (job.returncode, job.stdout) == (0, "[3. 3.]\n" * 2), job.stderr
    doors = run([str(python), "-W", "error", "-c", "import shmcoll.mindspore, shmcoll.nki"], folder)
    assert doors.returncode == 0, doors.stderr
    mpi = "import shmcoll.mpi, os; print(os.environ['MPI4PY_LIBMPI'])"
    library = run([str(python), "-c", mpi], folder, SHMCOLL_CACHE_DIR=str(folder / "cache"))
    assert Path(library.stdout.strip()).is_file(), library.stderr
    for command in ("shmrun", "shmbench"):
        assert run([str(bin / command), "--help"], folder).stdout.startswith(f"usage: {command}")


def check_first_job(python: Path, folder: Path) -> None:
    """Run README's example with an empty cache: all that it calls has come with the wheel."""
    (folder / "mean.py").write_text(EXAMPLE + LOADED)
    begin = time.perf_counter()
    job = run([str(python.parent / "shmrun"), "-n", "2", "mean.py"], folder, SHMCOLL_CACHE_DIR=str(folder / "empty"))
    took = time.perf_counter() - begin
    assert (job.returncode, job.stderr) == (0, "")
    assert sorted(job.stdout.splitlines()) == [f"rank {rank} of 2: [1. 1. 1. 1.]" for rank in (0, 1)]
    mpi = "import shmcoll, shmcoll.mpi, os; print(os.environ['MPI4PY_LIBMPI'].removeprefix(shmcoll.__path__[0]))"
    library = run([str(python), "-c", mpi], folder, SHMCOLL_CACHE_DIR=str(folder / "empty"))
    assert library.stdout == "/objects/mpi/libmpi.so.12\n", library.stderr
    print(f"README's example, first job on {python}: {took:.2f} s")


def build(project: Path, folder: Path) -> None:
    """Build the wheel, compiled code included, and the sdist."""
    told = run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], project, timeout=1800)
    assert told.returncode == 0, told.stderr


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    """A folder with the wheel and the sdist."""
    with tempfile.TemporaryDirectory() as name:
        build(ROOT, Path(name))
        yield Path(name)


@pytest.fixture(scope="module")
def built_for_one_level() -> Iterator[Path]:
    """The same of a project that has the lowest level alone, which every machine runs, and compiles only what jobs of
    this file call."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name, "project")
        shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "dist"))
        with (project / "shmcoll" / "engine" / "compiler" / "levels.py").open("a") as file:
            file.write("\n_LEVELS = {machine: several[-1:] for machine, several in _LEVELS.items()}\n")
        compiler = project / "wheel_build" / "compile_objects.py"
        whole, line = compiler.read_text(), "[*ALL, *kernels()]"
        assert whole.count(line) == 1
        compiler.write_text(whole.replace(line, f"[name for name in [*ALL, *kernels()] if name in {CALLED}]"))
        build(project, Path(name))
        yield Path(name)


@pytest.mark.stress  # minutes: everything is compiled for all levels
def test_the_wheel_has_everything_for_every_level(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert re.search(r"-py3-none-manylinux_2_30_\w+\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        found = {name.removeprefix("shmcoll/objects/") for name in archive.namelist() if "/objects/" in name}
    wanted = {f"{level.name}/{packaged_name(name, level)}" for level in levels() for name in (*ALL, *kernels())}
    assert found == {*wanted, "mpi/libmpi.so.12"}


@pytest.mark.stress  # a minute and more: every dependency is installed, and routines are compiled
@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_environment_runs_a_job(request: pytest.FixtureRequest, folder: Path, version: str) -> None:
    """For the Python that runs the tests with a wheel that is built sooner: it is the one that CI tries."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no interpreter of Python {version} on PATH, in pyenv or uv")
    assert run([python, "-m", "venv", str(folder / "venv")]).returncode == 0
    own = folder / "venv" / "bin" / "python"
    pip = [str(own), "-m", "pip", "--disable-pip-version-check", "-q"]
    probe = run([*pip, "download", "--no-deps", "-d", str(folder), PROJECT["dependencies"][-1]])
    if probe.returncode:
        pytest.skip(f"no package index can be reached: {probe.stderr.strip().splitlines()[-1]}")
    built: Path = request.getfixturevalue("built_for_one_level" if version == RUNNING else "built")
    for pattern, options in (("*.whl", []), ("*.tar.gz", ["--no-deps", "--force-reinstall"])):
        (distribution,) = built.glob(pattern)
        installed = run([*pip, "install", "--no-compile", *options, str(distribution)], SHMCOLL_BUILD_OBJECTS="0")
        assert installed.returncode == 0, installed.stderr
        assert run([*pip, "check"]).returncode == 0
        if pattern == "*.whl":
            check_first_job(own, folder)
        check_installed(own, folder)
