"""Functions of Python and numpy that are equal to a reduction. Users may pass them directly, as `op=np.add`."""

import operator
from typing import Any

import numpy as np

_NAMES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("sum", (np.add, operator.add, operator.iadd, sum, np.sum)),
    ("prod", (np.multiply, operator.mul, operator.imul, np.prod)),
    ("min", (np.minimum, min, np.min)),
    ("max", (np.maximum, max, np.max)),
    ("avg", (np.mean,)),
    ("band", (np.bitwise_and, operator.and_)),
    ("bor", (np.bitwise_or, operator.or_)),
    ("bxor", (np.bitwise_xor, operator.xor)),
    ("land", (np.logical_and,)),
    ("lor", (np.logical_or,)),
    ("lxor", (np.logical_xor,)),
)


def name_of_function(function: Any) -> str | None:
    """Return the name of the reduction that a function is; None for any other object."""
    return next((name for name, functions in _NAMES if any(function is one for one in functions)), None)


def how_to_make_an_operator(function: Any) -> str:
    """Return advice on what to write for a callable object that is not a reduction."""
    if isinstance(function, type):
        return "pass a function of two values, by shmcoll.op"
    name = getattr(function, "__name__", "function")
    if hasattr(function, "__code__") or hasattr(function, "py_func"):
        return f"make an operator of it: shmcoll.op({name if name.isidentifier() else 'function'})"
    module = getattr(function, "__module__", None) or ("numpy" if isinstance(function, np.ufunc) else "")
    prefix = f"{module}." if module and module != "builtins" else ""
    return f"make an operator of it: shmcoll.op(lambda a, b: {prefix}{name}(a, b))"
