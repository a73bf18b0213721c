"""MPI's chapter on partitioned messages: a buffer that is sent in parts, as they become ready.

One message is sent when the last part is ready: the receiver sees all parts arrive at once. MPI allows that.
"""

from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.chapters.messages import _checked_receive, _checked_send, _sending
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.objects.requests import PersistentRequest, ReceiveRequest, Request, added


class PartitionedSend(PersistentRequest):
    """A send whose parts become ready one by one. It begins with the last one."""

    def __init__(self, comm: Comm, partitions: int, buffer: Buffer, to: int | None, tag: int):
        super().__init__(comm, lambda: _sending(buffer, to, tag, comm))
        self._partitions, self._missing = partitions, set(range(partitions))

    def start(self) -> None:
        if self.is_active:
            raise MPIError("MPI_ERR_REQUEST", "a request that is active cannot be started")
        self._once, self.is_active, self._missing = None, True, set(range(self._partitions))
        if not self._missing:
            self._once = self._begin()

    def ready(self, partition: int) -> None:
        """Note that a part is ready."""
        if not self.is_active or partition not in self._missing:
            raise MPIError("MPI_ERR_ARG", f"partition {partition} is not one that is awaited")
        self._missing.remove(partition)
        if not self._missing:
            self._once = self._begin()

    def test(self) -> bool:
        return self._once is not None and self._once.test()

    def wait(self) -> None:
        if self._once is None:
            raise MPIError("MPI_ERR_REQUEST", f"partitions {sorted(self._missing)} were not made ready by MPI_Pready")
        super().wait()


class PartitionedReceive(PersistentRequest):
    """A receive whose parts arrive together. partitions: how many there are."""

    def __init__(self, comm: Comm, partitions: int, buffer: Buffer, source: int | None, tag: int):
        super().__init__(comm, lambda: ReceiveRequest(comm, buffer, source, tag))
        self.partitions = partitions


@mpi()
def Psend_init(
    address: int, partitions: int, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm, _info: Info | None
) -> Request:
    buffer = Buffer(address, partitions * count, datatype)
    return added(PartitionedSend(comm, partitions, buffer, _checked_send(buffer, dest, tag, comm), tag))


@mpi()
def Precv_init(
    address: int, partitions: int, count: int, datatype: Datatype, source: int, tag: int, comm: Comm, _info: Info | None
) -> Request:
    buffer = Buffer(address, partitions * count, datatype)
    return added(PartitionedReceive(comm, partitions, buffer, *_checked_receive(source, tag, comm)))


@mpi()
def Pready(partition: int, request: Request) -> None:
    _send(request).ready(partition)


@mpi()
def Pready_range(low: int, high: int, request: Request) -> None:
    for partition in range(low, high + 1):
        _send(request).ready(partition)


@mpi()
def Pready_list(count: int, partitions: Numbers, request: Request) -> None:
    for partition in partitions.read(count):
        _send(request).ready(partition)


@mpi()
def Parrived(request: Request, partition: int) -> bool:
    if not isinstance(request, PartitionedReceive) or not 0 <= partition < request.partitions:
        raise MPIError("MPI_ERR_ARG", f"the request receives no partition {partition}")
    return not request.is_active or request.test()


def _send(request: Request) -> PartitionedSend:
    if not isinstance(request, PartitionedSend):
        raise MPIError("MPI_ERR_REQUEST", "the request is not a partitioned send")
    return request
