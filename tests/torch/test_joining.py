"""How ranks join the torch backend: under shmrun, torchrun and `mp.spawn`, again in one process, and after gloo."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")

JOB = """
import os, sys
import torch, torch.distributed as dist, shmcoll, shmcoll.torch

def work(rank, size, options):
    for turn in range(3):
        dist.init_process_group("shmcoll", **options)
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, size, "shmcoll")
        assert shmcoll.init().rank == rank
        tensor = torch.full((4,), rank + 1.0)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size * (size + 1) / 2] * 4
        dist.destroy_process_group()
    launcher = shmcoll.init().launcher
    dist.init_process_group("gloo", **({**options, "init_method": options["init_method"] + "0"} if options else {}))
    beside = dist.new_group(backend="shmcoll")
    first = dist.new_group([0], backend="shmcoll")
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=beside)
    assert tensor.tolist() == [size] * 2
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write(f"rank {rank} of {size} by {launcher}\\n")

def spawned(rank, size, path):
    work(rank, size, dict(init_method=f"file://{path}", rank=rank, world_size=size))

if __name__ == "__main__":
    if len(sys.argv) > 1:
        torch.multiprocessing.spawn(spawned, (2, sys.argv[1]), 2)
    else:
        work(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), {})
"""

COMMANDS = {
    "shmrun": [sys.executable, "-m", "shmrun", "-n", "2"],
    "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    "explicit": [sys.executable],
}


@pytest.mark.parametrize("launcher", COMMANDS)
def test_ranks_join_again_and_again(launcher: str, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    arguments = [str(tmp_path / "meeting")] if launcher == "explicit" else []
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [*COMMANDS[launcher], str(script), *arguments],
        env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of 2 by {launcher}" for rank in range(2)]


def test_the_first_group_must_be_of_all_ranks(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import torch, torch.distributed as dist, shmcoll.torch\n"
        "def work(rank, path):\n"
        "    dist.init_process_group('gloo', init_method=f'file://{path}', rank=rank, world_size=2)\n"
        "    try:\n"
        "        dist.new_group([0], backend='shmcoll')\n"
        "        assert rank == 1\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
        "    dist.barrier()\n"
        "if __name__ == '__main__':\n"
        f"    torch.multiprocessing.spawn(work, ({str(tmp_path / 'meeting')!r},), 2)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "the first group of the backend shmcoll has 1 of 2 ranks" in done.stdout
