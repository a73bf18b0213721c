"""The gradient of each operator, written with operators: so that a gradient has gradients again.

A collective is linear unless it reduces by something else than a sum. The gradient of a linear one is the transposed
movement: the gradient of a gather is a scatter, that of a copy is a sum. Messages have none, and refuse tensors that
MindSpore records.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.ops.all_to_all import AlltoAll, AlltoAllV, AlltoAllVC
from shmcoll.mindspore.ops.gradients import BY_OPERATOR
from shmcoll.mindspore.ops.halos import NeighborExchangeV2, NeighborExchangeV2Grad
from shmcoll.mindspore.ops.moves import AllGather, AllGatherV, Broadcast, CollectiveGather, CollectiveScatter
from shmcoll.mindspore.ops.neighbors import NeighborExchange
from shmcoll.mindspore.ops.primitive import Primitive
from shmcoll.mindspore.ops.reductions import AllReduce, Reduce, ReduceOp, ReduceScatter, ReduceScatterV

Gradient = Callable[..., Any]


def _of(*operators: type[Primitive]) -> Callable[[Gradient], Gradient]:
    def enter(gradient: Gradient) -> Gradient:
        BY_OPERATOR.update(dict.fromkeys(operators, gradient))
        return gradient

    return enter


@_of(AllReduce)
def _all_reduce(made: AllReduce, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    total = AllReduce(ReduceOp.SUM, made.group)(gradient)
    if made.op == ReduceOp.SUM:
        return total
    if made.op == ReduceOp.AVG:
        return total / made.comm.size
    if made.op == ReduceOp.PROD:
        factors = AllGather(made.group)(xs[0].reshape((1, *xs[0].shape)))
        return reduce(mul, (factors[i] for i in range(made.comm.size) if i != made.comm.rank), total)
    return total * (xs[0] == out).astype(total.dtype)  # as MindSpore: equal extremes all count


@_of(Reduce)
def _reduce(made: Reduce, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    _check_sum(made)
    mine = gradient if made.comm.rank == made.dest_rank else xs[0]  # elsewhere, only its shape and type count
    return Broadcast(made.dest_rank, made.group)((mine,))[0]


@_of(ReduceScatter)
def _reduce_scatter(made: ReduceScatter, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    _check_sum(made)
    return AllGather(made.group)(gradient)


@_of(ReduceScatterV)
def _reduce_scatter_v(made: ReduceScatterV, xs: Sequence[Any], out: Any, gradient: Any, sizes: Any) -> Any:
    _check_sum(made)
    return _whole(AllGatherV(made.group)(_flat(gradient, out), sizes), xs[0])


@_of(AllGather)
def _all_gather(made: AllGather, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    return ReduceScatter(ReduceOp.SUM, made.group)(gradient)


@_of(AllGatherV)
def _all_gather_v(made: AllGatherV, xs: Sequence[Any], out: Any, gradient: Any, sizes: Any) -> Any:
    return _whole(ReduceScatterV(ReduceOp.SUM, made.group)(_flat(gradient, out), sizes), xs[0])


@_of(Broadcast)
def _broadcast(made: Broadcast, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    total = Reduce(made.root_rank, ReduceOp.SUM, made.group)(gradient)
    return total if made.comm.rank == made.root_rank else _zeros(xs[0])


@_of(CollectiveScatter)
def _scatter(made: CollectiveScatter, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    total = CollectiveGather(made.src_rank, made.group)(gradient)
    return total if made.comm.rank == made.src_rank else _zeros(xs[0])


@_of(CollectiveGather)
def _gather(made: CollectiveGather, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    if made.comm.rank != made.dest_rank:  # the gradient of zeros has no meaning; the scatter wants equal shapes
        n, shape = made.comm.size, xs[0].shape
        gradient = xs[0].broadcast_to((n, *shape)).reshape((n * shape[0], *shape[1:]))
    return CollectiveScatter(made.dest_rank, made.group)(gradient)


@_of(AlltoAll)
def _all_to_all(made: AlltoAll, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    return AlltoAll(made.split_count, made.concat_dim, made.split_dim, made.group)(gradient)


@_of(AlltoAllV)
def _all_to_all_v(made: AlltoAllV, xs: Sequence[Any], out: Any, gradient: Any, sent: Any, received: Any) -> Any:
    return _whole(AlltoAllV(made.group, made.block_size)(_flat(gradient, out), received, sent), xs[0])


@_of(AlltoAllVC)
def _all_to_all_v_c(made: AlltoAllVC, xs: Sequence[Any], out: Any, gradient: Any, matrix: Any) -> Any:
    back = AlltoAllVC(made.group, made.block_size, not made.transpose)
    return _whole(back(_flat(gradient, out), matrix), xs[0])


@_of(NeighborExchange)
def _neighbor_exchange(made: NeighborExchange, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    return NeighborExchange(
        made.recv_rank_ids, made.send_rank_ids, made.send_shapes, made.recv_shapes, made.recv_type, made.group
    )(tuple(gradient))


@_of(NeighborExchangeV2, NeighborExchangeV2Grad)
def _neighbor_exchange_v2(made: NeighborExchangeV2, xs: Sequence[Any], out: Any, gradient: Any) -> Any:
    back = NeighborExchangeV2Grad if isinstance(made, NeighborExchangeV2) else NeighborExchangeV2
    return back(made.send_rank_ids, made.send_lens, made.recv_rank_ids, made.recv_lens, made.data_format, made.group)(
        gradient
    )


def _check_sum(made: Any) -> None:
    if made.op != ReduceOp.SUM:
        raise RuntimeError(f"The {made.name.lower()} bprop only support ReduceOp.SUM until now.")


def _zeros(x: Any) -> Any:
    return arrays.like(x, np.zeros_like(arrays.to_numpy(x)))


def _flat(gradient: Any, out: Any) -> Any:
    """Return the gradient of a result of one dimension. It has shape () if nothing was received."""
    return gradient if out.shape else gradient.reshape((1,))[:0]


def _whole(found: Any, x: Any) -> Any:
    """Return the gradient of `x` from a result of one dimension, also if `x` has no elements."""
    return found.reshape(x.shape) if x.size else x
