"""How numba is imported to compile our code, in whatever environment the user has set for it.

NUMBA_DISABLE_JIT, by which users debug their own jitted functions, does not keep our code from being compiled. Nor does
None in `sys.modules`, by which a program hides numba from what it runs. A value of another variable that numba or LLVM
cannot take is told in a line that names the variable.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def enabled_jit() -> Iterator[None]:
    """Let numba compile in the block. The caller defers signals, because numba is imported here.

    Raises `ValueError` if numba cannot be imported with the variables that are set.
    """
    with _shown():
        config = load_numba()
        usual, config.DISABLE_JIT = config.DISABLE_JIT, 0
        try:
            yield
        finally:
            config.DISABLE_JIT = usual


_hidden: list[ModuleType] = []  # numba, imported while the program hides it


@contextmanager
def _shown() -> Iterator[None]:
    """Let numba be imported in the block, even if the program hides it."""
    if sys.modules.get("numba", _hidden) is not None:
        yield
        return
    del sys.modules["numba"]
    if _hidden:
        sys.modules["numba"] = _hidden[0]
    try:
        yield
    finally:
        if "numba" in sys.modules:
            _hidden[:] = [sys.modules["numba"]]
        sys.modules["numba"] = None  # type: ignore[assignment]


def load_numba() -> Any:
    """Import numba and return its settings. Raises as `enabled_jit`."""
    given = {name: value for name, value in sorted(os.environ.items()) if name.startswith("NUMBA_")}
    features = given.get("NUMBA_CPU_FEATURES", "")
    wrong = [one for one in features.split(",") if one.strip() and one.strip()[0] not in "+-"]
    if wrong:  # LLVM would end the process
        raise ValueError(
            f"NUMBA_CPU_FEATURES={features!r}: {wrong[0]!r} must begin with + or -, as in '+avx2,-avx512f'; change it, "
            f"or unset NUMBA_CPU_FEATURES"
        )
    try:
        import numba
    except ValueError as error:
        if not given:
            raise
        variables = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(f"numba cannot be imported with {variables}: {error} Change or unset it") from None
    return numba.config
