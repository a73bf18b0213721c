"""A program for `shmrun --mindspore`: tensor-parallel layers of two groups, compared with whole layers.

The cells are what parallel layers consist of in MindSpore's model libraries: primitives made with a group, moves along
any dimension, parts of a tensor, a `bprop` for MindSpore's gradients.
"""

import mindspore as ms
import mindspore.log as logger
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common import dtype as mstype
from mindspore.common.initializer import Normal, initializer
from mindspore.communication import GlobalComm, create_group, get_group_size, get_rank, init

WIDTH, HIDDEN, TOKENS = 8, 16, 6


def along(x: Tensor, dim: int, call) -> Tensor:
    return call(x.swapaxes(0, dim)).swapaxes(dim, 0)


class Copy(nn.Cell):
    def __init__(self, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(auto_prefix=False)
        self.reduce = ops.AllReduce(op=ops.ReduceOp.SUM, group=group)

    def construct(self, x: Tensor) -> Tensor:
        return x

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (self.reduce(dout),)


class ColumnParallel(nn.Cell):
    """Each rank computes some of the columns; `gather` joins them."""

    def __init__(self, weight: Tensor, group: str, gather: bool):
        super().__init__(auto_prefix=False)
        self.copy = Copy(group)
        part = weight.shape[0] // get_group_size(group)
        self.weight = Parameter(weight.split(part, axis=0)[get_rank(group)].contiguous(), name="weight")
        self.matmul = ops.MatMul(transpose_b=True)
        self.gather = ops.AllGather(group=group) if gather else None

    def construct(self, x: Tensor) -> Tensor:
        y = self.matmul(self.copy(x), self.weight)
        return y if self.gather is None else along(y, -1, self.gather)


class RowParallel(nn.Cell):
    """Each rank has some of the rows; the sum over ranks is the result, or each rank's part of it."""

    def __init__(self, weight: Tensor, group: str, sequence_parallel: bool):
        super().__init__(auto_prefix=False)
        size = get_group_size(group)
        self.weight = Parameter(ops.Split(axis=1, output_num=size)(weight)[get_rank(group)].copy(), name="weight")
        self.sequence_parallel = sequence_parallel
        self.all_reduce = ops.AllReduce(group=group)
        self.reduce_scatter = ops.ReduceScatter(group=group)

    def construct(self, x: Tensor) -> Tensor:
        y = ops.matmul(x, self.weight.swapaxes(0, 1))
        return self.reduce_scatter(y) if self.sequence_parallel else self.all_reduce(y)


def weights(*shape: int) -> Tensor:
    return initializer(Normal(0.5), shape, mstype.float32).init_data()


ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)
init()
ms.set_seed(3)
rank, size = get_rank(), get_group_size()
half = max(size // 2, 1)
members = [one for one in range(size) if one // half == rank // half]
group = f"tp_{members[0]}"
create_group(group, members)
logger.info("rank %d is in %s", rank, group)

first, second, x = weights(HIDDEN, WIDTH), weights(WIDTH, HIDDEN), weights(TOKENS * half, WIDTH)
wanted = (x @ first.T) @ second.T
net = nn.SequentialCell([ColumnParallel(first, group, False), RowParallel(second, group, False)])
net.set_train(False)
off = abs(net(x) - wanted).max()

columns = ColumnParallel(first, group, True)(x)
off = ops.stack([off, abs(columns - x @ first.T).max()], axis=0).max()

part = RowParallel(second, group, True)(ops.stop_gradient(x @ first.T).chunk(half, axis=-1)[get_rank(group)])
whole = ops.cat(ops.split(ops.AllGather(group)(part), TOKENS), axis=0)
off = max(float(off), float(abs(whole - wanted).max()))
heads = ops.AlltoAll(split_count=half, split_dim=1, concat_dim=0, group=group)(x.reshape(-1, WIDTH, 1))
assert heads.shape == (TOKENS * half * half, WIDTH // half, 1) and len(net.trainable_params()) == 2
print(f"rank {rank}: {'right' if off < 1e-4 else off}", flush=True)
