"""Lowering: each function once, under the same name in every process, and only what an entry point reaches."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.compiler import compile as code

WORDS = [0, 1, -1, 2, 3, -3, 7, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63) + 1]


def never_called(a):
    poke(a, 4711)


def chosen(a, b):
    """A variable takes constants and other values in turn."""
    kept = 1
    if a > b:
        kept = 2
    elif a == b:
        kept = a + kept
    return kept


def extremes(a, b):
    return min(a, b) // 3 - max(a, b) % 5


def tuples(a, b):
    return a, b


def swapped(a, b):
    b, a = tuples(a, b)
    return 10 * a - b if a not in (1, 2) else abs(b)


def counted(a, b):
    total = 0
    for i in range(a % 7, 9, 2):
        for _ in range(i):
            if total > 20:
                break
            total += b % 4
    return total


def adding(n: int) -> Callable[[int, int], int]:
    def add(a, b):
        return a + b + n

    return add


def refused(a):
    if a:
        raise ValueError
    return peek(a)


def greatest(a):
    return max(a, 1, 2)


def lowering() -> Any:
    from shmcoll.engine.compiler import lowering  # it imports numba

    return lowering


@pytest.fixture(scope="module")
def native() -> Callable[[str], Callable[[int, int], int]]:
    import ctypes

    functions = {f.__name__: (f, 2) for f in (chosen, extremes, swapped, counted)}
    addresses = dict(zip(functions, code._place(code.emitted(functions), tuple(functions)), strict=True))
    return lambda name: ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(addresses[name])


@pytest.mark.parametrize("function", [chosen, extremes, swapped, counted])
def test_compiled_code_does_what_python_does(native, function):
    for a in WORDS:
        for b in WORDS:
            wanted = function(a, b)
            if -(1 << 63) <= wanted < 1 << 63 and abs(a) < 1 << 59:
                assert native(function.__name__)(a, b) == wanted, (a, b)


def test_closures_with_the_same_contents_are_one_function():
    lowered = lowering().lowered
    from numba import types

    words = (types.int64,) * 2
    assert lowered(adding(3), words) is lowered(adding(3), words)
    assert lowered(adding(3), words).name != lowered(adding(4), words).name


@pytest.mark.parametrize("wanted", ["sum_float32", "avg_complex128", "argmin_pair_of_float16"])
def test_a_kernel_is_lowered_once(wanted):
    """Its closures hold NaN, which is not equal to itself."""
    ((dtype, reduction),) = [(d, r) for d, r in code.all_kernels() if f"{r}_{d.name}" == wanted]
    first = lowering().module(code.kernel_functions(dtype, reduction))
    known = len(lowering()._lowered)
    assert lowering().module(code.kernel_functions(dtype, reduction)) == first
    assert len(lowering()._lowered) == known


def test_a_module_has_what_its_entry_points_reach_and_shows_these_alone():
    module = lowering().module({"one": (swapped, 2), "two": (chosen, 2)})
    defined = re.findall(r'^define (internal )?\S.*?@"([^"]+)"', module.text, re.MULTILINE)
    assert {name for internal, name in defined if not internal} == {"one", "two"}
    assert {name.split(".")[-2] for internal, name in defined if internal} >= {"swapped", "tuples", "chosen"}
    assert "never_called" not in module.text


def test_a_function_that_raises_is_refused():
    from numba.core.errors import UnsupportedError

    with pytest.raises(UnsupportedError):
        lowering().module({"refused": (refused, 1)})


def test_a_number_of_arguments_that_a_compiled_function_does_not_take_is_refused():
    with pytest.raises(TypeError, match="max takes 2 arguments in compiled code, got 3"):
        lowering().module({"greatest": (greatest, 1)})


PRINTS = """
import hashlib
from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler import compile, lowering
from shmcoll.engine.system.text import to_bytes
for name in NAMES:
    module = lowering.module(compile.routine_functions(RECORDS[name]))
print(hashlib.sha256(to_bytes(module.text)).hexdigest())
"""


@pytest.mark.slow
def test_a_module_is_the_same_in_each_process():
    """Whatever that has lowered before, but for the order in which Python goes through a set."""
    told = {
        subprocess.check_output(
            [sys.executable, "-c", PRINTS.replace("NAMES", repr(names))],
            env=os.environ | {"PYTHONHASHSEED": "0"},
            text=True,
        )
        for names in (["barrier"], ["send", "barrier"])
    }
    assert len(told) == 1
