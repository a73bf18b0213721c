"""SGLang on the CPUs of one machine, with the backend "shmcoll": a plug-in.

    SGLANG_PLUGINS=shmcoll python -m sglang.launch_server --device cpu ...

SGLang finds it by the entry point `sglang.srt.plugins`. It is used only if SGLANG_PLUGINS names it, so an SGLang beside
an installed shmcoll stays as it is.

SGLang's own operator in shared memory knows one group, that of the tensor-parallel ranks, on Arm and on x86 with AMX.
There it stays. SGLang chooses it by the number of ranks, so another group as large would meet the wrong ranks. The
hooks give all other groups and processors `torch.ops.shmcoll`, and the calls of rows that SGLang has for NCCL only.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from shmcoll.communicator import Communicator
from shmcoll.torch import NAME, backend_of, ops, rows

_HANDLE = "shmcoll_handle"  # the attribute of a group of SGLang that is over this backend


def register() -> None:
    """Register the hooks with SGLang, if SGLANG_PLUGINS names "shmcoll".

    Source: the entry points `sglang.srt.plugins`.
    """
    if "shmcoll" not in [name.strip() for name in os.environ.get("SGLANG_PLUGINS", "").split(",")]:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(
        "sglang.srt.platforms.cpu.CpuDeviceMixin.get_torch_distributed_backend_str", lambda *_: NAME, HookType.AROUND
    )
    for hook in (__init__, all_reduce, all_gather, reduce_scatterv, all_gatherv):
        HookRegistry.register(
            f"sglang.srt.distributed.parallel_state.GroupCoordinator.{hook.__name__}", hook, HookType.AROUND
        )


# --- hooks of the methods of the same names. theirs: the method of SGLang ---------------------------------------------


def __init__(theirs: Callable[..., None], group: Any, *args: Any, **keywords: Any) -> None:
    theirs(group, *args, **keywords)
    backend = torch.distributed.get_backend(group.device_group)
    setattr(group, _HANDLE, ops.handle(group.device_group) if backend == NAME else 0)


def all_reduce(theirs: Callable[..., torch.Tensor], group: Any, input_: torch.Tensor) -> torch.Tensor:
    if not _is_ours(group, input_) or _has_operator(group, input_):
        return theirs(group, input_)
    torch.ops.shmcoll.all_reduce_(input_, group.shmcoll_handle)
    return input_


def all_gather(
    theirs: Callable[..., Any],
    group: Any,
    input_: torch.Tensor,
    dim: int = -1,
    output_tensor_list: list[torch.Tensor] | None = None,
) -> Any:
    if output_tensor_list is not None or not _is_ours(group, input_) or _has_operator(group, input_):
        return theirs(group, input_, dim, output_tensor_list)
    gathered = torch.ops.shmcoll.all_gather_into_tensor(input_.movedim(dim, 0), group.shmcoll_handle)
    return gathered.movedim(0, dim).contiguous()


def reduce_scatterv(
    theirs: Callable[..., torch.Tensor],
    group: Any,
    input_: torch.Tensor,
    output: torch.Tensor | None = None,
    sizes: Sequence[int] | None = None,
) -> torch.Tensor:
    if not _is_ours(group, input_):
        return theirs(group, input_, output, sizes)
    return _in(output, rows.reduce_scatter(_comm(group), input_, sizes))


def all_gatherv(
    theirs: Callable[..., Any],
    group: Any,
    input_: torch.Tensor | list[torch.Tensor],
    sizes: Sequence[int] | None = None,
    output: torch.Tensor | None = None,
) -> Any:
    listed = [input_] if isinstance(input_, torch.Tensor) else input_
    if not all(_is_ours(group, one) for one in listed):
        return theirs(group, input_, sizes, output)
    gathered = [rows.all_gather(_comm(group), one, sizes) for one in listed]
    return _in(output, gathered[0]) if listed is not input_ else gathered


# --- helpers ----------------------------------------------------------------------------------------------------------


def _is_ours(group: Any, x: torch.Tensor) -> bool:
    return x.is_cpu and group.world_size > 1 and getattr(group, _HANDLE) > 0


def _has_operator(group: Any, x: torch.Tensor) -> bool:
    """Return whether SGLang's own operator is there for a group: it knows the tensor-parallel ranks only."""
    from sglang.srt.distributed import parallel_state

    known = parallel_state._TP
    is_known = known is not None and group.ranks == known.ranks
    return is_known and bool(parallel_state.is_shm_available(x.dtype, group.world_size, group.local_size))


def _comm(group: Any) -> Communicator:
    return backend_of(group.device_group, "SGLang").comm


def _in(output: torch.Tensor | None, result: torch.Tensor) -> torch.Tensor:
    return result if output is None else output.copy_(result)


__all__ = ["register"]
