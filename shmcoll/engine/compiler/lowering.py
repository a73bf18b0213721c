"""From Python source to LLVM code, by numba: the steps before the optimiser, which are the same for every processor.

Importing this file does not import numba; its functions do.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType, ModuleType
from typing import Any


def lowered(functions: dict[str, tuple[Callable[..., int], int]]) -> str:
    """Return the text of an LLVM module that defines `{symbol: (function, number of arguments)}` and all they call.

    Nothing in it is optimised. Every argument and result is a 64-bit word.
    """
    from llvmlite import ir
    from numba.core import types
    from numba.core.compiler import Flags, compile_extra
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    typing, target = cpu_target.typing_context, cpu_target.target_context
    typing.refresh()
    target.refresh()
    flags: Any = Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    word = ir.IntType(64)
    with global_compiler_lock, _only_lowering(target):
        library = target.codegen().create_library("shmcoll")
        for symbol, (function, arity) in functions.items():
            _register_used(function)
            compiled = compile_extra(typing, target, function, (types.int64,) * arity, types.int64, flags, {})
            library.add_linking_library(compiled.library)
            module = library.create_ir_module(f"{symbol}.wrapper")
            wrapper = ir.Function(module, ir.FunctionType(word, [word] * arity), symbol)
            builder = ir.IRBuilder(wrapper.append_basic_block())
            callee = target.declare_function(module, compiled.fndesc)
            # Routines raise nothing, so numba's status is not checked
            _status, result = target.call_conv.call_function(
                builder, callee, types.int64, compiled.fndesc.argtypes, list(wrapper.args)
            )
            builder.ret(result)
            library.add_ir_module(module)
        library.finalize()
        text: str = library.get_llvm_str()
        return text


@contextmanager
def _only_lowering(target: Any) -> Iterator[None]:
    """Keep numba from optimising and emitting what it lowers. It would do both for each function, and again for each of
    its callers, for an engine that never runs our code. That is more than half of the time of compiling.

    The caller holds numba's compiler lock, so no other thread compiles meanwhile. These are private names of numba. If
    one of them changes, numba does that work again, and the object file is still right.
    """
    usual, target._internal_codegen = target._internal_codegen, _codegen()
    try:
        yield
    finally:
        target._internal_codegen = usual


@cache
def _codegen() -> Any:
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen

    class Library(JITCodeLibrary):
        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            return 0  # Python never calls the compiled form of our functions

    class Codegen(JITCPUCodegen):
        _library_class = Library

        def set_env(self, env_name: str, env: Any) -> None:
            pass  # it is part of the compiled form, too

    return Codegen("shmcoll")


def _register_used(function: Callable[..., int]) -> None:
    """Register the module of a function, and the functions that it closes over."""
    from numba.extending import register_jitable

    _register(sys.modules[function.__module__])
    for cell in getattr(function, "__closure__", None) or ():
        used = cell.cell_contents
        if isinstance(used, FunctionType):
            _register_used(used)
            if vars(sys.modules[used.__module__]).get(used.__name__) is not used:
                register_jitable(error_model="numpy", no_cfunc_wrapper=True)(used)


@cache
def _register(module: ModuleType) -> None:
    """Register with numba the functions of a module, and of the modules from which it imports functions.

    Plain functions compile from their source. `intrinsics.py` has registered the functions with a twin there.
    """
    from numba.extending import register_jitable

    from shmcoll.engine.compiler import intrinsics

    functions = [f for f in vars(module).values() if isinstance(f, FunctionType)]
    for function in functions:
        home = sys.modules[function.__module__]
        if home is not module and home.__name__.startswith("shmcoll."):
            _register(home)
        elif home is module and function not in intrinsics.TWINS:
            register_jitable(error_model="numpy", no_cfunc_wrapper=True)(function)
