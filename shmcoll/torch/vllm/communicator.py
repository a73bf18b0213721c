"""What the groups of vLLM call: vLLM's own communicator for CPUs, with what it lacks.

vLLM's native operator in shared memory stays where vLLM takes it: in groups whose names begin with tp or pp, on x86,
Arm, Power and s390x. It is limited to 8 ranks. Elsewhere, `_Operators` take the place of the calls of
`torch.distributed`.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from vllm.distributed.device_communicators import cpu_communicator

from shmcoll.torch import backend_of, ops, rows

#: the limit of vLLM's native operator, which it checks in C++
MOST_NATIVE_RANKS = 8


class Communicator(cpu_communicator.CpuCommunicator):
    """The communicator of one group."""

    dist_module: Any  # what makes the calls: the native operator, or `torch.distributed`

    def __init__(self, *args: Any, **keywords: Any):
        super().__init__(*args, **keywords)
        self._comm = backend_of(self.device_group, "vLLM").comm
        self._operators = _Operators(ops.handle(self.device_group))
        if self.dist_module is dist:
            self.dist_module = self._operators

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return self.world_size <= MOST_NATIVE_RANKS and bool(super()._all_group_ranks_share_shm_group_name())

    def reduce_scatter(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """Return this rank's part along `dim` of the sum over all ranks."""
        return self.reduce_scatterv(input_, dim)

    def reduce_scatterv(self, input_: torch.Tensor, dim: int = -1, sizes: Sequence[int] | None = None) -> torch.Tensor:
        """Return this rank's part along `dim` of the sum over all ranks. sizes: of the parts; None if equal."""
        if self.world_size == 1:
            return input_
        first = input_.movedim(dim, 0).contiguous()
        self._check("reduce_scatterv", sizes, first.shape[0])
        return rows.reduce_scatter(self._comm, first, sizes).movedim(0, dim).contiguous()

    def all_gatherv(
        self, input_: torch.Tensor | list[torch.Tensor], dim: int = 0, sizes: Sequence[int] | None = None
    ) -> torch.Tensor | list[torch.Tensor]:
        """Return the parts of all ranks, put together along `dim`. sizes: of the parts; None if they are equal."""
        if isinstance(input_, list):
            return [self._all_gatherv(one, dim, sizes) for one in input_]
        return self._all_gatherv(input_, dim, sizes)

    def _all_gatherv(self, x: torch.Tensor, dim: int, sizes: Sequence[int] | None) -> torch.Tensor:
        if self.world_size == 1:
            return x
        self._check("all_gatherv", sizes)
        return rows.all_gather(self._comm, x.movedim(dim, 0).contiguous(), sizes).movedim(0, dim).contiguous()

    def all_to_all(
        self,
        input_: torch.Tensor,
        output_sizes: Sequence[int] | None = None,
        input_sizes: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Send rows to every rank, and return those received, in rank order. vLLM has no such call.

        output_sizes, input_sizes: the number of rows from and to each rank; None if they are equal.
        """
        self._check("all_to_all", output_sizes)
        self._check("all_to_all", input_sizes, input_.shape[0])
        return rows.all_to_all(self._comm, input_.contiguous(), output_sizes, input_sizes)

    def _check(self, call: str, sizes: Sequence[int] | None, whole: int | None = None) -> None:
        where = f"{call} in group {self.unique_name!r}"
        if sizes is None:
            if whole is not None and whole % self.world_size:
                raise ValueError(f"{where}: {whole} rows are not divisible by {self.world_size} ranks; give the sizes")
        elif len(sizes) != self.world_size:
            raise ValueError(f"{where}: there must be one size for each of {self.world_size} ranks, got {len(sizes)}")
        elif whole is not None and sum(sizes) != whole:
            raise ValueError(f"{where}: the sizes {list(sizes)} do not add up to {whole} rows")


class _Operators:
    """In the place of `torch.distributed`: the same calls, a third as long, by `torch.ops.shmcoll`."""

    def __init__(self, handle: int):
        self._handle = handle

    def all_reduce(self, x: torch.Tensor, group: Any = None) -> None:
        torch.ops.shmcoll.all_reduce_(x, self._handle)

    def all_gather_into_tensor(self, out: torch.Tensor, x: torch.Tensor, group: Any = None) -> None:
        torch.ops.shmcoll.all_gather_into_tensor_(out, x, self._handle)

    def gather(self, *args: Any, **keywords: Any) -> None:
        dist.gather(*args, **keywords)
