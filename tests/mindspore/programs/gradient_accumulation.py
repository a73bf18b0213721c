"""A program for `shmrun --mindspore`: gradient accumulation by a class and a step in `jit`, as MindSpore's tutorial has
them, and the gradients of all ranks. The weights are compared with those of whole batches.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.GRAPH_MODE)  # PyNative mode, with a warning
init("mccl")
rank, size = get_rank(), get_group_size()
STEPS, MICRO, BATCH = 2, 3, 2
rng = np.random.default_rng(3)
images = rng.random((STEPS, MICRO, size, BATCH, 6), np.float32)
labels = rng.integers(0, 3, (STEPS, MICRO, size, BATCH)).astype(np.int32)


def network():
    net = nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), nn.Dense(8, 3))
    for one in net.trainable_params():
        one.set_data(Tensor(np.linspace(-0.4, 0.5, one.size, dtype=np.float32).reshape(one.shape)))
    return net


class Accumulator:
    """Adds up the gradients of `accumulate_step` batches, then gives those of all ranks to the optimizer."""

    def __init__(self, optimizer, accumulate_step):
        self.optimizer = optimizer
        self.reducer = nn.DistributedGradReducer(optimizer.parameters, True)
        self.inner_grads = ParameterTuple(
            [Parameter(ops.zeros_like(one), name=f"accumulated_{one.name}") for one in optimizer.parameters]
        )
        self.accumulate_step, self.counter = accumulate_step, 0
        self.map = ops.HyperMap()

    def __call__(self, grads):
        self.map(ops.partial(ops.assign_add), self.inner_grads, grads)
        self.counter += 1
        if self.counter % self.accumulate_step == 0:
            self.optimizer(self.reducer(self.inner_grads))
            self.map(ops.partial(lambda one: ops.assign(one, ops.zeros_like(one))), self.inner_grads)
        return True


net, loss_fn = network(), nn.CrossEntropyLoss()
accumulator = Accumulator(nn.SGD(net.trainable_params(), 0.3), MICRO)


def forward_fn(data, label):
    logits = net(data)
    return loss_fn(logits, label) / MICRO, logits


grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)


@ms.jit
def train_step(data, label):
    (loss, _), grads = grad_fn(data, label)
    accumulator(grads)
    return loss


for step in range(STEPS):
    for micro in range(MICRO):
        train_step(Tensor(images[step, micro, rank]), Tensor(labels[step, micro, rank]))

whole = network()
optimizer = nn.SGD(whole.trainable_params(), 0.3)
by_weights = ms.value_and_grad(lambda x, y: loss_fn(whole(x), y), None, whole.trainable_params())
for step in range(STEPS):
    _, grads = by_weights(Tensor(images[step].reshape(-1, 6)), Tensor(labels[step].reshape(-1)))
    optimizer(grads)
for got, wanted in zip(net.trainable_params(), whole.trainable_params(), strict=True):
    if not np.allclose(got.asnumpy(), wanted.asnumpy(), rtol=1e-4, atol=1e-6):
        print(f"rank {rank}: {got.name}: {got.asnumpy()} instead of {wanted.asnumpy()}", flush=True)
print(f"rank {rank}: right", flush=True)
