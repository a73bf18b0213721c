"""A program for `shmrun --mindspore`: data parallelism as MindSpore's tutorial has it, compared with whole batches.

By a loop with accumulated gradients and `DistributedGradReducer`, and by `Model.train` with sharded data.
"""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops, train
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.PYNATIVE_MODE)
init()
rank, size = get_rank(), get_group_size()
STEPS, MICRO, BATCH = 3, 2, 4 * size
rng = np.random.default_rng(7)
images = rng.random((STEPS * MICRO * BATCH, 2, 3), np.float32)
labels = rng.integers(0, 3, len(images)).astype(np.int32)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.SequentialCell(nn.Flatten(), nn.Dense(6, 8), nn.ReLU(), nn.Dense(8, 3))
        for one in self.trainable_params():
            one.set_data(ms.Tensor(np.linspace(-0.4, 0.5, one.size, dtype=np.float32).reshape(one.shape)))

    def construct(self, x):
        return self.layers(x)


def data(batch, **shard):
    whole = ds.GeneratorDataset(list(zip(images, labels, strict=True)), ["image", "label"], shuffle=False, **shard)
    return whole.batch(batch)


def trained(batches, reduce):
    """The weights after accumulating MICRO batches for each of STEPS steps."""
    net, loss = Network(), nn.CrossEntropyLoss()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    reducer = nn.DistributedGradReducer(optimizer.parameters, mean=True) if reduce else lambda grads: grads
    grad_fn = ms.value_and_grad(lambda x, y: loss(net(x), y), None, optimizer.parameters)
    add = ops.Add()
    sums = None
    for i, (x, y) in enumerate(batches, 1):
        _, grads = grad_fn(x, y)
        sums = grads if sums is None else tuple(map(add, sums, grads))
        if i % MICRO == 0:
            optimizer(reducer(tuple(one / MICRO for one in sums)))
            sums = None
    return [one.asnumpy() for one in net.trainable_params()]


def check(name, got, wanted):
    if not all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(got, wanted, strict=True)):
        print(f"rank {rank}: {name}: {got} instead of {wanted}", flush=True)


wanted = trained(data(BATCH), reduce=False)
check("a loop", trained(data(BATCH // size, num_shards=size, shard_id=rank), reduce=True), wanted)

whole = Network()
train.Model(whole, nn.CrossEntropyLoss(), nn.Momentum(whole.trainable_params(), 0.1, 0.9)).train(
    1, data(BATCH), dataset_sink_mode=False
)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
shared = Network()
train.Model(shared, nn.CrossEntropyLoss(), nn.Momentum(shared.trainable_params(), 0.1, 0.9)).train(
    1, data(BATCH // size, num_shards=size, shard_id=rank), dataset_sink_mode=False
)
weights = [[one.asnumpy() for one in net.trainable_params()] for net in (shared, whole)]
check("Model.train", *weights)
print(f"rank {rank}: right", flush=True)
