"""The native functions of MPI, and what they leave to Python (`engine/native/mpi_entry.py`).

They are taken from the cache of compiled code, or from the package. Where they are missing, a process of its own
compiles them, once for each machine. If that is not possible, Python makes all calls.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

from shmcoll.calls.send import send_on_at_once
from shmcoll.collectives import OPERATION_NAMES, RECORDS
from shmcoll.communicator.jit_handle import send_on
from shmcoll.engine import context as c
from shmcoll.engine.compiler.compile import load_functions
from shmcoll.engine.compiler.object_cache import holds
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import mpi_entry, mpi_functions
from shmcoll.engine.native import mpi_table as t
from shmcoll.mpi.objects.buffers import memory_at
from shmcoll.mpi.objects.error_handlers import handle
from shmcoll.mpi.objects.native_table import COMMS, WORDS
from shmcoll.startup import warm

_LIBC = ctypes.CDLL(None)


def functions(callbacks: Mapping[str, Any]) -> dict[str, int]:
    """Return the addresses of the native functions, by their names in C; none if they cannot be had. callbacks: what
    Python has under these names."""
    codes = {record.name: record.code for record in RECORDS.values()}
    warm.fill_cache([mpi_functions.NAME])
    if not holds(mpi_functions.NAME):
        return {}
    install, *addresses = load_functions(mpi_functions.NAME, lambda: mpi_functions.functions(codes))
    for number, name in enumerate(mpi_functions.NAMES):
        WORDS[t.PYTHON // WORD + number] = _address(callbacks[name])
    WORDS[t.FAILED // WORD] = _address(_failed)
    WORDS[t.MALLOC // WORD], WORDS[t.FREE_MEMORY // WORD] = _address(_LIBC.malloc), _address(_LIBC.free)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(install)(WORDS.ctypes.data)
    return dict(zip(mpi_functions.NAMES, addresses, strict=True))


def _address(callback: Any) -> int:
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
def _failed(context: int, status: int, more: int) -> int:
    """Go on with a call that has begun, or tell its error. Return the code of MPI."""
    comm, native = COMMS[context]
    dispatcher = native._dispatcher
    operation = OPERATION_NAMES[dispatcher.words[c.OPERATION // WORD]]
    owner = [comm]
    try:
        if status == c.INTERRUPTED:
            dispatcher.left(operation)
            raise _kept_error()
        if status == c.HALFWAY:
            return _continued(native, more)
        raise dispatcher.failures.error(operation, status)
    except BaseException as error:
        return handle(error, operation, owner, has_outputs=False)


def _continued(native: Any, more: int) -> int:
    """Continue a send whose message needs memory. Return 0, or TO_PYTHON if it may not wait for memory and there is
    none."""
    dispatcher = native._dispatcher
    word = {at: int(dispatcher.words[at // WORD]) for at in (c.ARGUMENT, c.ARGUMENT_2, c.X + c.DATA, c.X + c.BYTES)}
    array = memory_at(word[c.X + c.DATA], word[c.X + c.BYTES])
    dest, tag = word[c.ARGUMENT], word[c.ARGUMENT_2]
    if more != mpi_entry.AT_ONCE:
        send_on(native, array, dest, tag)
        return 0
    try:
        work = send_on_at_once(dispatcher, c.ASKS, array, dest, tag)
    except BaseException:
        dispatcher.left("send")
        raise
    if work is None:
        return mpi_entry.TO_PYTHON
    work.wait()
    return 0


def _kept_error() -> BaseException:
    """Return the exception of a signal handler."""
    kept = [ctypes.c_void_p.from_address(WORDS.ctypes.data + t.KEPT + i * WORD) for i in range(3)]
    found = [ctypes.cast(one, ctypes.py_object).value for one in kept[:2] if one.value]
    error = found[-1]
    return error if isinstance(error, BaseException) else found[0]()
