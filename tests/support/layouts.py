"""The same values in every form in which a user may hold them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np


class Sub(np.ndarray):
    """A subclass without any behaviour of its own."""


class Holder:
    """No array, but it can be made into one."""

    def __init__(self, array: np.ndarray):
        self._array = array

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return self._array


class Capsule:
    """Only DLPack."""

    def __init__(self, array: np.ndarray):
        self._array = array

    def __dlpack__(self, **keywords: Any) -> object:
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple:
        return self._array.__dlpack_device__()


def misaligned(array: np.ndarray) -> np.ndarray:
    room = np.zeros(array.nbytes + 1, np.uint8)
    view = room[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def strided(array: np.ndarray) -> np.ndarray:
    room = np.zeros((*array.shape, 2), array.dtype)
    view = room[..., 1]
    view[...] = array
    return view


def reversed_axes(array: np.ndarray) -> np.ndarray:
    turn: Any = (..., *[slice(None, None, -1)] * array.ndim)
    return array[turn].copy()[turn]


def transposed(array: np.ndarray) -> np.ndarray:
    return array.T.copy().T


def fortran(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="F")


def foreign(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder())


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def subclass(array: np.ndarray) -> np.ndarray:
    return array.copy().view(Sub)


INPUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "contiguous": np.copy,
    "misaligned": misaligned,
    "strided": strided,
    "reversed": reversed_axes,
    "transposed": transposed,
    "fortran": fortran,
    "foreign": foreign,
    "read-only": read_only,
    "subclass": subclass,
    "__array__": Holder,
    "dlpack": Capsule,
}

#: what may be given as `out`: the same, as far as it can be written in native byte order
OUTPUTS: dict[str, Callable[[np.ndarray], Any]] = {
    name: INPUTS[name]
    for name in ("contiguous", "misaligned", "strided", "reversed", "transposed", "fortran", "subclass")
}


def draw_input(rng: np.random.Generator, dtype: np.dtype) -> str:
    """A layout for x; the plain one more often than each of the others."""
    name = str(rng.choice(["contiguous"] * 3 + list(INPUTS)))
    return "strided" if name in ("dlpack", "foreign") and dtype.kind == "V" else name


def draw_output(rng: np.random.Generator, layout: str, in_place: bool = True) -> str:
    """A layout for `out`, "none", or "in place" where x is an array that can be written."""
    name = str(rng.choice(["none"] * 2 + ["in place"] * 2 + list(OUTPUTS)))
    return "none" if name == "in place" and not (in_place and layout in OUTPUTS) else name


def output(name: str, x: object, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """What is given as `out`: filled with something that no result is."""
    if name in ("none", "in place"):
        return None if name == "none" else x
    return OUTPUTS[name](np.full(shape, 77, np.uint8).astype(dtype))


def changed(x: object, before: np.ndarray, out: str) -> str:
    """What has become of an input that should be as it was."""
    if out == "in place" or not isinstance(x, np.ndarray):
        return ""
    wrong = same(x.astype(before.dtype).view(np.ndarray), before)
    return wrong and f"x was changed: {wrong}"


#: so many values of an array are drawn, and repeated where it is longer. To draw them all is what tests would spend
#: most of their time on; this is prime, so that no two elements a whole page, slice or cell apart are one value
DRAWN = 10_007


def values(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], op: str = "sum") -> np.ndarray:
    """Random values that reduce exactly: all integers (they wrap), small floats, powers of two for prod.

    For logical operators now rare and now frequent zeros, and NaN; for pairs ties of either kind, and NaN.
    """
    count = math.prod(shape)
    if count > DRAWN:
        return np.resize(values(rng, dtype, (DRAWN,), op), count).reshape(shape)
    if dtype.names:
        pairs = np.zeros(shape, dtype)
        pairs["value"] = _with_nan(rng, rng.integers(0, 4, shape).astype(dtype["value"]))
        pairs["index"] = rng.integers(-3, 4, shape)
        return pairs
    if op in ("land", "lor", "lxor"):
        zeros = rng.random(shape) < np.where(np.arange(count).reshape(shape) % 2, 0.9, 0.1)
        return np.where(zeros, np.zeros((), dtype), _with_nan(rng, values(rng, dtype, shape))).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))
    if op == "prod":
        drawn = rng.choice(np.array([1, -1, 2, -2, 0.5]), shape)
        turned = drawn * rng.choice(np.array([1, 1j]), shape) if dtype.kind == "c" else drawn
        return np.asarray(turned).astype(dtype)
    drawn = rng.integers(-8, 9, shape)
    turned = drawn + 1j * rng.integers(-8, 9, shape) if dtype.kind == "c" else drawn
    return np.asarray(turned).astype(dtype)


def _with_nan(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "biu":
        return array
    return np.where(rng.random(array.shape) < 0.1, np.asarray(np.nan, array.dtype), array).astype(array.dtype)


def same(got: object, wanted: np.ndarray) -> str:
    """What is wrong with a result, '' when nothing is: type, dtype, shape and every element are compared. Where the
    result has no dimensions it may be a scalar (`tests/conformance/test_scalars.py` says when it must be)."""
    if isinstance(got, np.generic) and not wanted.ndim:
        got = np.asarray(got)
    if not isinstance(got, np.ndarray):
        return f"got {type(got).__name__}"
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"got {got.dtype}{list(got.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
    unlike = ~((got == wanted) | ((got != got) & (wanted != wanted)))
    if unlike.any():
        where = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(unlike)))
        first = np.atleast_1d(got)[where], np.atleast_1d(wanted)[where]
        return f"{int(unlike.sum())} of {unlike.size} elements differ, first at {where}: got {first[0]}, not {first[1]}"
    return ""


def refused(call: Callable[[], object], words: str, out: np.ndarray) -> str:
    """What is wrong when a call must raise a `ValueError` that ends with `words`, and leave zeros in `out`."""
    try:
        return f"nothing was raised, wanted: {words}; got {call()!r}"
    except ValueError as error:
        if not str(error).endswith(f": {words}"):
            return f"{error}, wanted: {words}"
    return "something was written" if (out != 0).any() else ""
