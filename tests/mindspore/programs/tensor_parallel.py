"""A program for `shmrun --mindspore`: two layers, one cut by columns and the other by rows, trained by all ranks.

Ranks that have the same rows of the batch are a group. The loss, and the weights after some steps, are compared with
those of whole layers. The gradients that a backward pass of AllReduce gives are those of the sum over all ranks.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.communication import create_group, get_group_size, get_rank, init

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
init()
rank, size = get_rank(), get_group_size()
half = max(size // 2, 1)
cut, block = rank % half, rank // half  # ranks of one block have the same rows; ranks of one cut the same weights
create_group(f"block {block}", [block * half + i for i in range(half)])
create_group(f"cut {cut}", [i * half + cut for i in range(size // half)])
STEPS, ROWS, WIDTH, HIDDEN = 3, 4, 4, 4 * half
rng = np.random.default_rng(11)
first, second = (rng.random(shape, np.float32) - 0.5 for shape in ((WIDTH, HIDDEN), (HIDDEN, WIDTH)))
batch = rng.random((size // half * ROWS, WIDTH), np.float32)
columns = slice(cut * 4, cut * 4 + 4)


class Layers(nn.Cell):
    """Layers of which this rank has a part, or the whole."""

    def __init__(self, first, second, group=None):
        super().__init__()
        self.first, self.second = Parameter(Tensor(first), name="first"), Parameter(Tensor(second), name="second")
        self.all_reduce = ops.AllReduce(group=group) if group else nn.Identity()

    def construct(self, x):
        return self.all_reduce(mint.matmul(mint.tanh(mint.matmul(x, self.first)), self.second))


def trained(net, x, reduce):
    grad_fn = ms.value_and_grad(lambda rows: (net(rows) ** 2).sum(), None, net.trainable_params())
    optimizer = nn.SGD(net.trainable_params(), 0.05)
    for _ in range(STEPS):
        loss, grads = grad_fn(x)
        optimizer(reduce(grads))
    return [loss.asnumpy(), *(one.asnumpy() for one in net.trainable_params())]


mean = ops.AllReduce(group=f"cut {cut}")
mine = Tensor(batch[block * ROWS : (block + 1) * ROWS])
part = Layers(first[:, columns].copy(), second[columns].copy(), f"block {block}")
found = trained(part, mine, lambda grads: tuple(mean(one) / half for one in grads))
found[0] = ops.AllReduce(group=f"cut {cut}")(Tensor(found[0])).asnumpy()
wanted = trained(Layers(first, second), Tensor(batch), lambda grads: grads)
for name, got, right in zip(
    ("loss", "first", "second"), found, (wanted[0], wanted[1][:, columns], wanted[2][columns]), strict=True
):
    if not np.allclose(got, right, rtol=1e-4, atol=1e-5):
        print(f"rank {rank}: {name}: {got} instead of {right}", flush=True)
print(f"rank {rank}: right", flush=True)
