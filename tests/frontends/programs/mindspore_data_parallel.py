"""A program for `shmrun --mindspore`: data parallelism with `mint.distributed`, and results of all ranks joined.

Parameters are broadcast, gradients reduced in buckets while the next bucket is prepared, and scores gathered.
"""

import os

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.mint.distributed import (
    all_gather,
    all_gather_object,
    all_reduce,
    all_to_all_single,
    barrier,
    broadcast,
    destroy_process_group,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU", device_id=int(os.environ.get("DEVICE_ID", "0")))
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
if not is_initialized():
    init_process_group()
rank, size = get_rank(), get_world_size()
assert (rank, size) == (int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"]))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(ops.full((4, 2), rank + 1.0), name="weight")
        self.bias = Parameter(ops.zeros(2, ms.float32), name="bias")


net = Net()
for parameter in net.trainable_params():
    broadcast(parameter, 0)
assert net.weight.asnumpy().tolist() == [[1.0, 1.0]] * 4

handles, buckets = [], []
for i in range(3):
    bucket = Tensor(np.full(5, (i + 1) * (rank + 1)), ms.float32)
    buckets.append(bucket)
    handles.append(all_reduce(bucket, "avg", async_op=True))
for handle in handles:
    handle.wait()
mean = sum(range(1, size + 1)) / size
assert [one.asnumpy()[0] for one in buckets] == [(i + 1) * mean for i in range(3)]

scores = Tensor([10.0 * rank, 10.0 * rank + 1], dtype=ms.float32)
everybody = [Tensor(np.zeros(scores.shape, dtype=np.float32)) for _ in range(size)]
all_gather(everybody, scores)
joined = ops.Concat(axis=0)(everybody).asnumpy().tolist()
assert joined == [10.0 * r + i for r in range(size) for i in (0, 1)]
assert mint.cat(everybody, dim=0).shape == (2 * size,)

names = [None] * size
all_gather_object(names, {"rank": rank})
assert names == [{"rank": r} for r in range(size)]

tokens = Tensor(np.arange(rank + size, dtype=np.float32).reshape(-1, 1))  # size - 1 to each rank before the last
sent = [1] * (size - 1) + [rank + 1]
counts = mint.zeros(size, dtype=ms.int64)
all_to_all_single(counts, Tensor(sent, ms.int64))
come = tokens.new_empty((int(counts.sum()), 1))
all_to_all_single(come, tokens, output_split_sizes=counts.tolist(), input_split_sizes=sent, group=new_group())
assert come.sum(dim=0, keepdim=True).shape == (1, 1) and come.shape[0] == int(counts.sum(dim=-1))
barrier()
destroy_process_group()
print(f"rank {rank}: right", flush=True)
