"""Call collectives and messages from your own jitted code, without going through Python.

The functions are for `@njit` functions, with `nogil=True` or without. Called from plain Python they do the same.

The communicator is an argument, `comm.handle`. Nothing of one job is compiled in, so a function that numba has cached
works in the next job. Arrays must be C-contiguous, of a dtype that both numba and the collectives know; they are used
in place. All arguments are checked, and errors are those of the communicator's methods, raised in the jitted function.
`SUM`, `PROD` and so on are the numbers of the operators; operators of users are not available here.

Messages take turns with those of Python: if receives are posted there, `recv` waits for its turn behind them. Only the
first message, and a message for which there is no room yet in shared memory, go by way of Python.

Importing this module imports numba.

Example:
    >>> from numba import njit
    >>> from shmcoll import jit
    >>> @njit(nogil=True)
    ... def steps(h, x, out, n):
    ...     for _ in range(n):
    ...         jit.all_reduce(h, x, out)  # the sum
    ...         jit.all_reduce(h, x, x, jit.MAX)  # in place
    >>> x, out = np.ones(2), np.empty(2)
    >>> steps(comm.handle, x, out, 10)
    >>> out / comm.size
    array([1., 1.])
"""

# numba wants functions for `@overload` without annotations:
# mypy: allow-untyped-defs, allow-incomplete-defs

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.extending import intrinsic, overload, register_jitable
from numba.np.numpy_support import as_dtype

from shmcoll.collectives import RECORDS
from shmcoll.communicator.jit_handle import NO_HANDLE, in_python, operator_meant
from shmcoll.communicator.types import Array
from shmcoll.engine.kernels.dtypes import BY_NUMPY, REDUCTIONS
from shmcoll.engine.layout import ANY, WORD
from shmcoll.engine.messages.recv import FILL
from shmcoll.engine.native import jit_gate, tables

SUM, PROD, MIN, MAX, AVG = (REDUCTIONS[name] for name in ("sum", "prod", "min", "max", "avg"))
BAND, BOR, BXOR, LAND, LOR, LXOR = (REDUCTIONS[name] for name in ("band", "bor", "bxor", "land", "lor", "lxor"))

OPERATIONS = ("barrier", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "send", "recv")
_BARRIER, _ALL_REDUCE, _BROADCAST, _ALL_GATHER, _REDUCE_SCATTER, _ALL_TO_ALL, _SEND, _RECV = (
    RECORDS[name].code for name in OPERATIONS
)

_GATE, _HANDLE = tables.GATE // WORD, tables.HANDLE // WORD
_TOLD = (jit_gate.ARGUMENT, jit_gate.ARGUMENT_2, jit_gate.STATUS)
_I64 = ir.IntType(64)


def barrier(h: Array) -> None:
    """Wait until every rank has called it. See `Communicator.barrier`.

    Args:
        h: `comm.handle`.
    """
    in_python(h, _BARRIER, None, None)


def all_reduce(h: Array, x: Array, out: Array, op: int = SUM) -> None:
    """Reduce the arrays of all ranks element by element, on every rank. See `Communicator.all_reduce`.

    Args:
        h: `comm.handle`.
        x: C-contiguous array; shape and dtype are equal on all ranks.
        out: C-contiguous array of x's shape and dtype for the result. It may be `x`.
        op: `jit.SUM`, `PROD`, `MIN`, `MAX`, `AVG`, `BAND`, `BOR`, `BXOR`, `LAND`, `LOR` or `LXOR`.
    """
    in_python(h, _ALL_REDUCE, x, out, op)


def broadcast(h: Array, x: Array, root: int = 0) -> None:
    """Copy the array of rank `root` into the arrays of the other ranks. See `Communicator.broadcast`.

    Args:
        h: `comm.handle`.
        x: C-contiguous array; shape and dtype are equal on all ranks. Written on all ranks except the root.
        root: the rank whose array is copied.
    """
    in_python(h, _BROADCAST, x, x, 0, root)


def all_gather(h: Array, x: Array, out: Array) -> None:
    """Concatenate the arrays of all ranks along axis 0, on every rank. See `Communicator.all_gather`.

    Args:
        h: `comm.handle`.
        x: C-contiguous array of shape (k, ...); shape and dtype are equal on all ranks.
        out: C-contiguous array of shape (n * k, ...) for n ranks, for the result.
    """
    in_python(h, _ALL_GATHER, x, out)


def reduce_scatter(h: Array, x: Array, out: Array, op: int = SUM) -> None:
    """Reduce block r of the arrays of all ranks element by element, on rank r. See `Communicator.reduce_scatter`.

    Args:
        h: `comm.handle`.
        x: C-contiguous array of shape (n * k, ...) for n ranks; shape and dtype are equal on all ranks.
        out: C-contiguous array of shape (k, ...) for the result.
        op: as for `all_reduce`.
    """
    in_python(h, _REDUCE_SCATTER, x, out, op)


def all_to_all(h: Array, x: Array, out: Array) -> None:
    """Send block i of `x` to rank i, cut and concatenated along axis 0. See `Communicator.all_to_all`.

    Args:
        h: `comm.handle`.
        x: C-contiguous array of shape (n * k, ...) for n ranks; shape and dtype are equal on all ranks.
        out: C-contiguous array of x's shape and dtype for the result. It may be `x`.
    """
    in_python(h, _ALL_TO_ALL, x, out)


def send(h: Array, x: Array, dest: int, tag: int = 0) -> None:
    """Send an array to rank `dest`, without waiting for the receiver. See `Communicator.send`.

    Args:
        h: `comm.handle`.
        x: C-contiguous array of any length.
        dest: the rank that receives it.
        tag: 0 to 2**31 - 1.
    """
    in_python(h, _SEND, x, None, 0, dest, tag)


def recv(h: Array, out: Array, source: int = ANY, tag: int = ANY) -> tuple[int, int, int]:
    """Receive a message; wait for it. See `Communicator.recv`.

    Args:
        h: `comm.handle`.
        out: C-contiguous array of the message's dtype and at least as many elements.
        source: the rank that sends, or `jit.ANY`.
        tag: 0 to 2**31 - 1, or `jit.ANY`.

    Returns:
        (source, tag, count): the message fills the first `count` elements of `out`; the others stay as they are.
    """
    received = in_python(h, _RECV, None, out, FILL, source, tag)
    assert received is not None
    return received


# --- compiled ---------------------------------------------------------------------------------------------------------


@intrinsic
def _through_gate(_typingctx: Any, h: Any, words: Any) -> Any:
    """Lay the words on the stack and call the gate; a Python exception that it leaves goes on up. What it tells of a
    message, when it was one."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        handle = context.make_array(signature.args[0])(context, builder, values[0])
        block = cgutils.alloca_once(builder, ir.ArrayType(_I64, len(words)))  # type: ignore[no-untyped-call]
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

    return types.UniTuple(types.int64, len(_TOLD))(h, words), codegen  # type: ignore[no-untyped-call]


def _type_word(name: str, array: Any, written: bool = False) -> int:
    """Return the type word of a numba array type. Raise `TypingError` if collectives cannot take or write it."""
    if not isinstance(array, types.Array) or array.layout != "C" or not array.aligned:
        raise errors.TypingError(f"shmcoll.jit: {name} must be a C-contiguous array, got {array}")
    if written and not array.mutable:
        raise errors.TypingError(f"shmcoll.jit: {name} is read-only")
    known = BY_NUMPY.get(as_dtype(array.dtype))
    if known is None:
        raise errors.TypingError(f"shmcoll.jit: {name} has a dtype that collectives do not know: {array.dtype}")
    return tables.type_word(known)


def _check_integers(**values: Any) -> None:
    for name, value in values.items():
        if isinstance(value, types.Type) and not isinstance(value, (types.Integer, types.Omitted)):
            advice = f"; {operator_meant(getattr(value, 'literal_value', None))}" if name == "op" else ""
            raise errors.TypingError(f"shmcoll.jit: {name} must be an integer, got {value}{advice}")


def _check_handle(h: Any) -> None:
    if not isinstance(h, types.Array) or h.dtype != types.int64 or h.layout != "C" or h.ndim != 1:
        raise errors.TypingError(f"shmcoll.jit: the first argument must be comm.handle, got {h}")


@register_jitable
def _run(h: Any, operation: Any, op: Any, argument: Any, x_type: Any, x: Any, out_type: Any, out: Any) -> Any:
    _tell(h, operation, op, argument, 0, x_type, x, out_type, out)


@register_jitable
def _tell(
    h: Any, operation: Any, op: Any, argument: Any, argument_2: Any, x_type: Any, x: Any, out_type: Any, out: Any
) -> Any:
    if h.size <= _HANDLE or h[_HANDLE] != h.ctypes.data:
        raise ValueError(NO_HANDLE)
    call = (operation, op, argument, argument_2, 0)
    source = (x_type, np.int64(x.ctypes.data), x.ndim)
    target = (out_type, np.int64(out.ctypes.data), out.ndim)
    return _through_gate(h, call + source + x.shape + target + out.shape)  # type: ignore[call-arg]


@register_jitable
def _sent(h: Any, dest: Any, tag: Any, x_type: Any, x: Any) -> Any:
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
