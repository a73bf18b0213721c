"""MPI's chapter on requests: waiting for operations, and testing them.

A wait for several asks each in turn. Between two rounds it sleeps a little, longer each time, up to a millisecond: what
completes them, the communicator's worker or another rank, needs the processor.
"""

import time
from collections.abc import Callable, Iterator

from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.objects import status as statuses
from shmcoll.mpi.objects.communicators import UNDEFINED
from shmcoll.mpi.objects.errors import MPIError, error_code
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import REQUEST
from shmcoll.mpi.objects.requests import Request
from shmcoll.mpi.objects.status import EMPTY, Status

IN_STATUS, PENDING = c["MPI_ERR_IN_STATUS"], c["MPI_ERR_PENDING"]
_FIRST_NAP, _LONGEST_NAP = 1e-6, 1e-3
_ROUNDS = 100  # before the first nap


@mpi(inout=("request",))
def Wait(request: Numbers, status: int) -> None:
    obj = REQUEST.get(request.value)
    if obj is None or not obj.is_active:
        EMPTY.store(status)
        return
    _ended(request, 0, obj, obj.wait).store(status)


@mpi(inout=("request",))
def Test(request: Numbers, status: int) -> bool:
    obj = REQUEST.get(request.value)
    if obj is None or not obj.is_active:
        EMPTY.store(status)
        return True
    if not _is_complete(request, 0, obj):
        return False
    _ended(request, 0, obj, obj.wait).store(status)
    return True


@mpi(inout=("array_of_requests",))
def Waitall(count: int, requests: Numbers, status: int) -> None:
    _store_all(requests, [(i, obj) for i, obj in _active(count, requests)], count, status)


@mpi(inout=("array_of_requests",))
def Testall(count: int, requests: Numbers, status: int) -> bool:
    active = list(_active(count, requests))
    if not all(obj.test_or_failed() for _, obj in active):
        return False
    _store_all(requests, active, count, status)
    return True


@mpi(inout=("array_of_requests",))
def Waitany(count: int, requests: Numbers, status: int) -> int:
    active = list(_active(count, requests))
    found = _first(active)
    if found is None:
        EMPTY.store(status)
        return UNDEFINED
    i, obj = found
    _ended(requests, i, obj, obj.wait).store(status)
    return i


@mpi(inout=("array_of_requests",))
def Testany(count: int, requests: Numbers, status: int) -> tuple[int, bool]:
    active = list(_active(count, requests))
    done = [(i, obj) for i, obj in active if obj.test_or_failed()]
    if not done:
        EMPTY.store(status)
        return UNDEFINED, not active
    i, obj = done[0]
    _ended(requests, i, obj, obj.wait).store(status)
    return i, True


@mpi(inout=("array_of_requests",))
def Waitsome(count: int, requests: Numbers, indices: Numbers, status: int) -> int:
    active = list(_active(count, requests))
    if _first(active) is None:
        return UNDEFINED
    return _some(requests, active, indices, status)


@mpi(inout=("array_of_requests",))
def Testsome(count: int, requests: Numbers, indices: Numbers, status: int) -> int:
    active = list(_active(count, requests))
    return _some(requests, active, indices, status) if active else UNDEFINED


@mpi(nullable=("request",))
def Request_get_status(request: Request | None, status: int) -> bool:
    """Return whether a request is complete. It stays as it is."""
    if request is not None and request.is_active and not request.test():
        return False
    _seen(request).store(status)
    return True


def _seen(request: Request | None) -> Status:
    """Return the status of a request that is complete, or is none."""
    if request is None or not request.is_active:
        return EMPTY
    request.wait()
    return request.status


@mpi()
def Request_get_status_all(count: int, requests: Numbers, status: int) -> bool:
    objects = [REQUEST.get(handle) for handle in requests.read(count)]
    if not all(obj is None or not obj.is_active or obj.test() for obj in objects):
        return False
    for i, obj in enumerate(objects if status > statuses.IGNORE else ()):
        _seen(obj).store(status + i * statuses.BYTES)
    return True


@mpi()
def Request_get_status_any(count: int, requests: Numbers, status: int) -> tuple[int, bool]:
    active = list(_active(count, requests))
    done = [(i, obj) for i, obj in active if obj.test()]
    i, obj = done[0] if done else (UNDEFINED, None)
    _seen(obj).store(status)
    return i, bool(done) or not active


@mpi(inout=("array_of_indices",))
def Request_get_status_some(count: int, requests: Numbers, indices: Numbers, status: int) -> int:
    active = list(_active(count, requests))
    done = [(i, obj) for i, obj in active if obj.test()]
    indices.write(i for i, _ in done)
    for place, (_, obj) in enumerate(done if status > statuses.IGNORE else ()):
        _seen(obj).store(status + place * statuses.BYTES)
    return len(done) if active else UNDEFINED


@mpi(inout=("request",))
def Request_free(request: Numbers) -> None:
    obj = REQUEST.find(request.value)
    obj.free()
    REQUEST.remove(obj)
    request.value = REQUEST.null


@mpi(inout=("request",))
def Cancel(request: Numbers) -> None:
    REQUEST.find(request.value).cancel()


@mpi(inout=("request",))
def Start(request: Numbers) -> None:
    _persistent(request.value).start()


@mpi(inout=("array_of_requests",))
def Startall(count: int, requests: Numbers) -> None:
    for handle in requests.read(count):
        _persistent(handle).start()


def _persistent(handle: int) -> Request:
    request: Request = REQUEST.find(handle)
    if not request.is_persistent:
        raise MPIError("MPI_ERR_REQUEST", "only a persistent request can be started")
    return request


def _active(count: int, requests: Numbers) -> Iterator[tuple[int, Request]]:
    """Yield the active ones of some requests, with their places."""
    for i, handle in enumerate(requests.read(count)):
        obj = REQUEST.get(handle)
        if obj is not None and obj.is_active:
            yield i, obj


def _is_complete(requests: Numbers, i: int, obj: Request) -> bool:
    try:
        return obj.test()
    except BaseException:
        _retire(requests, i, obj)
        raise


def _ended(requests: Numbers, i: int, obj: Request, wait: Callable[[], None]) -> Status:
    """Wait for a request. Return its status. Its handle goes, unless it is persistent."""
    try:
        wait()
        return obj.status
    finally:
        _retire(requests, i, obj)


def _retire(requests: Numbers, i: int, obj: Request) -> None:
    obj.is_active = False
    if not obj.is_persistent:
        REQUEST.remove(obj)
        requests[i] = REQUEST.null


def _first(active: list[tuple[int, Request]]) -> tuple[int, Request] | None:
    """Wait until one of the requests is complete, and return it; None if there are none."""
    nap, rounds = _FIRST_NAP, 0
    while active:
        for i, obj in active:
            if obj.test_or_failed():
                return i, obj
        rounds += 1
        if rounds > _ROUNDS:
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
    return None


def _some(requests: Numbers, active: list[tuple[int, Request]], indices: Numbers, status: int) -> int:
    done = [(i, obj) for i, obj in active if obj.test_or_failed()]
    indices.write(i for i, _ in done)
    _store(requests, done, range(len(done)), status)
    return len(done)


def _store_all(requests: Numbers, active: list[tuple[int, Request]], count: int, status: int) -> None:
    places = [i for i, _ in active]
    if status > statuses.IGNORE:
        for i in set(range(count)) - set(places):
            EMPTY.store(status + i * statuses.BYTES)
    _store(requests, active, places, status)


def _store(requests: Numbers, done: list[tuple[int, Request]], places: "list[int] | range", status: int) -> None:
    """Wait for requests, and store their statuses.

    Raises:
        MPIError: MPI_ERR_IN_STATUS, if one has failed. Then the statuses have the codes.
    """
    codes = []
    for place, (i, obj) in zip(places, done, strict=True):
        code, told = 0, EMPTY
        try:
            told = _ended(requests, i, obj, obj.wait)
        except Exception as error:
            reraise_of_handler(error)
            code = error_code(error, "MPI_Wait")
        codes.append(code)
        if status > statuses.IGNORE:
            Status(told.source, told.tag, code, told.bytes, told.is_cancelled).store(
                status + place * statuses.BYTES, with_error=True
            )
    if any(codes):
        raise MPIError(IN_STATUS, "a request has failed; its status has the error")
