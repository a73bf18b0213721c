"""Registers of `nki.isa`: numbers that a kernel reads from an array while it runs, for bounds and conditions of loops.

A register has 32 bits, so its integers go from -2**31 to 2**32 - 1. Here a kernel runs as Python, and a register may be
used wherever an integer may: as an index, and in arithmetic, which returns numbers of numpy.
"""

import operator
from typing import Any

import numpy as np

SMALLEST, LARGEST = -(2**31), 2**32 - 1


class VirtualRegister(np.lib.mixins.NDArrayOperatorsMixin):
    """A register: what `register_alloc` returns."""

    __slots__ = ("_value",)

    def __init__(self, value: int | float | None = None):
        """Make a register. value: the number in it; None if nothing has been moved into it yet."""
        self._value = value

    @property
    def value(self) -> int | float:
        """The number in the register. Raises `RuntimeError` if it has none."""
        if self._value is None:
            raise RuntimeError("a register is read before it has a value; call register_load or register_move first")
        return self._value

    def __index__(self) -> int:
        return operator.index(self.value)  # type: ignore[arg-type]  # a float raises TypeError

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        plain = (one.value if isinstance(one, VirtualRegister) else one for one in inputs)
        return getattr(ufunc, method)(*plain, **keywords)

    def __repr__(self) -> str:
        return f"<VirtualRegister {'without a value' if self._value is None else self._value}>"


def register_alloc(x: Any = None) -> VirtualRegister:
    """Return a new register.

    Args:
        x: an integer, a register or an array of one element, whose number it gets; None for none yet.

    Raises:
        TypeError: `x` is something else, or of more than 32 bits.
        ValueError: `x` has another number of elements, or does not fit 32 bits.
    """
    if x is None:
        return VirtualRegister()
    where = "register_alloc"
    return VirtualRegister(_loaded(x, "x", where) if isinstance(x, np.ndarray) else number(x, "x", where))


def register_move(dst: VirtualRegister, src: Any) -> None:
    """Write a number into a register.

    Args:
        dst: the register.
        src: an integer, or a register.

    Raises:
        TypeError: `dst` is not a register, or `src` is something else.
        ValueError: `src` does not fit 32 bits.
    """
    _check_register(dst, "dst", "register_move")
    dst._value = src.value if isinstance(src, VirtualRegister) else number(src, "src", "register_move")


def register_load(dst: VirtualRegister, src: np.ndarray) -> None:
    """Write the only element of an array into a register.

    Args:
        dst: the register.
        src: an array of one element, of at most 32 bits.

    Raises:
        TypeError: `dst` is not a register, `src` is not an array, or its elements have more than 32 bits.
        ValueError: `src` has another number of elements.
    """
    _check_register(dst, "dst", "register_load")
    dst._value = _loaded(src, "src", "register_load")


def register_store(dst: np.ndarray, src: Any) -> None:
    """Write the number of a register into an array of one element.

    Args:
        dst: the array.
        src: a register, or an integer such as `fori_loop` passes.

    Raises:
        TypeError: `dst` is not an array, or `src` is not a register.
        ValueError: `dst` has another number of elements, is read-only, or its dtype cannot hold the number.
    """
    _check_element(dst, "dst", "register_store")
    value = src.value if isinstance(src, VirtualRegister) else number(src, "src", "register_store")
    if not dst.flags.writeable:
        raise ValueError("register_store: dst is read-only; pass an array of the kernel's own, as of nl.ndarray")
    stored = np.array(value).astype(dst.dtype)
    if isinstance(value, int) and int(stored.real) != value:
        raise ValueError(f"register_store: {value} does not fit dst of dtype {dst.dtype}")
    dst[...] = stored


def number(value: Any, what: str, operation: str) -> int:
    """Return an integer, or that of a register. Raises `TypeError` or `ValueError` if it is not one of 32 bits."""
    plain = value.value if isinstance(value, VirtualRegister) else value
    if isinstance(plain, bool) or not isinstance(plain, (int, np.integer)):
        held = " that holds a float" if plain is not value else ""
        raise TypeError(
            f"{operation}: {what} must be an integer or a register (see nki.isa.register_load), "
            f"got {type(value).__name__}{held}"
        )
    if not SMALLEST <= plain <= LARGEST:
        raise ValueError(f"{operation}: {what} must fit 32 bits, got {plain}")
    return int(plain)


def _loaded(src: Any, what: str, operation: str) -> int | float:
    """Return the only element of an array as a number."""
    _check_element(src, what, operation)
    if src.itemsize > 4 or not np.can_cast(src.dtype, np.float64):
        raise TypeError(
            f"{operation}: {what} must have numbers of at most 32 bits, got dtype {src.dtype}; convert it, as in "
            f"x.astype(nl.int32)"
        )
    value = src.reshape(-1)[0]
    return int(value) if src.dtype.kind in "biu" else float(value)


def _check_register(register: Any, what: str, operation: str) -> None:
    if not isinstance(register, VirtualRegister):
        raise TypeError(
            f"{operation}: {what} must be a register (see nki.isa.register_alloc), got {type(register).__name__}"
        )


def _check_element(array: Any, what: str, operation: str) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{operation}: {what} must be a numpy array of one element, got {type(array).__name__}")
    if array.size != 1:
        raise ValueError(f"{operation}: {what} must have exactly one element, got shape {array.shape}")
