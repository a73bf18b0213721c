"""One rank of the benchmark on torch with gloo: `RANK=0 WORLD_SIZE=2 MASTER_ADDR=... python gloo.py all_reduce ...`.

The tensors share the memory of the harness's numpy arrays. gloo's all_reduce works in place only: out of place is a
copy and then that.
"""

import sys
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from shmbench.collectives import Buffers, Case, Collective, all_to_all_v, find
from shmbench.options import parse
from shmbench.worker import work

OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


def tensors(buffers: Buffers) -> list[tuple[Any, Any]]:
    return [(torch.from_numpy(x), None if out is None else torch.from_numpy(out)) for x, out in buffers]


def all_reduce(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_reduce, op, pairs = comm.all_reduce, OPS[case.op], tensors(buffers)
    if case.in_place:
        for x, _ in islice(cycle(pairs), n):
            all_reduce(x, op)
    else:
        for x, out in islice(cycle(pairs), n):
            out.copy_(x)
            all_reduce(out, op)


def all_to_all(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_to_all_single = comm.all_to_all_single
    for x, out in islice(cycle(tensors(buffers)), n):
        all_to_all_single(out, x)


def all_to_allv(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_to_all_single = comm.all_to_all_single
    sent, received = all_to_all_v.sent_counts(case, case.rank), all_to_all_v.received_counts(case)
    for x, out in islice(cycle(tensors(buffers)), n):
        all_to_all_single(out, x, received, sent)


def gather(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    gather, root = comm.gather, case.root
    parts = [(x, None if out is None else list(out.chunk(case.ranks))) for x, out in tensors(buffers)]
    for x, out in islice(cycle(parts), n):
        gather(x, out, root)


def barrier(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    barrier = comm.barrier
    for _ in range(n):
        barrier()


RUNS = {
    "all_reduce": all_reduce,
    "all_to_all": all_to_all,
    "all_to_all_v": all_to_allv,
    "gather": gather,
    "barrier": barrier,
}


class Gloo:
    """torch.distributed's default group on gloo; joins by the environment."""

    name = "gloo"

    def __init__(self) -> None:
        dist.init_process_group("gloo")
        self.comm = dist
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.version = f"of torch {torch.__version__}"

    def barrier(self) -> None:
        dist.barrier()

    def exchange(self, values: np.ndarray) -> np.ndarray:
        everyone = [torch.empty(values.size, dtype=torch.float64) for _ in range(self.size)]
        dist.all_gather(everyone, torch.from_numpy(values))
        return np.stack([one.numpy() for one in everyone])

    def collective(self, name: str) -> Collective:
        return replace(find(name), run=RUNS[name])


if __name__ == "__main__":
    code = work(Gloo(), parse(sys.argv[1:]))
    dist.destroy_process_group()
    sys.exit(code)
