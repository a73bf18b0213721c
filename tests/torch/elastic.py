"""A program that torchrun restarts with other numbers of ranks: `elastic.py BACKEND FOLDER`.

One rank trains and saves, and goes on until torchrun restarts it as one of two. They train from what was saved. Then
the agent that came second is killed with its rank, and the other one trains alone and writes its parameters.
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.nn.parallel import DistributedDataParallel

import shmcoll.torch  # noqa: F401
from tests.torch.programs.table import model, train


def work(backend: str, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    trained = DistributedDataParallel(model())
    saved = folder / "saved"
    state = {"model": trained.module.state_dict(), "steps": 0}
    if saved.exists():
        checkpoint.load(state, checkpoint_id=saved)
    part = 3 if state["steps"] == 2 * 2 else size
    if state["steps"] < 2 * part:  # else it was alone once more
        train(trained, rank, 2 * part - state["steps"])
        state = {"model": trained.module.state_dict(), "steps": 2 * part}
        checkpoint.save(state, checkpoint_id=saved)
        with (folder / "parts").open("a") as file:
            file.write(f"part {part}, rank {rank} of {size}\n")
    if part == 2 and os.environ["SECOND"]:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    while part < 3:
        train(trained, rank)  # until the other rank has gone, or torchrun restarts this one
    torch.save([one.detach() for one in trained.parameters()], folder / "parameters")
    dist.destroy_process_group()


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]))
