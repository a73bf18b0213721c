"""A program for a command line of msrun: a pipeline of stages that exchange activations, and experts behind it.

Each stage sends to the next one and receives from the one before, with P2POp, send and recv; then tokens travel to
experts and back by AlltoAllV, whose lengths AlltoAll has exchanged.
"""

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.communication import get_group_size, get_rank, init
from mindspore.communication.comm_func import P2POp, batch_isend_irecv, irecv, isend
from mindspore.mint.distributed import recv, send

WIDTH = 4
init()
rank, size = get_rank(), get_group_size()
after, before = (rank + 1) % size, (rank - 1) % size

activation = ops.ones((2, WIDTH), ms.float32) * (rank + 1)
if rank:
    room = ops.zeros_like(activation)
    recv(room, before)
    activation = activation + room
if after:
    send(activation, after)
assert activation.asnumpy()[0, 0] == sum(range(1, rank + 2))

both = batch_isend_irecv([P2POp("isend", activation, after), P2POp("irecv", (2, WIDTH), before, recv_dtype=ms.float32)])
assert both[1].asnumpy()[0, 0] == sum(range(1, before + 2))
handle = isend(both[1], before)
back, pending = irecv(activation, after)
pending.wait()
handle.wait()
assert (back == activation).asnumpy().all()

counter = Tensor(np.arange(size) + rank, ms.float32).reshape(1, size)  # tokens of this rank for each expert
local = ops.AlltoAll(split_count=size, split_dim=-1, concat_dim=-2)(counter)
send_list = ops.cast(counter.reshape(size, -1).sum(dim=-1, keepdim=False), ms.int64)
receive_list = ops.cast(local.reshape(size, -1).sum(dim=-1, keepdim=False), ms.int64)
tokens = Tensor(np.repeat(np.arange(size), send_list.asnumpy()).repeat(WIDTH), ms.float32)
exchange = ops.AlltoAllV(block_size=WIDTH)
come = exchange(tokens, send_list, receive_list)
assert come.shape == (int(receive_list.sum()) * WIDTH,) and (come.asnumpy() == rank).all()
home = exchange(come, receive_list, send_list)
assert (home == tokens).asnumpy().all()
print(f"rank {rank}: right", flush=True)
