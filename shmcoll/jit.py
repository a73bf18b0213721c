"""Collectives and messages to call from your own jitted code: in `@njit` functions, `nogil=True` or not, with no way
through Python.

    from numba import njit
    import shmcoll
    from shmcoll import jit

    @njit(nogil=True, cache=True)
    def steps(h, x, out, n):
        for _ in range(n):
            jit.all_reduce(h, x, out)          # the sum
            jit.all_reduce(h, x, x, jit.MAX)   # in place

    steps(comm.handle, x, out, 100)

The communicator comes as an argument, `comm.handle`: nothing of one job is compiled in, so a function that numba has
cached works in the next job. Arrays must be C-contiguous, of a dtype that both numba and the collectives know, and are
used where they are. All checks are made, with the errors of the communicator's methods, raised in the jitted function.
Called from plain Python they do the same. `SUM`, `PROD` and so on are the numbers of the operators; those of users are
not for jitted code. Importing this module imports numba.

Messages take turns with those of Python: behind receives that are posted there, `recv` waits for its own turn. Only
the first message, and one that finds no room in shared memory and asks for more, go by way of Python.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.extending import intrinsic, overload, register_jitable
from numba.np.numpy_support import as_dtype

from shmcoll.collectives import RECORDS
from shmcoll.communicator.jit_handle import NO_HANDLE, in_python
from shmcoll.engine.kernels.dtypes import BY_NUMPY, REDUCTIONS
from shmcoll.engine.layout import ANY, WORD
from shmcoll.engine.messages.recv import FILL
from shmcoll.engine.native import entry, jit_gate

SUM, PROD, MIN, MAX, AVG = (REDUCTIONS[name] for name in ("sum", "prod", "min", "max", "avg"))
BAND, BOR, BXOR, LAND, LOR, LXOR = (REDUCTIONS[name] for name in ("band", "bor", "bxor", "land", "lor", "lxor"))

OPERATIONS = ("barrier", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "send", "recv")
_BARRIER, _ALL_REDUCE, _BROADCAST, _ALL_GATHER, _REDUCE_SCATTER, _ALL_TO_ALL, _SEND, _RECV = (
    RECORDS[name].code for name in OPERATIONS
)

_GATE, _HANDLE = entry.GATE // WORD, entry.HANDLE // WORD
_TOLD = (jit_gate.ARGUMENT, jit_gate.ARGUMENT_2, jit_gate.STATUS)
_I64 = ir.IntType(64)


def barrier(h: np.ndarray) -> None:
    """See `Communicator.barrier`."""
    in_python(h, _BARRIER, None, None)


def all_reduce(h: np.ndarray, x: np.ndarray, out: np.ndarray, op: int = SUM) -> None:
    """See `Communicator.all_reduce`; `out` may be `x`."""
    in_python(h, _ALL_REDUCE, x, out, op)


def broadcast(h: np.ndarray, x: np.ndarray, root: int = 0) -> None:
    """See `Communicator.broadcast`."""
    in_python(h, _BROADCAST, x, x, 0, root)


def all_gather(h: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """See `Communicator.all_gather`."""
    in_python(h, _ALL_GATHER, x, out)


def reduce_scatter(h: np.ndarray, x: np.ndarray, out: np.ndarray, op: int = SUM) -> None:
    """See `Communicator.reduce_scatter`."""
    in_python(h, _REDUCE_SCATTER, x, out, op)


def all_to_all(h: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """See `Communicator.all_to_all`, cut and put together along axis 0; `out` may be `x`."""
    in_python(h, _ALL_TO_ALL, x, out)


def send(h: np.ndarray, x: np.ndarray, dest: int, tag: int = 0) -> None:
    """See `Communicator.send`: it does not wait for the receiver, so both sides may send first, whatever size."""
    in_python(h, _SEND, x, None, 0, dest, tag)


def recv(h: np.ndarray, out: np.ndarray, source: int = ANY, tag: int = ANY) -> tuple[int, int, int]:
    """See `Communicator.recv`. Returns the source, the tag, and how many elements the message has, which are the first
    of `out`; the others stay as they are. `jit.ANY` is any source or tag."""
    received = in_python(h, _RECV, None, out, FILL, source, tag)
    assert received is not None
    return received


# --- compiled ---------------------------------------------------------------------------------------------------------


@intrinsic
def _through_gate(_typingctx, h, words):
    """Lay the words on the stack and call the gate; a Python exception that it leaves goes on up. What it tells of a
    message, when it was one."""

    def codegen(context, builder, signature, values):
        handle = context.make_array(signature.args[0])(context, builder, values[0])
        block = cgutils.alloca_once(builder, ir.ArrayType(_I64, len(words)))
        for i, kind in enumerate(signature.args[1]):
            word = context.cast(builder, builder.extract_value(values[1], i), kind, types.int64)
            builder.store(word, builder.gep(block, [_I64(0), _I64(i)]))
        gate = builder.load(builder.gep(handle.data, [_I64(_GATE)]))
        function = builder.inttoptr(gate, ir.FunctionType(_I64, [_I64, _I64]).as_pointer())
        failed = builder.call(function, [builder.ptrtoint(pointer, _I64) for pointer in (handle.data, block)])
        with builder.if_then(builder.icmp_unsigned("!=", failed, _I64(0))):
            context.call_conv.return_exc(builder)
        told = [builder.load(builder.gep(block, [_I64(0), _I64(at // WORD)])) for at in _TOLD]
        return context.make_tuple(builder, signature.return_type, told)

    return types.UniTuple(types.int64, len(_TOLD))(h, words), codegen


def _type_word(name: str, array: Any, written: bool = False) -> int:
    """The type word of a numba array type; `TypingError` for what collectives do not take or may not write."""
    if not isinstance(array, types.Array) or array.layout != "C" or not array.aligned:
        raise errors.TypingError(f"shmcoll.jit: {name} must be a C-contiguous array, got {array}")
    if written and not array.mutable:
        raise errors.TypingError(f"shmcoll.jit: {name} is read-only")
    known = BY_NUMPY.get(as_dtype(array.dtype))
    if known is None:
        raise errors.TypingError(f"shmcoll.jit: {name} has a dtype that collectives do not know: {array.dtype}")
    return entry.type_word(known)


def _check_integers(**values: Any) -> None:
    for name, value in values.items():
        if isinstance(value, types.Type) and not isinstance(value, (types.Integer, types.Omitted)):
            raise errors.TypingError(f"shmcoll.jit: {name} must be an integer, got {value}")


def _check_handle(h: Any) -> None:
    if not isinstance(h, types.Array) or h.dtype != types.int64 or h.layout != "C" or h.ndim != 1:
        raise errors.TypingError(f"shmcoll.jit: the first argument must be comm.handle, got {h}")


@register_jitable
def _run(h, operation, op, argument, x_type, x, out_type, out):
    _tell(h, operation, op, argument, 0, x_type, x, out_type, out)


@register_jitable
def _tell(h, operation, op, argument, argument_2, x_type, x, out_type, out):
    if h.size <= _HANDLE or h[_HANDLE] != h.ctypes.data:
        raise ValueError(NO_HANDLE)
    call = (operation, op, argument, argument_2, 0)
    source = (x_type, np.int64(x.ctypes.data), x.ndim)
    target = (out_type, np.int64(out.ctypes.data), out.ndim)
    return _through_gate(h, call + source + x.shape + target + out.shape)  # type: ignore[call-arg]


@register_jitable
def _sent(h, dest, tag, x_type, x):
    _tell(h, _SEND, 0, dest, tag, x_type, x, 0, h)


@overload(barrier)
def _barrier(h):
    _check_handle(h)
    return lambda h: _run(h, _BARRIER, 0, 0, 0, h, 0, h)


@overload(all_reduce)
def _all_reduce(h, x, out, op=SUM):
    _check_handle(h)
    _check_integers(op=op)
    x_type, out_type = _type_word("x", x), _type_word("out", out, written=True)
    return lambda h, x, out, op=SUM: _run(h, _ALL_REDUCE, op, 0, x_type, x, out_type, out)


@overload(broadcast)
def _broadcast(h, x, root=0):
    _check_handle(h)
    _check_integers(root=root)
    x_type = _type_word("x", x)
    out_type = x_type if x.mutable else 0  # the root's may be read-only
    return lambda h, x, root=0: _run(h, _BROADCAST, 0, root, x_type, x, out_type, x)


@overload(all_gather)
def _all_gather(h, x, out):
    _check_handle(h)
    x_type, out_type = _type_word("x", x), _type_word("out", out, written=True)
    return lambda h, x, out: _run(h, _ALL_GATHER, 0, 0, x_type, x, out_type, out)


@overload(reduce_scatter)
def _reduce_scatter(h, x, out, op=SUM):
    _check_handle(h)
    _check_integers(op=op)
    x_type, out_type = _type_word("x", x), _type_word("out", out, written=True)
    return lambda h, x, out, op=SUM: _run(h, _REDUCE_SCATTER, op, 0, x_type, x, out_type, out)


@overload(all_to_all)
def _all_to_all(h, x, out):
    _check_handle(h)
    x_type, out_type = _type_word("x", x), _type_word("out", out, written=True)
    return lambda h, x, out: _run(h, _ALL_TO_ALL, 0, 0, x_type, x, out_type, out)


@overload(send)
def _send(h, x, dest, tag=0):
    _check_handle(h)
    _check_integers(dest=dest, tag=tag)
    x_type = _type_word("x", x)
    return lambda h, x, dest, tag=0: _sent(h, dest, tag, x_type, x)


@overload(recv)
def _recv(h, out, source=ANY, tag=ANY):
    _check_handle(h)
    _check_integers(source=source, tag=tag)
    out_type = _type_word("out", out, written=True)
    return lambda h, out, source=ANY, tag=ANY: _tell(h, _RECV, FILL, source, tag, 0, h, out_type, out)
