"""A script on ranks of its own, started as users do, by `shmrun`."""

import subprocess
import sys
from pathlib import Path

from shmbench.timing.launch import Failed

SECONDS = 60


def run(script: Path, ranks: int, *options: str) -> str:
    """Return what it has printed. Raises `Failed` with the last line of what went wrong, also when time is up."""
    command = [sys.executable, "-m", "shmrun", "-n", str(ranks), *options, str(script)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"shmrun -n {ranks}: not done after {SECONDS} s") from None
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"shmrun -n {ranks}: exit code {done.returncode}: {(told or ['nothing printed'])[-1]}")
    return done.stdout
