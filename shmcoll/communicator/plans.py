"""Plans: a call whose arguments are checked once, and that is then made as often as one likes.

The arguments of a collective go through the checks of `calls/` with a stand-in for the dispatcher that keeps the call
of the native entry instead of making it. It keeps the arrays themselves, so a plan works on what they contain when it
is called. A plan with counts keeps these as arrays of its own, which the entry reads at every call.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from shmcoll import calls
from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.arrays import is_in_place
from shmcoll.calls.ignored import ignored
from shmcoll.calls.recv import check_arguments as check_recv
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.calls.sendrecv import check_arguments as check_both
from shmcoll.collectives import RECORDS
from shmcoll.communicator.native_call import native_call
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_NUMPY, REDUCTIONS
from shmcoll.engine.layout import ANY
from shmcoll.engine.system.text import shown
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.process_bound import ProcessBound
from shmcoll.runtime.work import Work

COUNTED = ("all_gather_v", "gather_v", "scatter_v", "all_to_all_v", "reduce_scatter_v")
OPERATIONS = (*(name for name, record in RECORDS.items() if record.plans), *COUNTED)
MESSAGES = ("send", "recv", "sendrecv")

_NOT_NATIVE = (None, None, None, 0, 0, 0)  # the native entry answers that Python goes on

_ROWS = ("send_counts", "send_displs", "recv_counts", "recv_displs", "recv_room")


class Plan(ProcessBound):
    """A planned call. Calling the plan makes the call and returns the result, the same array every time.

    `comm.plan` makes it. All ranks call the plan of a collective together, like the operation itself. A rank that calls
    the operation instead takes part, too.

    Raises:
        CollectiveMismatch: another rank makes a different call. The errors are those of the operation, except that this
            rank's arguments are not checked again.

    Example:
        >>> x = np.ones(3)
        >>> plan = comm.plan("all_reduce", x)
        >>> plan() / comm.size
        array([1., 1., 1.])
        >>> x[:] = 2
        >>> plan() / comm.size
        array([2., 2., 2.])
    """

    _title, _instead = "the plan of a communicator", "call comm.plan in the function that uses it"

    def __init__(self, dispatcher: Dispatcher, operation: str, arguments: tuple[Any, ...], result: Any):
        self._dispatcher = dispatcher
        self._operation = operation
        self._entry = dispatcher.routine("reduce_scatter" if operation == "reduce_scatter_v" else operation)
        self._arguments = arguments
        self._result = result

    @native_call(
        "*self._arguments",
        entry="self._entry",
        operation="self._operation",
        otherwise="self._complete(status)",
        answer="self._result",
    )
    def __call__(self) -> Any:
        """Make the call and return the result."""

    def _complete(self, status: int) -> Any:
        self._dispatcher.complete(self._operation, self._entry, self._arguments, status)
        return self._result

    def start(self) -> Work[Any]:
        """Make the call asynchronously.

        Returns:
            A `Work` with the result of the call. Leave the arrays alone until it is done.
        """
        used = dict(zip(("x", "out"), self._arguments, strict=False))
        dispatcher = self._dispatcher
        call = buffer_check.around(self, dispatcher, self._operation, used, "out")
        return dispatcher.worker.submit(call, collective=self._operation)

    def __repr__(self) -> str:
        return f"<shmcoll.Plan of {self._operation} on rank {self._dispatcher.failures.name}>"


class TwoWayPlan(Plan):
    """A plan of a call with counts, or of one that may need a second operation (`calls/foreign_dtypes.py`). Where the
    native entry does not take the arguments, the call is made the long way: rows, foreign dtypes, functions."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        operation: str,
        arguments: tuple[Any, ...],
        result: Any,
        received: np.ndarray | None,
        long_way: Callable[[], Any],
    ):
        super().__init__(dispatcher, operation, arguments, result)
        self._received, self._long_way = received, long_way

    def _complete(self, status: int) -> Any:
        if status not in (c.NEEDS_PYTHON, c.BUSY):
            raise self._dispatcher.failures.error(self._operation, status)
        told = self._long_way()
        if self._received is not None:
            self._received[:] = told[1]
        return self._result


class MessagePlan(Plan):
    """A planned message. Other ranks need no plan: they may call `send` and `recv`. call: the method, with its
    arguments."""

    def __init__(self, dispatcher: Dispatcher, operation: str, call: Callable[..., Any]):
        self._dispatcher, self._operation, self._call = dispatcher, operation, call

    def __call__(self) -> Any:
        """Send or receive, and return what the method returns."""
        return self._call()

    def start(self) -> Work[Any]:
        """Send or receive asynchronously: see the method's `async_op`."""
        work: Work[Any] = self._call(async_op=True)
        return work


class _NeedsOut(ValueError):
    """A call whose result has a size that only the call finds out cannot be planned without `out`."""


class _Recorder:
    """A dispatcher that notes down the call that it is asked to run. check: refuses the arguments of the native entry,
    before `calls/` copies a result that nobody has written."""

    only_records = True

    def __init__(self, dispatcher: Dispatcher, check: Callable[..., None]):
        self._dispatcher = dispatcher
        self._check = check
        self.arguments: tuple[Any, ...] | None = None

    def run(self, _operation: str, *arguments: Any) -> None:
        self._check(*arguments[:2])
        self.arguments = arguments

    def complete(self, operation: str, _call: Callable[..., int], arguments: tuple[Any, ...] = ()) -> None:
        if not arguments:  # a call in two phases, which allocates its result between them
            raise _NeedsOut("only the call finds out the size of its result; pass out")
        self.run(operation, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)


def make(comm: Any, operation: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Plan:
    """Return the plan of `comm.operation(*args, **keywords)`. Raises what `Communicator.plan` does."""
    dispatcher: Dispatcher = comm._dispatcher
    _check_operation(dispatcher, operation, args)
    where, method = f"plan of {operation} on rank {dispatcher.failures.name}", getattr(comm, operation)
    try:
        bound = inspect.signature(method).bind(*args, **keywords)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None
    bound.apply_defaults()
    values = bound.arguments
    if values.pop("async_op", False):
        raise ValueError(f"{where}: async_op belongs to the call; use plan.start()")
    is_shared = values.pop("shared", False)
    values |= {name: None for name in ignored(operation, dispatcher.rank, values.get("root")) if name in values}
    for name in ("x", "out"):
        array = values.get(name)
        if not isinstance(array, np.ndarray) and (array is not None or (operation in MESSAGES and name in values)):
            raise ValueError(f"{where}: {name} must be a numpy array, to be used in place; got {_kind(array)}")
    if is_shared:
        plan: Plan = comm._plan_shared(operation, **values)
        return plan
    if operation in MESSAGES:
        return _of_message(dispatcher, method, operation, where, values)
    return _of_collective(dispatcher, operation, where, values)


def _check_operation(dispatcher: Dispatcher, operation: Any, args: tuple[Any, ...]) -> None:
    """Refuse to plan what is not the name of an operation that has plans."""
    where, known = f"plan on rank {dispatcher.failures.name}", (*OPERATIONS, *MESSAGES)
    if not isinstance(operation, str):
        named = next((one for one in args if isinstance(one, str) and one in known), None)
        hint = f"; did you mean comm.plan({named!r}, x)?" if named else ""
        raise TypeError(f"{where}: operation must be the name of a method, got {shown(operation)}{hint}")
    if operation not in known:
        near = next((one for one in known if one.replace("_", "") == operation.lower().replace("_", "")), None)
        hint = f"did you mean {near!r}?" if near else f"there are plans of {', '.join(known)}"
        raise ValueError(f"{where}: there is no plan of {operation!r}; {hint}")


def _of_message(
    dispatcher: Dispatcher, method: Callable[..., Any], operation: str, where: str, values: dict[str, Any]
) -> Plan:
    for name in ("x", "out"):
        if name in values and not is_in_place(values[name]):
            raise copied(where, name, values[name])
    dest, source = values.get("dest"), values.get("source")
    if operation == "sendrecv":
        check_both(dispatcher, **values)
    elif operation == "send":
        check_send(dispatcher, values["x"], dispatcher.rank if dest is None else dest, values["tag"])
    else:
        check_recv(dispatcher, values["out"], ANY if source is None else source, values["tag"])
    return MessagePlan(dispatcher, operation, partial(method, **values))


def _of_collective(dispatcher: Dispatcher, operation: str, where: str, values: dict[str, Any]) -> Plan:
    call: Callable[..., Any] = getattr(calls, operation)
    names = list(inspect.signature(call).parameters)[1:]
    x, out = values.get("x"), values.get("out")

    def check(*used: Any) -> None:
        for name, array, one, other in zip(("x", "out"), (x, out), used, (out, x), strict=False):
            if array is None or one is None or array.size == 0:
                continue
            is_used = given.is_plain(one) and array.ctypes.data == one.ctypes.data
            may_copy = name == "x" and operation in COUNTED and is_in_place(array)  # the long way, if it overlaps `out`
            if not is_used and not may_copy:
                raise copied(where, name, array, other)

    recorder = _Recorder(dispatcher, check)
    try:
        result = call(recorder, *(values[name] for name in names))
    except _NeedsOut as error:
        raise ValueError(f"{where}: {error}") from None
    assert recorder.arguments is not None
    if isinstance(result, np.generic):  # a call returns the scalar in its result; a plan returns the same array
        result = recorder.arguments[1].reshape(-1).view(result.dtype).reshape(())
    if operation in COUNTED:
        return _counted(dispatcher, operation, values, result[0] if isinstance(result, tuple) else result)
    array = x if result is None else result
    if array is not None and array.dtype not in BY_NUMPY:
        values["out"] = result
        long_way = partial(call, dispatcher, *(values[name] for name in names))
        return TwoWayPlan(dispatcher, operation, _NOT_NATIVE, result, None, long_way)
    return Plan(dispatcher, operation, recorder.arguments, result)


def _counted(dispatcher: Dispatcher, operation: str, values: dict[str, Any], out: np.ndarray | None) -> Plan:
    """Return the plan of a call with counts that has been checked; `out` is None on a rank that gets nothing."""
    root, call = values.get("root", 0), getattr(calls, operation)
    check = operation, dispatcher.failures.name
    values = {**values, "out": out}
    rows = {
        name: given.as_counts(values[name], dispatcher.size, name, *check)
        for name in ("counts", *_ROWS)
        if values.get(name) is not None
    }
    values |= rows
    received: np.ndarray | None = None
    result: Any = out
    words: tuple[Any, ...] = (received, rows.get("counts"))
    if operation != "reduce_scatter_v":
        if operation != "scatter_v":
            received = None if out is None else np.empty(dispatcher.size, np.int64)
            result = out, received
        words = (received, *map(rows.get, _ROWS))
    reduction = REDUCTIONS.get(values["op"], 0) if type(values.get("op")) is str else 0
    unit = 0 if values["axis"] is None else None
    arguments = values["x"], out, reduction, root, unit, 0, *words
    names = list(inspect.signature(call).parameters)[1:]
    long_way = partial(call, dispatcher, *(values[name] for name in names))
    return TwoWayPlan(dispatcher, operation, arguments, result, received, long_way)


def copied(where: str, name: str, array: np.ndarray, other: np.ndarray | None = None) -> ValueError:
    """Return the error for an array that cannot be used in place. other: the other array of the call."""
    if not array.flags.c_contiguous:
        why = "it is not C-contiguous"
    elif not array.flags.aligned:
        why = "it is not aligned"
    elif not array.dtype.isnative:
        why = "it is not in native byte order"
    elif type(array) is not np.ndarray:
        why = f"it is {_kind(array)}; pass {name}.view(numpy.ndarray)"
    elif other is not None and given.overlap(array, other):
        why = "it shares memory with the other array; here it may only be apart"
    else:
        why = f"the operation converts its dtype {array.dtype}"
    return ValueError(f"{where}: {name} would be copied at every call: {why}")


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
