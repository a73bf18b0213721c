"""Operators of functions, compiled before ranks are forked, and only if a test of their module runs.

A module makes them with `dtypes=[]`, which compiles nothing, and has `compiled = compiled_for((LARGER, "int64"), ...)`.
"""

import faulthandler
from typing import Any

import pytest

from tests.support.dtypes import BY_NAME


def compiled_for(*wanted: tuple[Any, *tuple[str, ...]]) -> Any:
    """Return a fixture that compiles operators for dtypes, before the first test of its module."""

    @pytest.fixture(scope="module", autouse=True)
    def compile_operators() -> None:
        faulthandler.cancel_dump_traceback_later()  # numba may take longer on a busy machine
        for operator, *dtypes in wanted:
            for name in dtypes:
                operator.kernel(BY_NAME[name])

    return compile_operators
