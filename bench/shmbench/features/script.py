"""A script on ranks of its own, started by `shmrun`, as users start it."""

import subprocess
import sys
from pathlib import Path

from shmbench.timing.launch import Failed
from shmcoll.engine.system.interpreter import flags

SECONDS = 60


def run(script: Path, ranks: int, *options: str) -> str:
    """Return the output of the script. Raises `Failed` with the last line of the error, also if the time is over."""
    command = [sys.executable, *flags(), "-m", "shmrun", "-n", str(ranks), *options, str(script)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"shmrun -n {ranks}: not done after {SECONDS} s") from None
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"shmrun -n {ranks}: exit code {done.returncode}: {(told or ['nothing printed'])[-1]}")
    return done.stdout
