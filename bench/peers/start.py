"""How the ranks of each library are started, each by its own launcher."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

# The settings each library's own documentation gives for root, and for more ranks than cores.
FLAGS = {"openmpi": ["--allow-run-as-root", "--oversubscribe"], "mpich": [], "impi": []}


def run(peer: str, home: Path, arguments: list[str], ranks: int, timeout: float) -> str | None:
    """Run the benchmark on `peer` installed in `home`, or on shmcoll. Returns None, or what went wrong in a line."""
    if peer == "shmcoll":
        return _wait([_start([sys.executable, "-m", "shmbench", *arguments], dict(os.environ))], timeout)
    python = str(home / "bin" / "python")
    environment = os.environ | {"PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"}
    if peer == "gloo":
        return _run_gloo([python, str(HERE / "gloo.py"), *arguments], environment, ranks, timeout)
    mpiexec = [str(home / "bin" / "mpiexec"), *FLAGS[peer], "-n", str(ranks)]
    return _wait([_start([*mpiexec, python, str(HERE / "mpi.py"), *arguments], environment)], timeout)


def _run_gloo(command: list[str], environment: dict[str, str], ranks: int, timeout: float) -> str | None:
    """gloo has no launcher: one process a rank, told of the others by the environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = environment | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    return _wait([_start(command, shared | {"RANK": str(rank)}) for rank in range(ranks)], timeout)


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=environment, stdout=sys.stderr, start_new_session=True)


def _wait(processes: list[subprocess.Popen[bytes]], timeout: float) -> str | None:
    """Wait for all of them; end them, with all they started, when it takes too long or one fails."""
    try:
        for process in processes:
            if process.wait(timeout):
                return f"exit code {process.returncode}"
    except subprocess.TimeoutExpired:
        return f"not done after {timeout:g} s"
    finally:
        for process in processes:
            if process.poll() is None:
                _end(process)
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """A launcher that is asked takes its ranks along, wherever it has put them; one that is killed cannot."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, number)
        try:
            process.wait(5)
            return
        except subprocess.TimeoutExpired:
            continue
