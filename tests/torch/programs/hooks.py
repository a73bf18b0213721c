"""Programs with futures: callbacks that call, wait and fail, and the communication hooks of DDP."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.nn.parallel import DistributedDataParallel

from tests.torch.programs.table import model, program, train


def after(work: Any, callback: Callable[[Any], Any]) -> Any:
    return work.get_future().then(callback)


def reduced(tensor: torch.Tensor, group: Any = None) -> Any:
    return dist.all_reduce(tensor, group=group, async_op=True)


@program
def callbacks_of_callbacks(rank: int, size: int) -> Any:
    """Each callback calls again, waits for it, and passes on what comes. (Gloo has two threads, for two at once.)"""

    def further(future: Any, left: int) -> torch.Tensor:
        tensor = future.value()[0] + rank
        if left:
            inner = after(reduced(tensor), lambda one: further(one, left - 1))
            inner.wait()
            return inner.value() * 2
        return tensor

    future = after(reduced(torch.ones(2)), lambda one: further(one, 1))
    return future.then(lambda one: one.value() + 1).then(lambda one: [one.value(), one.value() * 2]).wait()


@program
def a_callback_waits_for_futures_that_were_taken_before(rank: int, size: int) -> Any:
    """Of calls behind its own, of what follows from them, and for a message. One rank has registered its callbacks
    before the others call."""
    beside, results = dist.new_group(), []
    for early in range(size):
        if rank != early:
            dist.barrier(beside)
        tensors = [torch.full((4,), float(rank + i)) for i in range(4)]
        message, futures = torch.zeros(2), list[Any]()

        def waits(future: Any, message: torch.Tensor = message, futures: list[Any] = futures) -> Any:
            dist.recv(message, (rank - 1) % size)
            later, both = futures[1].wait(), futures[2].wait()
            return [future.value(), later, [one.value() for one in both], futures[0].wait()]

        sent = dist.isend(torch.ones(2) * rank, (rank + 1) % size) if rank != early else None
        works = [reduced(tensor) for tensor in tensors]
        futures.append(works[1].get_future())
        futures.append(after(works[2], lambda one: one.value()[0] * 2))
        futures.append(torch.futures.collect_all([works[3].get_future(), futures[0]]))
        future = after(works[0], waits)
        if sent is None:
            dist.barrier(beside)
            sent = dist.isend(torch.ones(2) * rank, (rank + 1) % size)
        sent.wait()
        results += [future.wait(), message]
    return results


@program
def errors_go_through_a_chain(rank: int, size: int) -> Any:
    def fails(future: Any) -> None:
        raise KeyError("mine")

    first = after(reduced(torch.ones(1)), fails)
    later = first.then(lambda one: one.wait()).then(lambda one: one.value())
    texts = []
    for future in (first, later):
        try:
            future.wait()
        except Exception as error:
            texts.append((isinstance(error, RuntimeError), "mine" in str(error)))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)  # the group goes on
    return [texts, tensor, first.then(lambda one: "made").wait()]


def waiting(hook: Any) -> Any:
    """Return a hook that waits for each bucket, so that gloo has a thread for each callback."""

    def waits(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        made, result = hook(state, bucket), torch.futures.Future[Any]()
        result.set_result(made.wait())
        return result

    return waits if dist.get_backend() == "gloo" else hook


def trained_with(rank: int, state: Any, hook: Any, bucket: float = 0.0002) -> list[torch.Tensor]:
    torch.manual_seed(3)
    trained = DistributedDataParallel(model(), bucket_cap_mb=bucket)
    if isinstance(hook, dist.BuiltinCommHookType):
        trained._register_builtin_comm_hook(hook)
    else:
        trained.register_comm_hook(state, hook)
    train(trained, rank, 6)
    return list(trained.parameters())


@program
def hooks_of_ddp(rank: int, size: int) -> Any:
    hooks = {
        "all_reduce": default_hooks.allreduce_hook,
        "fp16": default_hooks.fp16_compress_hook,
        "fp16 of all_reduce": default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook),
        "noop": debugging_hooks.noop_hook,
        "built-in": dist.BuiltinCommHookType.ALLREDUCE,
        "built-in fp16": dist.BuiltinCommHookType.FP16_COMPRESS,
    }
    results: dict[str, Any] = {name: trained_with(rank, None, hook) for name, hook in hooks.items()}
    local = post_localSGD_hook.PostLocalSGDState(dist.group.WORLD, dist.new_subgroups(1)[0], 3)
    results["local"] = trained_with(rank, local, post_localSGD_hook.post_localSGD_hook)
    return results


@program
def power_sgd(rank: int, size: int) -> Any:
    """With one bucket and with several. (Torch's hook for one matrix per bucket fails over every backend.)"""
    results = []
    for bucket, options in (
        (25, {"matrix_approximation_rank": 1, "start_powerSGD_iter": 2}),
        (25, {"matrix_approximation_rank": 2, "start_powerSGD_iter": 3, "min_compression_rate": 0.1}),
        (25, {"use_error_feedback": False, "warm_start": False, "start_powerSGD_iter": 2}),
        (0.0002, {"matrix_approximation_rank": 1, "start_powerSGD_iter": 2, "min_compression_rate": 0.1}),
        (0.0002, {"use_error_feedback": False, "start_powerSGD_iter": 3, "min_compression_rate": 0.1}),
    ):
        state = powerSGD_hook.PowerSGDState(dist.group.WORLD, **options)
        results.append(trained_with(rank, state, waiting(powerSGD_hook.powerSGD_hook), bucket))
    return results


@program
def built_in_hooks_beside_futures(rank: int, size: int) -> Any:
    """The function that has native code ask for a future takes one itself."""
    hook = dist.BuiltinCommHookType.FP16_COMPRESS
    own = reduced(torch.ones(2, dtype=torch.float16)).get_future()
    asked = getattr(reduced(torch.ones(2, dtype=torch.float16)), "get_" + "future")()
    return [trained_with(rank, None, hook), own.wait(), asked.wait()]
