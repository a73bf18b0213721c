"""MPI's chapter on generalized requests: operations of the program, which says when they are complete."""

import ctypes
import threading
from typing import Any

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects import status as statuses
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.requests import Request, added
from shmcoll.mpi.process import PROCESS

_QUERY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)
_CANCEL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_int)


class GeneralizedRequest(Request):
    """An operation of the program. query, free, cancel: addresses of its functions in C."""

    def __init__(self, query: int, free: int, cancel: int, extra: int):
        super().__init__(PROCESS.world)
        self._query, self._free, self._cancel, self._extra = query, free, cancel, extra
        self._complete = threading.Event()

    def complete(self) -> None:
        self._complete.set()

    def test(self) -> bool:
        return self._complete.is_set()

    def wait(self) -> None:
        self._complete.wait()
        memory = np.zeros(statuses.BYTES, np.uint8)
        _check(_QUERY(self._query)(self._extra, memory.ctypes.data))
        self.status = statuses.at(memory.ctypes.data)
        self.free()

    def free(self) -> None:
        free, self._free = self._free, 0
        if free:
            _check(_FREE(free)(self._extra))

    def cancel(self) -> None:
        _check(_CANCEL(self._cancel)(self._extra, self._complete.is_set()))


@mpi()
def Grequest_start(query: int, free: int, cancel: int, extra: int) -> Request:
    return added(GeneralizedRequest(query, free, cancel, extra))


@mpi()
def Grequest_complete(request: Any) -> None:
    if not isinstance(request, GeneralizedRequest):
        raise MPIError("MPI_ERR_REQUEST", "only a generalized request is completed by the program")
    request.complete()


def _check(status: int) -> None:
    if status != c["MPI_SUCCESS"]:
        raise MPIError(status, f"a function of a generalized request has returned {status}")
