"""What native code keeps of requests and probed messages, for Python. See `engine/native/mpi_requests.py`."""

import threading

import numpy as np

from shmcoll.engine.layout import WORD
from shmcoll.engine.native import mpi_table as t
from shmcoll.errors import ShmcollError
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.datatypes import BYTE
from shmcoll.mpi.objects.handles import COMM, MESSAGE, REQUEST
from shmcoll.mpi.objects.matched import Matched
from shmcoll.mpi.objects.native_table import WORDS, slot
from shmcoll.mpi.objects.requests import ReceiveRequest, Request, WorkRequest
from shmcoll.mpi.objects.status import EMPTY, Status

_lock = threading.RLock()
_STATE, _COMM, _SOURCE, _TAG, _BUFFER, _LENGTH, _ORDER = (
    word // WORD for word in (t.STATE, t.COMM, t.SOURCE, t.TAG, t.BUFFER, t.LENGTH, t.ORDER)
)


class _Sent(WorkRequest):
    """The request of all sends that were complete when they began."""

    is_permanent = True
    is_active = True

    def __init__(self) -> None:
        self._work = self.error = None
        self.status = EMPTY

    def __setattr__(self, name: str, value: object) -> None:
        if name != "is_active":
            super().__setattr__(name, value)

    @property
    def errhandler(self) -> object:
        return COMM.find(c["MPI_COMM_WORLD"]).errhandler


REQUEST.add(_Sent(), t.SENT)


def settle() -> None:
    """Make objects of what native code keeps: post its receives, and take its messages."""
    with _lock:
        kept = [i for i in range(t.MOST_SLOTS) if slot(i)[_STATE] in (t.POSTED, t.PROBED, t.DONE)]
        for i in sorted(kept, key=lambda i: int(slot(i)[_ORDER])):
            words = slot(i)
            state = int(words[_STATE])
            if state not in (t.POSTED, t.PROBED, t.DONE):  # another thread waits for it now
                continue
            words[_STATE] = t.IN_PYTHON
            if state != t.DONE:
                WORDS[t.DEFERRED // WORD] -= 1
            try:
                if state == t.PROBED:
                    MESSAGE.add(_message(words), t.FIRST_MESSAGE + i)
                else:
                    REQUEST.add(_request(words, state), t.FIRST_REQUEST + i)
            finally:  # not before: other threads that have its handle come here while something is held
                WORDS[t.HELD // WORD] -= 1


def _message(words: np.ndarray) -> Matched:
    """Return a message that native code has found. It is there, because no other call could take it."""
    comm: Comm = COMM.find(int(words[_COMM]))
    return Matched(comm, comm.messages.improbe(int(words[_SOURCE]), int(words[_TAG])))


def _request(words: np.ndarray, state: int) -> Request:
    """Return the request of a receive; one that has failed, if it cannot be posted."""
    comm: Comm = COMM.find(int(words[_COMM]))
    source, tag, length = int(words[_SOURCE]), int(words[_TAG]), int(words[_LENGTH])
    if state == t.POSTED:
        try:
            return ReceiveRequest(comm, Buffer(int(words[_BUFFER]), length, BYTE), source, tag)
        except ShmcollError as error:
            failed = WorkRequest(comm, None)
            failed.error = error
            return failed
    done = WorkRequest(comm, None)
    done.status = Status(source, tag, 0, length)
    return done
