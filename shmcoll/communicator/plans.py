"""Plans: a collective whose arguments are checked once, and that is then called as often as one likes.

The arguments go through the checks of `calls/` with a stand-in for the dispatcher that keeps the call of the native
entry instead of making it. It keeps the arrays themselves, so a plan works on what they contain when it is called.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll import calls
from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.collectives import RECORDS
from shmcoll.communicator.native_call import native_call
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.work import Work

OPERATIONS = tuple(name for name, record in RECORDS.items() if record.plans)


class Plan:
    """A planned collective. Calling it makes the call and returns the result, the same array every time.

    `comm.plan` makes it. All ranks call it together, like the operation itself. A rank that calls the operation instead
    takes part, too.

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

    def __init__(self, dispatcher: Dispatcher, operation: str, arguments: tuple[Any, ...], result: Any):
        self._dispatcher = dispatcher
        self._operation = operation
        self._entry = dispatcher.routine(operation)
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
        return dispatcher.worker.submit(buffer_check.around(self, dispatcher, self._operation, used, "out"))

    def __repr__(self) -> str:
        return f"<shmcoll.Plan of {self._operation} on rank {self._dispatcher.failures.name}>"


class _NeedsOut(ValueError):
    """A call whose result has a size that only the call finds out cannot be planned without `out`."""


class _Recorder:
    """A dispatcher that notes down the call that it is asked to run."""

    def __init__(self, dispatcher: Dispatcher):
        self._dispatcher = dispatcher
        self.arguments: tuple[Any, ...] | None = None

    def run(self, _operation: str, *arguments: Any) -> None:
        self.arguments = arguments

    def __getattr__(self, name: str) -> Any:
        if name == "complete":
            raise _NeedsOut("only the call finds out the size of its result; pass out")
        return getattr(self._dispatcher, name)


def make(
    dispatcher: Dispatcher, method: Callable[..., Any], operation: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Plan:
    """The plan of `method(*args, **keywords)`, a bound method of the communicator. Errors: see `Communicator.plan`."""
    where = f"plan of {operation} on rank {dispatcher.failures.name}"
    try:
        bound = inspect.signature(method).bind(*args, **keywords)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None
    bound.apply_defaults()
    if bound.arguments.get("async_op"):
        raise ValueError(f"{where}: async_op belongs to the call; use plan.start()")
    call = getattr(calls, operation)
    names = list(inspect.signature(call).parameters)[1:]
    x, out = (bound.arguments.get(name) for name in ("x", "out"))
    for name, array in (("x", x), ("out", out)):
        if array is not None and not isinstance(array, np.ndarray):
            raise ValueError(f"{where}: {name} must be a numpy array, to be used where it is; got {_kind(array)}")
    recorder = _Recorder(dispatcher)
    try:
        result = call(recorder, *(bound.arguments[name] for name in names))
    except _NeedsOut as error:
        raise ValueError(f"{where}: {error}") from None
    assert recorder.arguments is not None
    if isinstance(result, np.generic):  # a call returns the scalar in its result; a plan returns the same array
        result = recorder.arguments[1]
    for name, array, used in zip(("x", "out"), (x, out), recorder.arguments, strict=False):
        if array is not None and used is not None and not _is_used_in_place(array, used):
            raise ValueError(
                f"{where}: {name} would be copied at every call; a plan wants it C-contiguous, aligned, in native byte "
                f"order, of a dtype that needs no conversion, and apart from the other array or the same"
            )
    return Plan(dispatcher, operation, recorder.arguments, result)


def _is_used_in_place(array: np.ndarray, used: np.ndarray) -> bool:
    return array.size == 0 or (given.is_plain(used) and array.ctypes.data == used.ctypes.data)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
