"""Compiled functions for the tests of the engine."""

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest

from shmcoll.engine.compiler import compile as code
from tests.engine import small_functions


@pytest.fixture(scope="session")
def compiled() -> Callable[..., int]:
    """`compiled(name, *words)`: a function of `small_functions.py` as machine code. The GIL is released meanwhile."""
    functions = {name: (getattr(small_functions, name), arity) for name, arity in small_functions.ARITIES.items()}
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), code._target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.emitted(functions)))
    engine.finalize_object()
    natives = {
        name: ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arity)(engine.get_function_address(name))
        for name, (_, arity) in functions.items()
    }

    def call(name: str, *words: int) -> int:
        return natives[name](*words)

    call.engine = engine  # type: ignore[attr-defined]  # it owns the code
    return call
