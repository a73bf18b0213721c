"""One rank of the benchmark on torch with gloo: `RANK=0 WORLD_SIZE=2 MASTER_ADDR=... python gloo.py all_reduce ...`.

The tensors share the memory of the harness's numpy arrays. gloo's all_reduce and reduce work in place only: out of
place is a copy and then that. There are no scans, and the calls with counts are those that torch has under other names.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from shmbench.cli.options import parse
from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.lengths import received_counts, sent_counts
from shmbench.collectives.table import COLLECTIVES, repeat
from shmbench.commands.worker import work

OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


def tensors(buffers: Buffers) -> list[tuple[Any, Any]]:
    return [tuple(None if array is None else torch.from_numpy(array) for array in pair) for pair in buffers]


def barrier(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    barrier = comm.barrier
    for _ in range(n):
        barrier()


def all_reduce(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_reduce, op, pairs = comm.all_reduce, OPS[case.op], tensors(buffers)
    if case.in_place:
        for x, _ in islice(cycle(pairs), n):
            all_reduce(x, op)
    else:
        for x, out in islice(cycle(pairs), n):
            out.copy_(x)
            all_reduce(out, op)


def reduce(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    """It spoils the tensors of all ranks, so that each needs a copy."""
    reduce, root, op, pairs = comm.reduce, case.root, OPS[case.op], tensors(buffers)
    if case.in_place:
        for x, _ in islice(cycle(pairs), n):
            reduce(x, root, op)
    else:
        spare = None if case.is_root else torch.empty_like(pairs[0][0])
        for x, out in islice(cycle(pairs), n):
            target = out if spare is None else spare
            target.copy_(x)
            reduce(target, root, op)


def parts(case: Case, x: Any) -> Any:
    return None if x is None else list(x.chunk(case.ranks))


#: the other calls, and their arguments from the case and a pair of tensors
CALLS: dict[str, tuple[str, Callable[[Case, Any, Any], tuple[Any, ...]]]] = {
    "broadcast": ("broadcast", lambda case, x, out: (x, case.root)),
    "reduce_scatter": ("reduce_scatter_tensor", lambda case, x, out: (out, x, OPS[case.op])),
    "all_gather": ("all_gather_into_tensor", lambda case, x, out: (out, x)),
    "gather": ("gather", lambda case, x, out: (x, parts(case, out), case.root)),
    "scatter": ("scatter", lambda case, x, out: (out, parts(case, x), case.root)),
    "all_to_all": ("all_to_all_single", lambda case, x, out: (out, x)),
    "all_to_all_v": (
        "all_to_all_single",
        lambda case, x, out: (out, x, received_counts(case), sent_counts(case, case.rank)),
    ),
}
RUNS = {"barrier": barrier, "all_reduce": all_reduce, "reduce": reduce}


def run(name: str, comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    method, arguments = CALLS[name]
    repeat(getattr(comm, method), [arguments(case, x, out) for x, out in tensors(buffers)], n)


IN_PLACE = {"broadcast", "all_reduce", "reduce"}  # torch promises it for no other


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
        found = replace(COLLECTIVES[name], run=RUNS.get(name) or partial(run, name))
        return found if name in IN_PLACE else replace(found, in_place=None)


if __name__ == "__main__":
    code = work(Gloo(), parse(sys.argv[1:]))
    dist.destroy_process_group()
    sys.exit(code)
