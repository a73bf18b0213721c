"""The operations of `shmcoll.mindspore`."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from shmbench.doors import Call
from shmcoll.mindspore import Tensor, communication, ops
from shmcoll.mindspore.mint.distributed import gather


def calls(comm: Any) -> Iterator[Call]:
    communication.init()
    x = np.arange(2, dtype=np.float32) + comm.rank
    blocks = np.arange(2 * comm.size, dtype=np.float32) + comm.rank
    tensor, tensor_of_blocks = Tensor(x), Tensor(blocks)
    arrays = [np.empty_like(x) for _ in range(comm.size)]
    tensors = [Tensor(array) for array in arrays]
    into, written = (arrays, (arrays, tensors)) if comm.rank == 0 else (None, ([], []))

    all_reduce, all_to_all = ops.AllReduce(), ops.AlltoAll(comm.size, 0, 0)
    yield Call("ops.AllReduce", lambda: comm.all_reduce(x), lambda: all_reduce(tensor))
    yield Call("ops.AlltoAll", lambda: comm.all_to_all(blocks), lambda: all_to_all(tensor_of_blocks))
    yield Call("mint.distributed.gather", lambda: comm.gather(x, out=into), lambda: gather(tensor, tensors), written)
