"""One body for every method that calls a routine.

Such a method is declared with its docstring, its signature, which is that of its first overload if it has overloads,
and `@native_call` with the expressions in which it differs from the others. The body is compiled from one template when
its module is imported. A function that all methods call would cost a Python frame in each call: 40 ns, when a barrier
takes 140 ns.

The body looks up the native entry, which loads the routine, before the `try`: nothing has been sent at that time, and
an interrupt leaves the group as it is. Any exception between the call of the entry and the use of its status ends the
group, because the peers wait for what this rank would do next.

A traceback ends at the line that has called the method (`diagnostics/tracebacks.py`). One with all frames names this
file, and the line of the template that ran.
"""

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast, get_overloads

import numpy as np

from shmcoll import calls
from shmcoll.calls import buffer_check
from shmcoll.calls.collective_permute import route_of
from shmcoll.calls.counts import second_phase
from shmcoll.calls.foreign_dtypes import second_of_shape
from shmcoll.calls.ignored import ignored
from shmcoll.calls.recv import go_on as read_message
from shmcoll.calls.recv import post
from shmcoll.calls.send import go_on as send_on
from shmcoll.collectives import RECORDS
from shmcoll.collectives.scatter import OPEN
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import REDUCTIONS
from shmcoll.engine.layout import LARGEST_TAG
from shmcoll.engine.messages.ring_buffers import SOURCE_SHIFT
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.tracebacks import Border, shorten
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.work import Work

_FIRST_LINE = sys._getframe().f_lineno + 2
_TEMPLATE = """\
def {name}({parameters}):
    try:
        {instead}
        {later}
        {before}
        entry = {entry}
        try:
            status = entry({words})
            {second}
            {rest}
        except BaseException:
            self._dispatcher.left({operation})
            raise
        if {refused}:
            return {otherwise}
        return {answer}
    except BaseException as error:
        shorten(error)
        raise
"""

#: ARGUMENT_2 of a call with counts: the native entry reads only counts of elements; for None it leaves the call to
#: Python
IN_ELEMENTS = "0 if axis is None else None"
#: whether this rank is the root. The comparison of an array, which is no root, would raise numpy's own error
IS_ROOT = "type(root) is int and self._rank == root"


def joined(length: str) -> str:
    """Return the expression for a new result like x, of another length of axis 0; for `out`, if it is given. A slice of
    a shape would cost 0.2 us."""
    return (
        f"((empty({length}, x.dtype) if x.ndim == 1 else empty(({length}, *x.shape[1:]), x.dtype))"
        f" if out is None and type(x) is ndarray and x.ndim else out)"
    )


Method = TypeVar("Method", bound=Callable[..., Any])


def block_of(x: Any, counts: Any, rank: int) -> Any:
    """Return a result of `counts[rank]` elements; None if counts have no such element: then `calls/` raises the
    error."""
    try:
        return np.empty(counts[rank], x.dtype)
    except Exception as error:
        reraise_of_handler(error)
        return None


def routed(pairs: Any, size: int, rank: int) -> tuple[Any, tuple[int, ...]]:
    """Return the pairs as a tuple, which can be read again, and the words of the route; no words if a pair is wrong."""
    try:
        pairs = tuple(pairs)
        return pairs, route_of(pairs, size, rank, "collective_permute", rank)
    except (TypeError, ValueError) as error:
        reraise_of_handler(error)
        return pairs, ()


def unrouted(*_arguments: Any) -> int:
    """Replace a native entry, so that `calls/` reports what is wrong."""
    return int(c.NEEDS_PYTHON)


#: what the expressions of `native_call` may use
_NAMES: dict[str, Any] = {
    "calls": calls,
    "ndarray": np.ndarray,
    "empty": np.empty,
    "empty_like": np.empty_like,
    "int64": np.dtype(np.int64),
    "REDUCTIONS": REDUCTIONS,
    "LARGEST_TAG": LARGEST_TAG,
    "SOURCE_SHIFT": SOURCE_SHIFT,
    "block_of": block_of,
    "routed": routed,
    "unrouted": unrouted,
    "second_phase": second_phase,
    "second_of_shape": second_of_shape,
    "send_on": send_on,
    "post": post,
    "read_message": read_message,
    "shorten": shorten,
}


def native_call(
    words: str,
    *,
    answer: str = "result",
    entry: str | None = None,
    second: str | None = None,
    rest: str | None = None,
    refused: str = "status",
    otherwise: str | None = None,
    later: str | None = None,
    operation: str | None = None,
    **before: str,
) -> Callable[[Method], Method]:
    """Make the declared method call its routine. Every argument is a Python expression.

    Args:
        words: the arguments of the native entry. It must not raise.
        answer: what the method returns.
        entry: the native entry, by default that of the routine with the method's name.
        second: after the answer HALFWAY, the call that goes on; it returns a status and `result`.
        rest: after the answer UNDER_WAY, the call that waits for what native code has begun; it returns a status.
        refused: whether `status` is anything but success.
        otherwise: what is returned then; by default the call is made in `calls/`, or the error is raised.
        later: what is returned for `async_op=True`; by default the `Work` of the call in `calls/`.
        operation: the operation in messages, by default the method's name.
        before: local variables, computed in this order before the entry is looked up.
    """

    def make(declared: Method) -> Method:
        typed: Any = next(iter(get_overloads(declared)), declared)
        code = typed.__code__
        name, positional = code.co_name, code.co_varnames[: code.co_argcount]
        keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        passed = [one for one in (*positional, *keywords)[1:] if one not in ("shared", "async_op")]
        long_way = ", ".join([f"calls.{name}", *passed])
        shared = ", ".join(f"{one}={one}" for one in passed)
        source = _TEMPLATE.format(
            name=name,
            parameters=", ".join([*positional, *(["*", *keywords] if keywords else [])]),
            instead=f"if shared is not False: return self._share({name!r}, shared, async_op, {shared})"
            if "shared" in keywords
            else "",
            later=f"if async_op: return {later or f'self._submit({long_way})'}" if "async_op" in keywords else "",
            before="; ".join(f"{variable} = {value}" for variable, value in before.items()),
            entry=entry or native_entry(name),
            words=words,
            second=f"if status == {c.HALFWAY}: status, result = {second}" if second else "",
            rest=f"if status == {c.UNDER_WAY}: status = {rest}" if rest else "",
            operation=operation or repr(name),
            refused=refused,
            otherwise=otherwise or f"self._again({name!r}, status, {long_way})",
            answer=answer,
        )
        made: dict[str, FunctionType] = {}
        exec(compile("\n" * (_FIRST_LINE - 1) + source, __file__, "exec"), _NAMES, made)
        method = made[name]
        for attribute in ("__doc__", "__module__", "__qualname__"):
            setattr(method, attribute, getattr(declared, attribute))
        if "async_op" in keywords:
            typed.__annotations__["async_op"] = "bool"  # as help() shows it
        for attribute in ("__defaults__", "__kwdefaults__", "__annotations__"):
            setattr(method, attribute, getattr(typed, attribute))
        method.__wrapped__ = typed  # type: ignore[attr-defined]  # tools read the signature and the lines there
        return cast(Method, method)

    return make


def native_entry(name: str) -> str:
    """Return the expression for the native entry of a routine, which is loaded when first looked up."""
    return f'self._{name} or self._load("{name}")'


_ENTRIES = [f"_{name}" for name in RECORDS]


class NativeCalls(Border):
    """The attributes that the methods of a group use."""

    _dispatcher: Dispatcher
    _rank: int
    _size: int

    def _open(self, dispatcher: Dispatcher) -> None:
        """Take the place of this rank in a group. The entries are attributes of the object, and the class has no
        attribute of these names: this way CPython finds them fastest."""
        self._dispatcher = dispatcher
        self._rank, self._size = dispatcher.rank, dispatcher.size
        for name in _ENTRIES:
            setattr(self, name, None)

    @property
    def rank(self) -> int:
        """This rank's number in the group, from 0 to `size` - 1."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return self._size

    def _load(self, name: str) -> Callable[..., int]:
        """Load a routine, and keep its native entry."""
        entry = self._dispatcher.routine(name)
        setattr(self, f"_{name}", entry)
        return entry

    def _opening(self, name: str, root: Any) -> Callable[..., int]:
        """Return what takes the place of a native entry if this rank passes no array: the call tells dtype and shape of
        what it gets, and returns SHAPE_KNOWN."""
        is_other = type(root) is int and 0 <= root < self._size and root != self._rank
        if not is_other or not hasattr(self._dispatcher, "told_at"):
            return unrouted
        entry, at = getattr(self, f"_{name}") or self._load(name), self._dispatcher.told_at

        def opened(x: Any, out: Any, *arguments: Any) -> int:
            phase = (OPEN, 0, at) if x is None else ()
            return entry(x, out, *arguments, *phase)

        return opened

    def _submit(self, call: Callable[..., Any], *arguments: Any) -> Work[Any]:
        """Have the worker make a call."""

        dispatcher = self._dispatcher

        def perform() -> Any:
            return calls.perform(call, dispatcher, arguments)

        if dispatcher.checks_buffers:
            operation, values = call.__name__, buffer_check.named_arguments(call, arguments)
            written = ("out", "x") if call is calls.broadcast and self._rank != values["root"] else ("out",)
            unused = ignored(operation, self._rank, values.get("root"))
            values = {name: value for name, value in values.items() if name not in unused}
            perform = buffer_check.around(perform, dispatcher, operation, values, *written)
        is_message = call in (calls.send, calls.send_object)
        return dispatcher.worker.submit(perform, collective="" if is_message else call.__name__.lstrip("_"))

    def _again(self, operation: str, status: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make the call in `calls/` if the native entry has not let it in. Otherwise raise the error."""
        if status not in (c.NEEDS_PYTHON, c.BUSY):
            raise self._dispatcher.failures.error(operation, status)
        return calls.perform(call, self._dispatcher, arguments)


__all__ = ["IN_ELEMENTS", "IS_ROOT", "NativeCalls", "joined", "native_call", "native_entry"]
