"""A group of `ray.util.collective` over a communicator."""

from collections.abc import Callable
from typing import Any

from ray.util.collective.collective import get_group_handle
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import ReduceOp

from shmcoll.engine.system.tracebacks import Border
from shmcoll.ray.errors import naming
from shmcoll.ray.join import join
from shmcoll.ray.tensors import Arrays

#: the name of the backend, as Ray writes it; programs may write it in small letters
NAME = "SHMCOLL"

_OPERATORS = {ReduceOp.SUM: "sum", ReduceOp.PRODUCT: "prod", ReduceOp.MIN: "min", ReduceOp.MAX: "max"}


class Group(Border, BaseGroup):
    """A group of actors of one machine. Ray makes it in each of them, and wraps each tensor in a list."""

    def __init__(self, world_size: int, rank: int, group_name: str):
        super().__init__(world_size, rank, group_name)
        self.comm, self._actors = join(group_name, rank, world_size)

    @classmethod
    def backend(cls) -> str:
        return NAME

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    def destroy_group(self) -> None:
        self.comm.close()

    def allreduce(self, tensor: list[Any], allreduce_options: Any) -> None:
        arrays = Arrays()
        array = arrays.written(*tensor)
        self._make(self.comm.all_reduce, array, _operator(allreduce_options), out=array)
        arrays.finish()

    def barrier(self, barrier_options: Any = None) -> None:
        self._make(self.comm.barrier)

    def reduce(self, tensor: list[Any], reduce_options: Any) -> None:
        arrays, root = Arrays(), reduce_options.root_rank
        array = arrays.written(*tensor) if root == self.rank else arrays.read(*tensor)
        out = array if root == self.rank else None
        self._make(self.comm.reduce, array, root, _operator(reduce_options), out=out)
        arrays.finish()

    def broadcast(self, tensor: list[Any], broadcast_options: Any) -> None:
        arrays, root = Arrays(), broadcast_options.root_rank
        self._make(self.comm.broadcast, arrays.read(*tensor) if root == self.rank else arrays.written(*tensor), root)
        arrays.finish()

    def allgather(self, tensor_list: list[list[Any]], tensor: list[Any], allgather_options: Any = None) -> None:
        arrays = Arrays()
        self._make(self.comm.all_gather, arrays.read(*tensor), out=[arrays.written(one) for one in tensor_list[0]])
        arrays.finish()

    def reducescatter(self, tensor: list[Any], tensor_list: list[list[Any]], reducescatter_options: Any) -> None:
        arrays = Arrays()
        parts, out = [arrays.read(one) for one in tensor_list[0]], arrays.written(*tensor)
        self._make(self.comm.reduce_scatter, parts, _operator(reducescatter_options), out=out)
        arrays.finish()

    def send(self, tensor: list[Any], send_options: Any) -> None:
        self._make(self.comm.send, Arrays().read(*tensor), send_options.dst_rank)

    def recv(self, tensor: list[Any], recv_options: Any) -> None:
        arrays = Arrays()
        self._make(self.comm.recv, arrays.written(*tensor), recv_options.src_rank)
        arrays.finish()

    # --- what Ray does not have ---------------------------------------------------------------------------------------

    def gather(self, tensor: Any, tensor_list: list[Any] | None, dst_rank: int) -> None:
        arrays = Arrays()
        out = [arrays.written(one) for one in self._listed("gather", tensor_list)] if dst_rank == self.rank else None
        self._make(self.comm.gather, arrays.read(tensor), dst_rank, out=out)
        arrays.finish()

    def scatter(self, tensor: Any, tensor_list: list[Any] | None, src_rank: int) -> None:
        arrays = Arrays()
        parts = [arrays.read(one) for one in self._listed("scatter", tensor_list)] if src_rank == self.rank else None
        self._make(self.comm.scatter, parts, src_rank, out=arrays.written(tensor))
        arrays.finish()

    def alltoall(self, outputs: list[Any], inputs: list[Any]) -> None:
        arrays = Arrays()
        parts = [arrays.read(one) for one in self._listed("alltoall", inputs)]
        self._make(self.comm.all_to_all, parts, out=[arrays.written(one) for one in self._listed("alltoall", outputs)])
        arrays.finish()

    def _listed(self, call: str, tensors: Any) -> list[Any]:
        if not isinstance(tensors, list) or len(tensors) != self.world_size:
            given = f"{len(tensors)} tensors" if isinstance(tensors, list) else repr(tensors)
            raise ValueError(f"{call}: the list must have one tensor for each of {self.world_size} ranks, got {given}")
        return tensors

    def _make(self, call: Callable[..., Any], *args: Any, **keywords: Any) -> None:
        with naming(self._actors):
            call(*args, **keywords)


def group_of(name: str, call: str) -> Group:
    """Return a group of this backend. Raises `TypeError` for one of another backend."""
    group = get_group_handle(name)
    if not isinstance(group, Group):
        raise TypeError(f'{call}: the backend of group {name!r} is {group.backend()}; make the group with "shmcoll"')
    return group


def _operator(options: Any) -> Any:
    """Return the operator of a reduction: shmcoll's own, such as "avg", may be given in place of one of Ray's."""
    return _OPERATORS.get(options.reduceOp, options.reduceOp)
