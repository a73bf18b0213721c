"""torchrun restarts a program with more ranks, and with fewer; it goes on from a checkpoint as it does over gloo."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch

from tests.support.patience import PATIENCE
from tests.support.waiting import until
from tests.torch.programs.table import free_port

pytestmark = pytest.mark.slow  # agents of torchrun wait for one another, for seconds


def agent(backend: str, folder: Path, port: int, second: bool) -> "subprocess.Popen[bytes]":
    placed = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    environment = {name: value for name, value in os.environ.items() if name not in placed}
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # else torchrun itself waits for a node that comes later
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), "SECOND": "1" if second else ""}
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "2:2" if second else "1:2",
        "--nproc-per-node", "1", "--local-addr", "127.0.0.1", "--max-restarts", "3", "--monitor-interval", "0.1",
        "--rdzv-backend", "c10d", "--rdzv-id", folder.name, "--rdzv-endpoint", f"127.0.0.1:{port}",
        "--rdzv-conf", f"is_host={int(not second)},last_call_timeout=1",
        "-m", "tests.torch.elastic", backend, str(folder),
    ]  # fmt: skip
    with (folder / f"out{int(second)}").open("wb") as file:
        return subprocess.Popen(
            command, env=environment, cwd=Path(__file__).parents[2], stdout=file, stderr=subprocess.STDOUT
        )


def parts(folder: Path) -> list[str]:
    return (folder / "parts").read_text().splitlines() if (folder / "parts").exists() else []


def went_on(backend: str, folder: Path) -> list[torch.Tensor]:
    folder.mkdir()
    port = free_port()
    agents = [agent(backend, folder, port, False)]
    try:
        until(lambda: parts(folder), pause=0.1)
        agents.append(agent(backend, folder, port, True))
        agents[0].wait(2 * PATIENCE)
        assert agents[0].returncode == 0, (folder / "out0").read_text()
    finally:
        for one in agents:
            one.terminate()
            one.wait()
    both = [f"part 2, rank {rank} of 2" for rank in range(2)]
    assert sorted(parts(folder)) == ["part 1, rank 0 of 1", *both, "part 3, rank 0 of 1"]
    return list(torch.load(folder / "parameters"))


def test_restarts_with_other_numbers_of_ranks(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as both:
        found, expected = both.map(lambda backend: went_on(backend, tmp_path / backend), ("shmcoll", "gloo"))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
