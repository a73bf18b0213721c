"""A program for `shmrun --mindspore`: a pipeline, one layer on each rank, with activations forward and gradients back.

The result is compared with all layers on one rank.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.mint.distributed import get_rank, get_world_size, init_process_group, irecv, recv, send

init_process_group()
rank, size = get_rank(), get_world_size()
BATCHES, WIDTH = 3, 4


def weight(seed):
    return Tensor(np.random.default_rng(seed).random((WIDTH, WIDTH), np.float32) - 0.5)


class Layer(nn.Cell):
    def __init__(self, number):
        super().__init__()
        self.weight = Parameter(weight(number), name=f"weight{number}")

    def construct(self, x):
        return mint.tanh(ops.matmul(x, self.weight))


layer = Layer(rank)
last = rank == size - 1
by_output = ops.GradOperation(get_all=True, get_by_list=True, sens_param=True)(layer, layer.trainable_params())
inputs = [weight(100 + i) for i in range(BATCHES)]
total = mint.zeros((WIDTH, WIDTH))
for i in range(BATCHES):  # forward
    if rank:
        inputs[i] = mint.zeros((WIDTH, WIDTH))
        recv(inputs[i], src=rank - 1)
    if not last:
        send(layer(inputs[i]), dst=rank + 1)
for i in range(BATCHES):  # and back
    gradient = mint.ones((WIDTH, WIDTH))
    if not last:
        irecv(gradient, src=rank + 1).wait()
    (by_input,), (by_weight,) = by_output(inputs[i], gradient)
    total += by_weight
    if rank:
        send(by_input, dst=rank - 1)

layers = nn.SequentialCell(*map(Layer, range(size)))
mine = layers.trainable_params()[rank : rank + 1]
wanted = sum(ms.grad(lambda x: layers(x).sum(), None, mine)(weight(100 + i))[0] for i in range(BATCHES))
if not np.allclose(total.asnumpy(), wanted.asnumpy(), rtol=1e-4, atol=1e-6):
    print(f"rank {rank}: {total} instead of {wanted}", flush=True)
print(f"rank {rank}: right", flush=True)
