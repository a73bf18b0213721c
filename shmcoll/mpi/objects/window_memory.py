"""The memory of a window on one rank, as the other ranks reach it.

What is in the arena is there for every rank, at another address: loads and stores go straight to it. That is memory of
`MPI_Win_allocate` and `MPI_Win_allocate_shared`, and what a program has there otherwise. Private memory is read and
written by process_vm_readv(2) and process_vm_writev(2): one copy, without the other rank. The kernel may refuse that.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError

_LIBC = ctypes.CDLL(None, use_errno=True)
_MOST_BYTES, _MOST_RANGES = 1 << 30, 1024  # of one system call; the kernel's limits are 2 GiB and 1024


class Ended(Exception):
    """The process has ended."""


@dataclass(frozen=True)
class Target:
    """The memory of one rank. base: in that process. offset: what to add to an address of that process in its mapping
    of the arena, which is `arena` from its beginning on, for the address here."""

    rank: int
    pid: int
    arena: range
    offset: int
    base: int
    size: int
    unit: int

    def address_here(self, address: int, length: int) -> int | None:
        """Return where this process has memory of that one; None if it does not have it."""
        if self.pid == os.getpid():
            return address
        if address in self.arena and address + length <= self.arena.stop:
            return address + self.offset
        return None

    def elements(self, address: int, count: int, datatype: Datatype) -> Buffer | None:
        """Return elements where this process has them; None if it does not have them."""
        low, high = datatype.span(count)
        here = self.address_here(address + low, high - low)
        return None if here is None else Buffer(here - low, count, datatype)

    def read(self, address: int, count: int, datatype: Datatype) -> np.ndarray:
        """Return the bytes of elements, packed: a copy, unless they are contiguous and here."""
        if here := self.elements(address, count, datatype):
            return here.packed()
        data = np.empty(count * datatype.size, np.uint8)
        self._move(_LIBC.process_vm_readv, address, count, datatype, data)
        return data

    def write(self, address: int, count: int, datatype: Datatype, data: np.ndarray) -> None:
        """Put packed bytes where the elements belong. What lies between them is not touched."""
        if here := self.elements(address, count, datatype):
            here.fill_from(data)
        else:
            self._move(_LIBC.process_vm_writev, address, count, datatype, np.ascontiguousarray(data))

    def _move(self, call: Any, address: int, count: int, datatype: Datatype, data: np.ndarray) -> None:
        done = 0
        for ranges in _batches(address, count, datatype):
            there = np.array(ranges, np.int64)
            length = int(there[:, 1].sum())
            here = np.array([[data.ctypes.data + done, length]], np.int64)
            arguments = (here.ctypes.data, 1, there.ctypes.data, len(ranges), 0)
            moved = call(self.pid, *(ctypes.c_void_p(one) for one in arguments))
            if moved != length:
                raise self._refused(ctypes.get_errno() if moved < 0 else errno.EFAULT)
            done += length

    def _refused(self, number: int) -> Exception:
        if number == errno.ESRCH:
            return Ended()
        if number == errno.EFAULT:
            return MPIError("MPI_ERR_RMA_RANGE", f"rank {self.rank} has no memory at the address, or not all of it")
        return MPIError(
            "MPI_ERR_RMA_SHARED",
            f"the kernel does not let this process reach private memory of rank {self.rank} ({os.strerror(number)}): "
            f"make the window by MPI_Win_allocate, whose memory is shared, or allow it (in a container: "
            f"--cap-add SYS_PTRACE)",
        )


for _call in (_LIBC.process_vm_readv, _LIBC.process_vm_writev):
    _call.restype = ctypes.c_ssize_t


def _batches(address: int, count: int, datatype: Datatype) -> Iterator[list[tuple[int, int]]]:
    """Yield ranges of addresses of the elements, as many as a system call takes at once."""
    offsets, lengths = [0], [count * datatype.size]
    if not datatype.is_contiguous:
        runs = datatype.runs.as_bytes().blocks(datatype.extent, np.array([count]), np.array([0]))
        offsets, lengths = runs.offsets.tolist(), runs.lengths.tolist()
    batch: list[tuple[int, int]] = []
    room = _MOST_BYTES
    for offset, length in zip(offsets, lengths, strict=True):
        for start in range(0, length, _MOST_BYTES):
            part = min(length - start, _MOST_BYTES)
            if part > room or len(batch) == _MOST_RANGES:
                yield batch
                batch, room = [], _MOST_BYTES
            batch.append((address + offset + start, part))
            room -= part
    if batch:
        yield batch
