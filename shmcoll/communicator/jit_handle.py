"""The handle of a communicator for jitted code, and the calls that Python makes for it. See
`engine/native/jit_gate.py`.

A handle is the communicator's context as a read-only array. If the gate cannot make a call, or the call has failed, it
calls back here. Then the call is made, or the error raised, as if the communicator's method had been called.

In the threads of numba's `prange`, no Python function has called the jitted code. What is raised there is lost: numba
goes on without the rest of that thread's part. So such an error is printed, ends the group, and makes the exit code 1.
"""

import ctypes
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from shmcoll.calls.send import Sending
from shmcoll.collectives import OPERATION_NAMES, RECORDS
from shmcoll.engine import context as c
from shmcoll.engine.collective import REDUCING
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.kernels.dtypes import BY_CODE, REDUCTION_NAMES, REDUCTIONS
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import jit_gate, tables
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.runtime import lost_failures

Received = tuple[int, int, int]  # source, tag, number of elements

#: loaded with a handle; routines of messages are loaded when they are first called
OPERATIONS = ("barrier", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")

NO_HANDLE = (
    "shmcoll.jit: the first argument must be comm.handle itself, of an open communicator of this process. Pass it to "
    "the jitted function as an argument: a global variable would be a copy"
)

_OPERATORS = [name for name in REDUCTIONS if not name.startswith("arg")]

_communicators: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
_callbacks: dict[int, Callable[[int], None]] = {}  # native code keeps a pointer


def make(comm: Any) -> np.ndarray:
    """Return the handle of a communicator, after loading everything that jitted code calls."""
    words = comm._dispatcher.words
    address = words.ctypes.data
    if not words[tables.HANDLE // WORD]:
        for operation in OPERATIONS:
            comm._dispatcher.routine(operation)
        with comm._dispatcher.local_rank.compiling():
            words[tables.GATE // WORD] = code.load_gate()
        _communicators[address] = comm
        _callbacks[address] = partial(_call_back, address)
        weakref.finalize(comm, _forget, words)
        words[tables.CALLBACK // WORD] = id(_callbacks[address])
        words[tables.HANDLE // WORD] = address
    handle: np.ndarray = words.view()
    handle.flags.writeable = False
    return handle


def _forget(words: np.ndarray) -> None:
    words[tables.HANDLE // WORD] = 0
    del _callbacks[words.ctypes.data]


def in_python(
    h: np.ndarray, operation: int, x: Any, out: Any, op: int = 0, argument: int = 0, argument_2: int = 0
) -> Received | None:
    """Call the communicator's method for an operation, with the arguments that `shmcoll.jit` has."""
    try:
        comm = _communicators.get(h.ctypes.data) if isinstance(h, np.ndarray) else None
        if comm is None:
            raise ValueError(NO_HANDLE)
        return _call(comm, operation, x, out, op, argument, argument_2)
    except BaseException as error:
        shorten(error)  # so only the function of `shmcoll.jit` is left
        raise


def _call(comm: Any, operation: int, x: Any, out: Any, op: int, argument: int, argument_2: int) -> Received | None:
    """Make the call. Returns source, tag and number of elements for a receive, and None for other operations."""
    name = OPERATION_NAMES[operation]
    method = getattr(comm, name)
    if name == "barrier":
        method()
    elif name == "broadcast":
        if out is None:  # x is read-only, but a view of its memory is not
            x.flags.writeable = False
        method(x, argument)
    elif RECORDS[name].form & REDUCING:
        if not isinstance(op, (int, np.integer)) or not 0 < op < len(REDUCTION_NAMES):
            where = f"{name} on rank {comm._dispatcher.failures.name}"
            raise ValueError(f"{where}: {shown(op)} is not an operator of shmcoll.jit; {operator_meant(op)}")
        method(x, REDUCTION_NAMES[op], out=out)
    elif name == "send":
        method(x, argument, argument_2)
    elif name == "recv":
        array, source, tag = method(out, argument, argument_2)
        return source, tag, array.size
    else:
        method(x, out=out)
    return None


def operator_meant(op: Any) -> str:
    """Return what to pass in place of an object that is no operator."""
    if isinstance(op, str) and op.lower() in _OPERATORS:
        return f"did you mean jit.{op.upper()}?"
    return f"pass jit.{', '.join(_OPERATORS).upper()}"


def send_on(comm: Any, array: np.ndarray, dest: int, tag: int) -> None:
    """Continue a send whose message needs memory, which only Python can allocate."""
    dispatcher, sending = comm._dispatcher, Sending(comm._dispatcher, array, dest, tag)
    dispatcher.complete("send", lambda: sending.put(c.HALFWAY))
    sending.raise_refusal()


def _call_back(address: int, block: int) -> None:
    """Do what the gate asks for. Raises the exceptions that the jitted function must raise."""
    comm = _communicators[address]
    try:
        _answer(comm, block)
    except BaseException as error:
        if sys._getframe().f_back is None:
            _tell_of(error, comm, OPERATION_NAMES[_word(block + jit_gate.OPERATION)])
        shorten(error)
        raise


def _tell_of(error: BaseException, comm: Any, operation: str) -> None:
    """Report an error that no caller gets."""
    text = (
        f"{operation} on rank {comm._dispatcher.failures.name} has failed in a thread of jitted code (numba's prange), "
        f"which loses the exception: {type(error).__name__}: {error}"
    )
    if not comm._dispatcher.is_shut:
        comm.abort(text)
    failure = lost_failures.Failure(error, lambda: text)
    lost_failures.note(failure)
    lost_failures.tell(failure)


def _answer(comm: Any, block: int) -> None:
    operation, op, argument, argument_2, status = (
        _word(block + at)
        for at in (jit_gate.OPERATION, jit_gate.REDUCTION, jit_gate.ARGUMENT, jit_gate.ARGUMENT_2, jit_gate.STATUS)
    )
    if status == c.INTERRUPTED:
        comm._dispatcher.left(OPERATION_NAMES[operation])
    elif status in (c.NEEDS_PYTHON, c.GIVES_WAY, c.BUSY, c.HALFWAY):
        x, behind = _array(block + jit_gate.ARRAYS)
        out, _ = _array(behind)
        if status == c.HALFWAY and x is not None:
            send_on(comm, x, argument, argument_2)
        elif received := _call(comm, operation, x, out, op, argument, argument_2):
            for at, value in zip((jit_gate.ARGUMENT, jit_gate.ARGUMENT_2, jit_gate.STATUS), received, strict=True):
                ctypes.c_int64.from_address(block + at).value = value
    else:
        raise comm._dispatcher.failures.error(OPERATION_NAMES[operation], status)


def _array(at: int) -> tuple[np.ndarray | None, int]:
    """Return the array that a block describes, and the address behind it."""
    known, address, dimensions = (_word(at + word) for word in (jit_gate.TYPE, jit_gate.DATA, jit_gate.DIMENSIONS))
    shape = tuple(_word(at + jit_gate.DIMS + i * WORD) for i in range(dimensions))
    behind = at + jit_gate.DIMS + dimensions * WORD
    if not known:
        return None, behind
    dtype = BY_CODE[known & 0xFF].numpy
    length = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = (ctypes.c_char * length).from_address(address)
    return np.ndarray(shape, dtype, memory), behind  # type: ignore[arg-type]


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
