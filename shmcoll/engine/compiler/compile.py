"""From source to an address: compile once per machine, into object files, and load them.

A routine or kernel is compiled with numba, optimised, and emitted as an object file whose only public symbols are its
entry points; `object_cache.py` keeps it. A later process loads it with llvmlite alone, in a few milliseconds: numba is
imported only to compile. Kernels around functions of users are compiled in each process and not kept: what such a
function depends on, nobody could put into the name of a file.

Neither numba, while it is imported or compiles, nor llvmlite survives an exception from a signal handler. So everything
that enters them does so with signals deferred (`deferral.py`); an interrupt is raised as soon as they are done, and
what has been interrupted can be repeated.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import llvmlite.binding as llvm

from shmcoll.engine.collective import COUNTS, Collective
from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.compiler.object_cache import Progress, object_file
from shmcoll.engine.kernels import kernels
from shmcoll.engine.kernels.dtypes import DTYPES, PAIRS, REDUCTIONS, DType
from shmcoll.engine.native import entry, entry_counts, jit_gate


def load_routine(record: Collective, progress: Progress | None = None) -> tuple[int, int]:
    """Addresses of the two entry points (fast, plain) of the routine of a collective."""
    operation, routine = record.name, record.routine
    make_entry = entry_counts.make_entry if record.form & COUNTS else entry.make_entry

    def build() -> bytes:
        return _emit(
            {
                f"{operation}_fast": (make_entry(routine, record), 3),
                f"{operation}_plain": (entry.make_plain(routine, record), 2),
            }
        )

    fast, plain = _load(operation, (f"{operation}_fast", f"{operation}_plain"), build, progress)
    return fast, plain


def load_gate(progress: Progress | None = None) -> int:
    """Address of the gate for jitted code."""
    (address,) = _load("gate", ("gate",), lambda: _emit({"gate": (jit_gate.gate, 2)}), progress)
    return address


def load_kernel(dtype: DType, reduction: str, progress: Progress | None = None) -> int:
    """Address of the reduce kernel of a pair; the pair must have one (`kernels.has_kernel`)."""
    name = f"{reduction}_{dtype.name}"
    (address,) = _load(name, (name,), lambda: _emit({name: (kernels.make_kernel(dtype, reduction), 6)}), progress)
    return address


@deferred_signals()
def result_type(dtype: DType, function: Any) -> Any:
    """The numba type of what a jitted function makes of two values of a dtype; compiled when there is need to."""
    from numba.core import types
    from numba.np.numpy_support import from_dtype

    from shmcoll.engine.compiler.intrinsics import compiled_for

    return types.unliteral(compiled_for(function, (from_dtype(dtype.accumulator),) * 2).signature.return_type)


@deferred_signals()
def load_function_kernel(dtype: DType, function: Any) -> int:
    """Address of a reduce kernel around a numba-jitted function of two values.

    Raises numba's errors for a function that does not compile for the dtype, and `ImportError` for one that needs what
    this process does not have.
    """
    result_type(dtype, function)  # first: compiled by the kernel, it would divide by zero as our own code does
    name = f"function_{dtype.name}"
    module = optimised_module({name: (kernels.make_function_kernel(dtype, function), 6)})
    needed = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    missing = [symbol for symbol in needed if llvm.address_of_symbol(symbol) is None]
    if missing:  # the loader would end the process
        raise ImportError(f"it needs {', '.join(missing)}")
    (address,) = _place(_target_machine().emit_object(module), (name,))
    return address


_loaded: dict[str, tuple[int, ...]] = {}
_engines: list[Any] = []  # they own the code


def _load(
    name: str, symbols: tuple[str, ...], build: Callable[[], bytes], progress: Progress | None
) -> tuple[int, ...]:
    if name not in _loaded:
        _loaded[name] = _place(object_file(name, build, progress), symbols)
    return _loaded[name]


@deferred_signals()
def _place(data: bytes, symbols: tuple[str, ...]) -> tuple[int, ...]:
    """Bring an object file into memory, for as long as the process lives; the addresses of its symbols."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    _engines.append(engine)
    return tuple(engine.get_function_address(s) for s in symbols)


# --- compiling --------------------------------------------------------------------------------------------------------


@cache
def _target_machine() -> Any:
    """For this machine. The large code model with absolute addresses, because the loader places each section of an
    object where the system likes: with the arena mapped in between, more than the 2 GiB apart that others can address.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, reloc="static", codemodel="large"
    )


def _emit(functions: dict[str, tuple[Callable[..., int], int]]) -> bytes:
    """An object file with one public symbol for each function; every argument and result is a 64-bit word."""
    module = optimised_module(functions)
    return _target_machine().emit_object(module)


def optimised_module(functions: dict[str, tuple[Callable[..., int], int]]) -> Any:
    """The LLVM module of `{symbol: (function, number of arguments)}`, optimised, all else internal to it."""
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
    with global_compiler_lock:
        library = target.codegen().create_library("shmcoll")
        for symbol, (function, arity) in functions.items():
            _register_used(function)
            compiled = compile_extra(typing, target, function, (types.int64,) * arity, types.int64, flags, {})
            library.add_linking_library(compiled.library)
            module = library.create_ir_module(f"{symbol}.wrapper")
            wrapper = ir.Function(module, ir.FunctionType(word, [word] * arity), symbol)
            builder = ir.IRBuilder(wrapper.append_basic_block())
            callee = target.declare_function(module, compiled.fndesc)
            # Routines raise nothing, so numba's status is not looked at
            _status, result = target.call_conv.call_function(
                builder, callee, types.int64, compiled.fndesc.argtypes, list(wrapper.args)
            )
            builder.ret(result)
            library.add_ir_module(module)
        library.finalize()
        linked = llvm.parse_assembly(library.get_llvm_str())
    for value in (*linked.functions, *linked.global_variables):
        if not value.is_declaration and value.name not in functions:
            value.linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder_ = llvm.create_pass_builder(_target_machine(), options)
    builder_.getModulePassManager().run(linked, builder_)
    return linked


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
    """Tell numba about the functions of a module and of the modules it takes functions from.

    Plain functions compile from their source; those with a twin in `intrinsics.py` have been registered by it.
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


def all_kernels() -> list[tuple[DType, str]]:
    """Every pair of dtype and reduction that has a kernel."""
    return [(d, r) for d in (*DTYPES, *PAIRS) for r in REDUCTIONS if kernels.has_kernel(d, r)]


if not hasattr(ctypes.CDLL(None), "sem_clockwait"):
    raise ImportError("shmcoll needs Linux with glibc 2.30 or later; on other systems use a container or WSL 2")
