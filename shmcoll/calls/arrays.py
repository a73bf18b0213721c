"""What the calls share: plain arrays in, results out."""

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.kernels.element_marks import exact as exact
from shmcoll.engine.layout import WORD
from shmcoll.runtime.dispatcher import Dispatcher


def perform(call: Callable[..., Any], dispatcher: Dispatcher, arguments: tuple[Any, ...]) -> Any:
    """Make a call. `out` among its arguments may be any object that exposes its memory; the call returns it then."""
    place = _place_of_out(call)
    out = None if place is None else arguments[place]
    view = given.as_memory(out)
    if place is None or view is out:
        return call(dispatcher, *arguments)
    result = call(dispatcher, *arguments[:place], view, *arguments[place + 1 :])
    if isinstance(result, tuple):
        return tuple(out if part is view else part for part in result)
    return out if result is view else result


@cache
def _place_of_out(call: Callable[..., Any]) -> int | None:
    """Return the position of `out` among a call's arguments behind the dispatcher."""
    names = list(inspect.signature(call).parameters)
    return names.index("out") - 1 if "out" in names else None


def run_in_phases(
    dispatcher: Dispatcher, operation: str, opening: Callable[[], int], known: int, moving: Callable[[], int]
) -> None:
    """Run a routine in two phases: `opening`, and `moving` after it has returned the status `known`.

    Between the two the rank allocates its result. If that fails, or a signal handler raises, the group ends, because
    the peers wait for this rank's second phase.
    """

    def both() -> int:
        try:
            status = opening()
            return moving() if status == known else status
        except BaseException:
            dispatcher.words[c.ACTIVE // WORD] = c.ENDED
            raise

    dispatcher.complete(operation, both)


def is_in_place(out: np.ndarray) -> bool:
    """Return whether a routine can write into `out` itself, as `exact` shows it."""
    if out.dtype in BY_NUMPY:
        return given.is_plain(out)
    return type(out) is np.ndarray and out.flags.c_contiguous and out.dtype.isnative


def place_for(out: Any, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return where the result is written, to be passed by way of `exact`: `out` if that is possible, else a new
    array."""
    return out if out is not None and is_in_place(out) else np.empty(shape, dtype)


def deliver(target: np.ndarray, out: Any) -> Any:
    """Return the result: copy it to `out` if the routine had to write elsewhere. A new result of 0 dimensions is a
    numpy scalar, as it is of numpy's functions."""
    if out is None:
        return target if target.ndim else target[()]
    if out is target:
        return target
    out[...] = target.reshape(out.shape)
    return out


def whole_shape(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the shape of `size` such arrays, concatenated along axis 0. A 0-d array counts as shape (1,)."""
    return (size * shape[0], *shape[1:]) if shape else (size,)


def cut(array: np.ndarray, size: int) -> list[np.ndarray]:
    """Return the `size` equal parts of an array along axis 0, as views."""
    length = array.shape[0] // size
    return [array[i * length : (i + 1) * length] for i in range(size)]


def addresses(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return a table of the addresses of arrays, for routines that take a list."""
    return np.array([array.ctypes.data for array in arrays], np.int64)


class Results:
    """Where the n equal blocks of a result go: into parts of one array along axis 0, or into a list of arrays.

    targets: the blocks of the user's `out`; none without it. Raises an error if `out` does not fit.
    """

    def __init__(self, out: Any, size: int, block: tuple[int, ...], dtype: np.dtype, check: tuple[str, int]):
        self._out, self._whole, self._dtype, self._size = out, whole_shape(block, size), dtype, size
        self.is_listed = isinstance(out, (list, tuple))
        self.targets: list[np.ndarray] = []
        if self.is_listed:
            self.targets = given.as_outputs(out, size, block, dtype, *check)
        elif out is not None:
            parts = cut(given.as_output(out, self._whole, dtype, *check), size)
            self.targets = [part.reshape(block) for part in parts]

    def place(self) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the array that the routine writes, None for a list; and a table of the addresses of the blocks."""
        if self.is_listed:
            self._places = [place_for(target, target.shape, target.dtype) for target in self.targets]
            return None, addresses(self._places)
        self._place = place_for(self._out, self._whole, self._dtype)
        return exact(self._place), addresses(cut(self._place, self._size))

    def deliver(self) -> Any:
        """Return the result, after the routine has written it."""
        if not self.is_listed:
            return deliver(self._place, self._out)
        for place, target in zip(self._places, self.targets, strict=True):
            deliver(place, target)
        return self._out


def product(extents: Sequence[int]) -> int:
    result = 1
    for extent in extents:
        result *= extent
    return result
