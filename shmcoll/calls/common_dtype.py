"""Arrays whose dtype may differ between ranks by nature: text of other widths, dates in other units, records of both.

All ranks pass arrays to these calls, and numpy gives text the width of its longest item. So a call of such a dtype is
made of two operations. First the ranks exchange hashes of their dtypes, in an all_gather whose mark says to which
call it belongs. Where all are equal, the call follows. Otherwise the ranks exchange their dtypes in words, and
all of them convert their arrays to the dtype that numpy's promotion gives, and begin again; or all raise the same
`ValueError`, if no dtype does, or if a rank has passed an `out`. The group lives on.

If an exception comes out between two of these operations, the group ends: the peers wait for the next one.
"""

from collections.abc import Callable, Iterator
from functools import reduce, wraps
from typing import Any, TypeVar

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.collectives import RECORDS
from shmcoll.diagnostics.meant_call import with_objects
from shmcoll.engine import context as c
from shmcoll.engine.kernels.element_marks import AGREEING, dtype_in_words, element_mark, spelled
from shmcoll.engine.layout import WORD
from shmcoll.engine.system.text import to_bytes, to_text
from shmcoll.runtime.dispatcher import Dispatcher

Call = TypeVar("Call", bound=Callable[..., Any])


class _Differ(Exception):
    """The ranks have passed different dtypes. dtype: the one that can hold all of them."""

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype


def may_differ(dtype: np.dtype) -> bool:
    """Return whether a dtype depends on the values, and so on the rank."""
    if dtype.names is not None:
        return any(may_differ(dtype[name]) for name in dtype.names)
    return dtype.kind in "SUMmV" and dtype.isbuiltin != 2


def agreeing(call: Call) -> Call:
    """Make a call again, with arrays of a common dtype, when it has found that the ranks' dtypes differ."""

    @wraps(call)
    def make(dispatcher: Dispatcher, x: Any, *rest: Any) -> Any:
        if call.__name__ == "collective_permute":  # its pairs may be read twice; counts are never an iterator
            rest = tuple(tuple(one) if isinstance(one, Iterator) else one for one in rest)
        try:
            return call(dispatcher, x, *rest)
        except _Differ as found:
            dtype = found.dtype
        with _Between(dispatcher, call.__name__, has_begun=True):
            converted = [np.asarray(one).astype(dtype) for one in (x if given.is_list_of_arrays(x) else [x])]
            return call(dispatcher, converted if given.is_list_of_arrays(x) else converted[0], *rest)

    return make  # type: ignore[return-value]


def move(dispatcher: Dispatcher, operation: str, dtype: np.dtype, out: Any, run: Callable[[], Any]) -> Any:
    """Run a routine on arrays of a dtype, and return what `run` returns, once all ranks have exchanged theirs. `out`:
    None where this rank takes a new result."""
    if not may_differ(dtype) or dispatcher.only_records:
        return run()
    dispatcher.routine(operation)  # loaded before anything is published
    with _Between(dispatcher, operation) as between:
        words = to_bytes(spelled(dtype))
        told = _tell(dispatcher, operation, np.array([element_mark(dtype), 2 * len(words) + (out is not None)]))
        between.has_begun = True
        if (told[:, 0] == told[0, 0]).all():
            return run()
        padded = np.frombuffer(words.ljust(int(told[:, 1].max()) // 2), np.uint8)
        dtypes = [dtype_in_words(to_text(row.tobytes()).strip()) for row in _tell(dispatcher, operation, padded)]
        common = _common(dtypes)
        if common is None or (told[:, 1] % 2).any():
            passed = ", ".join(f"{one} on rank {dispatcher.group.name(rank)}" for rank, one in enumerate(dtypes))
            why = " and a rank passes out" if common is not None else ""
            one = common or dtypes[0]
            how = repr(one.str) if one.names is None else str(one)
            raise ValueError(
                f"{operation}: the arrays have different dtypes{why}: {passed}; convert x on every rank to the same "
                f"one, as in x.astype({how}), or use {with_objects(operation)}"
            )
        raise _Differ(common)


class _Between:
    """The time between two operations of a call. Where an exception leaves it that the other ranks do not see, the
    group ends."""

    def __init__(self, dispatcher: Dispatcher, operation: str, *, has_begun: bool = False):
        self._dispatcher, self._operation = dispatcher, operation
        self.has_begun = has_begun

    def __enter__(self) -> "_Between":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, _traceback: object) -> None:
        if error is None or isinstance(error, (_Differ, ValueError)) or not self.has_begun:
            return
        if self._dispatcher.words[c.ACTIVE // WORD] != c.ENDED:
            self._dispatcher.left(self._operation)


def _tell(dispatcher: Dispatcher, operation: str, mine: np.ndarray) -> np.ndarray:
    """Return the rows that all ranks have sent."""
    told = np.empty((dispatcher.size, mine.size), mine.dtype)
    mark = AGREEING | RECORDS[operation].code
    dispatcher.complete(operation, dispatcher.routine("all_gather"), (mine, told.reshape(-1), 0, 0, mark, 0, 0))
    return told


def _common(dtypes: list[np.dtype]) -> np.dtype | None:
    """Return the dtype that holds the elements of all these; None if no dtype does."""
    if len({one.kind for one in dtypes}) > 1 and not {one.kind for one in dtypes} <= {"S", "U"}:
        return None
    try:
        return reduce(np.promote_types, dtypes)
    except TypeError:
        return None
