"""Loops of `nki.language` whose bounds and conditions are known at run time only: `fori_loop`, `while_loop` and
`dynamic_range`.

On the hardware these are loops of the compiled kernel. Here they are loops of Python, so their bodies may do whatever
Python can. A collective in a body is made once for each iteration. All ranks of its rank-list must make as many:
compute bounds and conditions from what is equal on them, such as the result of an all_reduce. A rank that leaves its
loop early and ends makes the others raise `RankFailed`. If it makes another call instead, all raise
`CollectiveMismatch`.

Sources: the documentation of `nki.language` in the Neuron SDK, 2.29 to 2.33. 2.33 has removed `dynamic_range`, and
`while` with a register; here both still work. Its `NkiScalar` is an `int` here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.nki.registers import VirtualRegister, number

__all__ = ["dynamic_range", "fori_loop", "while_loop"]


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], Any], step: int = 1) -> None:
    """Call a function for each number from `lower` to `upper`, without `upper`.

    Args:
        lower: the first number: an integer, or a register.
        upper: the end: an integer, or a register. Both are read once, before the first call.
        body_fun: a function of the number, which is an `int`; a register of its own if a bound is one. What it
            returns has no effect.
        step: a positive integer.

    Raises:
        TypeError: a bound or `step` is not an integer, or `body_fun` is not a function.
        ValueError: a bound does not fit 32 bits, or `step` is not positive.
    """
    numbers = _numbers("fori_loop", lower, upper, step, ("lower", "upper"))
    _check_function(body_fun, "fori_loop")
    passed = VirtualRegister if isinstance(lower, VirtualRegister) or isinstance(upper, VirtualRegister) else int
    for i in numbers:
        body_fun(passed(i))


def while_loop(init: Any, body_fun: Callable[[Any], Any]) -> None:
    """Call a function as long as a condition is not zero.

    Args:
        init: the first condition: a register, or an integer. If it is zero, nothing is called.
        body_fun: a function of the condition, as a register of its own, that returns the next one: a register, or an
            integer.

    Raises:
        TypeError: a condition is not a register or an integer, or `body_fun` is not a function.
    """
    condition = _condition(init, "init must be a register or an integer (see nki.isa.register_load)")
    _check_function(body_fun, "while_loop")
    while condition:
        following = body_fun(VirtualRegister(condition))
        condition = _condition(following, "body_fun must return the next condition, a register or an integer")


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> range:
    """Return the numbers from `start` to `stop`, without `stop`, for a `for` loop.

    Args:
        start: the first number: an integer, or a register. Without `stop` it is the end, and 0 the first.
        stop: the end: an integer, or a register.
        step: a positive integer.

    Returns:
        A range of integers.

    Raises:
        TypeError: a bound or `step` is not an integer.
        ValueError: a bound does not fit 32 bits, or `step` is not positive.
    """
    if stop is None:
        start, stop = 0, start
    return _numbers("dynamic_range", start, stop, step, ("start", "stop"))


def _numbers(operation: str, first: Any, end: Any, step: Any, names: tuple[str, str]) -> range:
    """Return the numbers of a loop, after checking its bounds."""
    bounds = number(first, names[0], operation), number(end, names[1], operation)
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
        raise TypeError(f"{operation}: step must be an integer that is no register, got {type(step).__name__}")
    if step < 1:
        raise ValueError(f"{operation}: step must be positive, got {step}")
    return range(*bounds, int(step))


def _condition(value: Any, rule: str) -> int | float:
    """Return the number of a condition. rule: what the error says of another value."""
    if isinstance(value, VirtualRegister):
        return value.value
    if not isinstance(value, (int, np.integer, np.bool_)):
        raise TypeError(f"while_loop: {rule}, got {type(value).__name__}")
    return int(value)


def _check_function(body_fun: Any, operation: str) -> None:
    if not callable(body_fun):
        raise TypeError(f"{operation}: body_fun must be a function, got {type(body_fun).__name__}")
