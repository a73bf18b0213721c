"""Set up each peer in a virtual environment of its own, from its wheels: `python bench/peers/install.py .peers`."""

import subprocess
import sys
import venv
from pathlib import Path

from shmbench.timing.peers import PEERS, READY


def install(name: str, folder: Path) -> None:
    """Make `folder/name` unless it is there and complete. Raises `CalledProcessError` when pip fails."""
    home = folder / name
    done = home / READY
    if done.exists():
        return
    print(f"installing {PEERS[name].title} in {home}", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    pip = [home / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "numpy", *PEERS[name].packages], check=True)
    done.touch()


if __name__ == "__main__":
    for peer in PEERS:
        install(peer, Path(sys.argv[1]).absolute())
