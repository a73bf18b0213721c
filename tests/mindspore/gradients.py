"""A program for shmrun: gradients of MindSpore's own tensors through our operators. It prints mistakes.

The models are differences: with one element of one rank a little larger and a little smaller, how much does the sum
over all ranks of `weights * f(x)` change? Forwards are tested elsewhere.
"""

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore import ops as ms_ops

import shmcoll
from shmcoll.mindspore import communication, mint, ops
from shmcoll.mindspore.communication import comm_func

communication.init()
comm = shmcoll.init()
n, rank = comm.size, comm.rank
STEP = 1e-4
after, before = (rank + 1) % n, (rank - 1) % n
rows = [1] * (n - 1) + [n + 1]  # together 2 * n
matrix = [[2 * n if j == (i + 1) % n else 0 for j in range(n)] for i in range(n)]
up, down = (rank - 1 if rank else -1), (rank + 1 if rank + 1 < n else -1)
line = [up, -1, -1, -1, down, -1, -1, -1]


def square(x: Any) -> Any:
    return x.reshape((1, 1, *x.shape))


CASES: dict[str, Callable[[Any], Any]] = {
    **{f"AllReduce {op}": ops.AllReduce(op) for op in ("sum", "prod", "max", "min", "avg")},
    "Reduce": ops.Reduce(n - 1),
    "ReduceScatter": ops.ReduceScatter(),
    "ReduceScatterV": lambda x: ops.ReduceScatterV()(x.reshape(-1)[: 2 * n], rows),
    "AllGather": ops.AllGather(),
    "AllGatherV": lambda x: ops.AllGatherV()(x.reshape(-1)[: rows[rank]], rows),
    "Broadcast": lambda x: ops.Broadcast(n - 1)((x, x * 2))[1],
    "CollectiveScatter": ops.CollectiveScatter(n - 1),
    "CollectiveGather": ops.CollectiveGather(n - 1),
    "AlltoAll": ops.AlltoAll(n, 0, 1),
    "AlltoAllV": lambda x: ops.AlltoAllV()(x.reshape(-1)[: 2 * n], matrix[rank], [row[rank] for row in matrix]),
    "AlltoAllVC": lambda x: ops.AlltoAllVC()(x.reshape(-1)[: 2 * n], Tensor(matrix)),
    "NeighborExchange": lambda x: ops.NeighborExchange([after], [before], ([2 * n, 2],), ([2 * n, 2],), ms.float64)(
        (x,)
    )[0],
    "NeighborExchangeV2": lambda x: ops.NeighborExchangeV2(line, [1, 2, 0, 0], line, [2, 1, 0, 0], "NCHW")(square(x)),
}


def differences(f: Callable[[Any], Any], x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The gradient by this rank's elements, which all ranks find out together."""
    found = np.zeros_like(x)
    for moved in range(n):
        for i in range(x.size):
            sums = []
            for step in (STEP, -STEP):
                near = x.copy()
                near.flat[i] += step * (moved == rank)
                sums.append(comm.all_reduce(np.array((f(Tensor(near)).asnumpy() * weights).sum())))
            if moved == rank:
                found.flat[i] = (sums[0] - sums[1]) / (2 * STEP)
    return found


def check(name: str, got: Any, wanted: Any) -> None:
    if not np.allclose(got, wanted, rtol=1e-5, atol=1e-6):
        print(f"rank {rank}: {name}: {got} instead of {wanted}", flush=True)


def refused(name: str, call: Callable[[], Any], text: str) -> None:
    try:
        found = repr(call())
    except RuntimeError as error:
        found = str(error)
    if not found.startswith(text):
        print(f"rank {rank}: {name}: {found} instead of {text}", flush=True)


rng = np.random.default_rng(rank)
for name, f in CASES.items():
    x = rng.permutation(4 * n).reshape(2 * n, 2) / (4 * n) + 0.5 + rank / (8 * n)
    weights = rng.random(f(Tensor(x)).shape)
    gradient = ms.grad(lambda t: (f(t) * Tensor(weights)).sum())  # noqa: B023
    check(name, gradient(Tensor(x)).asnumpy(), differences(f, x, weights))

# a parameter, in a cell; a gradient of a gradient; a product with a zero; an empty message


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(Tensor([1.0, 2.0]), name="w")
        self.all_reduce = ops.AllReduce()

    def construct(self, x: Any) -> Any:
        return self.all_reduce(x * self.w).sum() * (rank + 1)


net = Net()
total = n * (n + 1) // 2
by_w = ms.grad(net, None, net.trainable_params())(Tensor([3.0, 4.0 + rank]))
check("by a parameter", by_w[0].asnumpy(), [3 * total, (4 + rank) * total])
reduce = ops.AllReduce()
second = ms.grad(ms.grad(lambda x: (reduce(x * x * x) * (rank + 1)).sum()))
check("second", second(Tensor([2.0, 5.0])).asnumpy(), [12 * total, 30 * total])
zero = ms.grad(lambda x: ops.AllReduce("prod")(x).sum())(Tensor([float(rank), 1.0]))
others = np.prod([float(r) for r in range(n) if r != rank])
check("product with a zero", zero.asnumpy(), [n * others, n])
nothing = ms.grad(lambda x: ops.AlltoAllV()(x, [0] * n, [0] * n).sum())(Tensor(np.zeros(0, np.float32)))
check("nothing", nothing.shape, (0,))

# allowed: outside of gradients, and what is cut from them

parameter = ms.Parameter(Tensor([float(rank)]), name="outside")
mint.distributed.broadcast(parameter, n - 1)
check("a parameter, outside of gradients", parameter.asnumpy(), [n - 1])


def beside(x: Any) -> Any:
    y = ms_ops.stop_gradient(x * 2)
    mint.distributed.all_reduce(y)
    ops.Send(7, rank)(y)
    return (x * ops.Receive(7, rank, [n, 2], ms.float32)()).sum()


check("beside", ms.grad(beside)(Tensor(np.ones((n, 2), np.float32))).asnumpy(), np.full((n, 2), 2 * n))

# refused aloud; MindSpore believes afterwards that it still records

t = Tensor(np.ones((n, 2), np.float32))
only_sum = "bprop only support ReduceOp.SUM until now."
refused("max", lambda: ms.grad(lambda x: ops.ReduceScatter("max")(x).sum())(t), f"The reducescatter {only_sum}")


def dropped(x: Any) -> Any:
    """The message is not part of the result."""
    ops.Send(0, rank)(x * 2)
    return x.sum()


def in_place(x: Any) -> Any:
    y = x * 2
    mint.distributed.all_reduce(y)
    return y.sum()


batch = ops.BatchISendIRecv(["isend"], [rank])
room = Tensor(np.ones((n * n, 2), np.float32))
REFUSED: dict[str, Callable[[Any], Any]] = {
    "'Send'": lambda x: ops.Send(0, rank)(x).sum(),
    "'Send' ": dropped,
    "'BatchISendIRecv'": lambda x: batch((x,))[0].sum(),
    "'all_reduce'": in_place,
    "'broadcast'": lambda x: (mint.distributed.broadcast(x, 0), x.sum())[1],
    "'all_gather_into_tensor'": lambda x: (mint.distributed.all_gather_into_tensor(room, x * 2), room.sum())[1],
    "'gather'": lambda x: (mint.distributed.gather(x, [x] * n), x.sum())[1],
    "'all_to_all_single'": lambda x: (mint.distributed.all_to_all_single(t.copy(), x), x.sum())[1],
    "'send'": lambda x: (mint.distributed.send(x, after), x.sum())[1],
    "'all_reduce' ": lambda x: comm_func.all_reduce(x)[0].sum(),
    "'reduce_scatter_tensor'": lambda x: comm_func.reduce_scatter_tensor(x)[0].sum(),
}
for operation, f in REFUSED.items():
    refused(operation, lambda: ms.grad(f)(t), f"For {operation.strip()}, there is no gradient")  # noqa: B023
PYNATIVE = "For 'AllReduce' of shmcoll.mindspore, Graph mode and jit are not supported: use PyNative mode"


@ms.jit
def compiled(x: Any) -> Any:
    return reduce(x)


refused("jit", lambda: compiled(t), PYNATIVE)
ms.set_context(mode=ms.GRAPH_MODE)
refused("graph", lambda: net(t), PYNATIVE)
check("a call outside of graphs", reduce(t).asnumpy(), np.full((n, 2), n))
print(f"rank {rank} is done")
