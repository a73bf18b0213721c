"""A program that joins the backend again and again, and then beside gloo: each rank prints a line at the end."""

import os
import sys
from typing import Any

import torch
import torch.distributed as dist

import shmcoll
import shmcoll.torch


def work(rank: int, size: int, options: dict[str, Any]) -> None:
    for _ in range(3):
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
    dist.new_group([0], backend="shmcoll")
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=beside)
    assert tensor.tolist() == [size] * 2
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write(f"rank {rank} of {size} by {launcher}\n")


if __name__ == "__main__":
    work(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), {})
