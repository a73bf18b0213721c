"""A program for `shmrun --mindspore`: expert parallelism by AlltoAll, with gradients, compared with all experts here.

Each rank has one expert and its own tokens. It sends as many of them to each expert, and gets the answers back.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore._c_expression import GroupOptions
from mindspore.communication import create_group, get_group_size, get_rank, init
from mindspore.mint import distributed

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
init()
rank, size = get_rank(), get_group_size()
create_group("experts", list(range(size)), GroupOptions())
TOKENS, WIDTH = 2 * size, 4


def weights(seed, *shape):
    return np.random.default_rng(seed).random(shape, np.float32) - 0.5


class Experts(nn.Cell):
    def __init__(self):
        super().__init__()
        self.router = Parameter(Tensor(weights(99, WIDTH, WIDTH)), name="router")
        up, down = Tensor(weights(rank, 8, WIDTH)), Tensor(weights(rank + 50, WIDTH, 8))
        self.expert = nn.SequentialCell(nn.Dense(WIDTH, 8, up), nn.GELU(), nn.Dense(8, WIDTH, down))
        self.dispatch = ops.AlltoAll(size, 0, 1, "experts")
        self.combine = ops.AlltoAll(split_count=size, split_dim=1, concat_dim=0, group="experts")

    def construct(self, x):
        there = self.dispatch(mint.matmul(x, self.router).reshape(TOKENS, 1, WIDTH))
        return self.combine(self.expert(there)).reshape(TOKENS, WIDTH)


net = Experts()
mine = Tensor(weights(100 + rank, TOKENS, WIDTH))


def loss_of(x):
    return (net(x) ** 2).sum()


loss, (by_x, by_weights) = ms.value_and_grad(loss_of, 0, net.trainable_params())(mine)
distributed.all_reduce(loss)
distributed.all_reduce(by_weights[0])  # all ranks have the router; each has its own expert


# the same on one rank: tokens of all ranks, and the weights of all experts

everywhere = [Tensor(weights(100 + r, TOKENS, WIDTH)) for r in range(size)]
router = Parameter(Tensor(weights(99, WIDTH, WIDTH)), name="all_router")
biases = net.expert[0].bias.asnumpy(), net.expert[2].bias.asnumpy()
gathered = [[Tensor(np.zeros(one.shape, np.float32)) for _ in range(size)] for one in biases]
for out, one in zip(gathered, biases, strict=True):
    distributed.all_gather(out, Tensor(one))
ups = [Parameter(Tensor(weights(e, 8, WIDTH)), name=f"up{e}") for e in range(size)]
downs = [Parameter(Tensor(weights(e + 50, WIDTH, 8)), name=f"down{e}") for e in range(size)]


def all_of(*tokens):
    total = 0
    for x in tokens:
        h = mint.matmul(x, router)
        for e in range(size):
            part = h[2 * e : 2 * e + 2]
            inner = ops.gelu(mint.matmul(part, ups[e].T) + gathered[0][e], approximate="tanh")
            total = total + ((mint.matmul(inner, downs[e].T) + gathered[1][e]) ** 2).sum()
    return total


whole = ms.value_and_grad(all_of, tuple(range(size)), [router, ups[rank], downs[rank]])
wanted, (by_tokens, by_all) = whole(*everywhere)
named = dict(zip((one.name for one in net.trainable_params()), by_weights, strict=True))
found = [loss, by_x, named["router"], named["expert.0.weight"], named["expert.2.weight"]]
for name, got, right in zip(
    ("loss", "tokens", "router", "up", "down"), found, [wanted, by_tokens[rank], *by_all], strict=True
):
    if not np.allclose(got.asnumpy(), right.asnumpy(), rtol=1e-3, atol=1e-5):
        print(f"rank {rank}: {name}: {got} instead of {right}", flush=True)
print(f"rank {rank}: right", flush=True)
