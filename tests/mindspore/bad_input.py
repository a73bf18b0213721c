"""A program for `shmrun --mindspore -n 2`: what is said about bad input, and what MindSpore cannot do on a CPU.

It prints mistakes.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import mindspore as ms
from mindspore import COOTensor, CSRTensor, Tensor, mint, ops
from mindspore.common.api import _pynative_executor
from mindspore.communication import comm_func, create_group, destroy_group, get_rank, init, release
from mindspore.parallel.auto_parallel import AutoParallel
from mindspore.parallel.distributed import DistributedDataParallel

init()
x = Tensor([1.0, 2.0])
SPARSE = " (sparse: gather its indices and its values, which are tensors, or make it dense)"
coo = COOTensor(Tensor([[0, 1]], ms.int32), Tensor([1.0]), (2, 2))
csr = CSRTensor(Tensor([0, 1, 1], ms.int32), Tensor([0], ms.int32), Tensor([1.0]), (2, 2))


class Far(Tensor):
    """As if it were on a device."""

    device = "Ascend:0"


FAR = "TypeError: shmcoll works on tensors in the CPU's memory, but this one is on Ascend:0: pass x.to('CPU')"
create_group("gone", [0, 1])
of_the_group = ops.AllReduce(group="gone")
of_the_group(x)
destroy_group("gone")
GONE = f"RuntimeError: The group gone does not exist. Rank {get_rank()} has: mccl_world_group; create_group makes one."
COMPILER = "needs MindSpore's graph compiler, which does not know these collectives."
NOT_INITED = (
    "RuntimeError: Distributed Communication has not been inited."
    "You can't invoke this interface yet. Please call `init()` method first."
)


def on_a_device(call: Callable[[Any], Any]) -> Any:
    return call(Far([1.0, 2.0]))


def of_an_optimizer_in_parts() -> Any:
    ms.set_auto_parallel_context(parallel_mode="data_parallel", enable_parallel_optimizer=True)
    try:
        return ms.nn.AdamWeightDecay(ms.nn.Dense(2, 2).trainable_params())
    finally:
        ms.reset_auto_parallel_context()


def of_batch_norm() -> Any:
    layer = mint.nn.SyncBatchNorm(3)
    layer.set_train()
    return layer(ops.ones((2, 3, 2, 2))).asnumpy()


def of_a_scaled_loss() -> Any:
    net = ms.nn.Dense(2, 2)
    with_loss = ms.nn.WithLossCell(net, ms.nn.MSELoss())
    step = ms.nn.TrainOneStepWithLossScaleCell(with_loss, ms.nn.SGD(net.trainable_params()), Tensor(2.0))
    return step(ops.ones((2, 2)), ops.ones((2, 2)))


def after_release() -> Any:
    release()
    return ops.AllReduce()(x)


CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: ops.AllReduce()(coo), f"TypeError: For 'AllReduce', input must be a Tensor, but got: COOTensor{SPARSE}."),
    (
        lambda: ops.Broadcast(0)((csr,)),
        f"TypeError: For 'Broadcast', input must be a Tensor, but got: CSRTensor{SPARSE}.",
    ),
    (lambda: mint.distributed.all_reduce(coo), f"TypeError: For all_reduce, the input tensor must be tensor{SPARSE}"),
    (lambda: comm_func.all_reduce(csr), f"TypeError: For all_reduce, the input tensor must be tensor{SPARSE}"),
    (
        lambda: mint.distributed.all_gather([coo], x),
        f"TypeError: Expected tensor, but got {COOTensor}{SPARSE}",
    ),
    (
        lambda: mint.distributed.P2POp("isend", coo, 0),
        f"TypeError: Expected tensor to be Tensor, but got {COOTensor}{SPARSE}.",
    ),
    (lambda: on_a_device(ops.AllReduce()), FAR),
    (lambda: on_a_device(mint.distributed.all_reduce), FAR),
    (lambda: on_a_device(comm_func.all_reduce), FAR),
    (lambda: of_the_group(x), GONE),
    (lambda: mint.distributed.all_reduce(x, group="gone"), GONE),
    (
        lambda: mint.distributed.init_process_group("gloo"),
        "ValueError: Only support hccl now, please setting backend to hccl or using default value",
    ),
    (
        lambda: ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel"),
        f"RuntimeError: shmcoll: parallel_mode 'semi_auto_parallel' {COMPILER}",
    ),
    (lambda: AutoParallel(ms.nn.Dense(2, 2)), f"RuntimeError: shmcoll: AutoParallel {COMPILER}"),
    (
        of_an_optimizer_in_parts,
        'RuntimeError: For "Optimizer", parallel optimizer only supports "Ascend" in data parallel mode',
    ),
    (lambda: mint.full((2,), 1.0).asnumpy(), "RuntimeError: The kernel FillScalar unregistered."),
    (lambda: mint.stack([x, x]).asnumpy(), "RuntimeError: The kernel StackExt unregistered."),
    (lambda: DistributedDataParallel(ms.nn.Dense(2, 2)), "RuntimeError: The kernel InplaceZero unregistered."),
    (of_batch_norm, "RuntimeError: The kernel BatchNormStats unregistered."),
    (of_a_scaled_loss, "RuntimeError: "),
    (after_release, NOT_INITED),
]
for call, wanted in CASES:
    try:
        got = repr(call())
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        with suppress(RuntimeError):  # MindSpore may raise its error once more
            _pynative_executor.sync()
    if not got.startswith(wanted):
        print(f"{got}\n    instead of {wanted}", flush=True)
