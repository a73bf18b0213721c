"""The wheel and the sdist, installed into an empty environment, run a job and import the front ends.

On each version of Python that pyproject.toml lists and this machine has.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def run(command: list[str], cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        command, cwd=cwd, env=inherited | variables, capture_output=True, text=True, timeout=300, check=False
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
    for command in ("shmrun", "shmbench"):
        assert run([str(bin / command), "--help"], folder).stdout.startswith(f"usage: {command}")


@pytest.mark.stress  # a minute and more: every dependency is installed, and routines are compiled
@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_environment_runs_a_job(folder: Path, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no interpreter of Python {version} on PATH, in pyenv or uv")
    built = run([sys.executable, "-m", "hatchling", "build", "-d", str(folder / "built")], ROOT)
    assert built.returncode == 0, built.stderr
    assert run([python, "-m", "venv", str(folder / "venv")]).returncode == 0
    own = folder / "venv" / "bin" / "python"
    pip = [str(own), "-m", "pip", "--disable-pip-version-check", "-q"]
    probe = run([*pip, "download", "--no-deps", "-d", str(folder), PROJECT["dependencies"][-1]])
    if probe.returncode:
        pytest.skip(f"no package index can be reached: {probe.stderr.strip().splitlines()[-1]}")
    for pattern, options in (("*.whl", []), ("*.tar.gz", ["--no-deps", "--force-reinstall"])):
        (distribution,) = (folder / "built").glob(pattern)
        installed = run([*pip, "install", *options, str(distribution)])
        assert installed.returncode == 0, installed.stderr
        assert run([*pip, "check"]).returncode == 0
        check_installed(own, folder)
