"""From source to an address: compile once per machine, into object files, and load them.

A routine or kernel is compiled with numba, optimised, and emitted as an object file whose only public symbols are its
entry points; `object_cache.py` keeps it. A later process loads it in a millisecond (`object_loader.py`): numba and
llvmlite are imported only to compile. Kernels around functions of users are compiled in each process and not kept: the
name of a file cannot represent everything that such a function depends on.

Neither numba, while it is imported or compiles, nor llvmlite survives an exception from a signal handler. So all code
that enters them defers signals (`deferral.py`). An interrupt is raised as soon as they are done, and the call that was
interrupted can be repeated.
"""

import ctypes
import platform
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from shmcoll.engine.collective import COUNTS, Collective
from shmcoll.engine.compiler import object_loader
from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.compiler.half_floats import DEFINITIONS
from shmcoll.engine.compiler.levels import Level
from shmcoll.engine.compiler.object_cache import Progress, object_file
from shmcoll.engine.kernels import kernels
from shmcoll.engine.kernels.dtypes import DTYPES, PAIRS, REDUCTIONS, DType
from shmcoll.engine.native import array_allocator, entry, entry_counts, jit_gate

if TYPE_CHECKING:
    from shmcoll.engine.compiler.lowering import Module

Functions = dict[str, tuple[Callable[..., int], int]]  # symbol: function, number of arguments


def routine_functions(record: Collective) -> Functions:
    """Return the two entry points (fast, plain) of the routine of a collective."""
    make_entry = entry_counts.make_entry if record.form & COUNTS else entry.make_entry
    return {
        f"{record.name}_fast": (make_entry(record.routine, record), 3),
        f"{record.name}_plain": (entry.make_plain(record.routine, record), 2),
    }


def gate_functions() -> Functions:
    """Return the gate for jitted code."""
    return {"gate": (jit_gate.gate, 2)}


def allocator_functions() -> Functions:
    """Return the functions by which numpy allocates arrays in shared memory."""
    return {f"array_{name}": entry for name, entry in array_allocator.FUNCTIONS.items()}


def kernel_functions(dtype: DType, reduction: str) -> Functions:
    """Return the reduce kernel of a pair; the pair must have one (`kernels.has_kernel`)."""
    return {f"{reduction}_{dtype.name}": (kernels.make_kernel(dtype, reduction), 6)}


def load_routine(record: Collective, progress: Progress | None = None) -> tuple[int, int]:
    """Return the addresses of the two entry points (fast, plain) of the routine of a collective."""
    fast, plain = _load(record.name, lambda: routine_functions(record), progress)
    return fast, plain


def load_gate(progress: Progress | None = None) -> int:
    """Return the address of the gate for jitted code."""
    (address,) = _load("gate", gate_functions, progress)
    return address


def load_allocator(progress: Progress | None = None) -> tuple[int, ...]:
    """Return the addresses of the functions of `array_allocator.py`."""
    return _load("array_allocator", allocator_functions, progress)


def load_functions(name: str, make: Callable[[], Functions], progress: Progress | None = None) -> tuple[int, ...]:
    """Return the addresses of the functions that `make` returns. `object_cache.py` knows the sources of this name."""
    return _load(name, make, progress)


def load_kernel(dtype: DType, reduction: str, progress: Progress | None = None) -> int:
    """Return the address of the reduce kernel of a pair; the pair must have one."""
    (address,) = _load(f"{reduction}_{dtype.name}", lambda: kernel_functions(dtype, reduction), progress)
    return address


@deferred_signals()
def result_type(dtype: DType, function: Any) -> Any:
    """Return the numba type of the result of a jitted function for two values of a dtype. Compiles it if necessary."""
    from numba.core import types
    from numba.np.numpy_support import from_dtype

    from shmcoll.engine.compiler.intrinsics import compiled_for

    return types.unliteral(compiled_for(function, (from_dtype(dtype.accumulator),) * 2).signature.return_type)


@deferred_signals()
def load_function_kernel(dtype: DType, function: Any) -> int:
    """Return the address of a reduce kernel around a numba-jitted function of two values.

    Raises numba's errors for a function that does not compile for the dtype, and `ImportError` for one that needs
    symbols which this process does not have.
    """
    import llvmlite.binding as llvm

    result_type(dtype, function)  # first: compiled by the kernel, it would divide by zero as our own code does
    name = f"function_{dtype.name}"
    module = optimised_module({name: (kernels.make_function_kernel(dtype, function), 6)})
    needed = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    missing = [symbol for symbol in needed if llvm.address_of_symbol(symbol) is None]
    if missing:  # the loader would end the process
        raise ImportError(f"it needs {', '.join(missing)}")
    (address,) = _place_by_llvm(_target_machine().emit_object(module), (name,))
    return address


_loaded: dict[str, tuple[int, ...]] = {}


def is_loaded(name: str) -> bool:
    """Return whether the routine of a collective of this name has been loaded."""
    return name in _loaded


def _load(name: str, make: Callable[[], Functions], progress: Progress | None) -> tuple[int, ...]:
    if name not in _loaded:
        functions = make()
        _loaded[name] = _place(object_file(name, lambda: emitted(functions), progress), tuple(functions))
    return _loaded[name]


def _place(data: bytes, symbols: tuple[str, ...]) -> tuple[int, ...]:
    """Load an object file for as long as the process lives. Returns the addresses of its symbols."""
    return object_loader.place(data, symbols) or _place_by_llvm(data, symbols)


@deferred_signals()
def _place_by_llvm(data: bytes, symbols: tuple[str, ...]) -> tuple[int, ...]:
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    # The engine owns the code, by which numpy frees arrays even after the interpreter has dropped this module
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    addresses = tuple(engine.get_function_address(s) for s in symbols)
    if not all(addresses):
        raise ImportError(f"compiled code has not all of {', '.join(symbols)}")
    return addresses


# --- compiling --------------------------------------------------------------------------------------------------------


@cache
def _target_machine(level: Level | None = None) -> Any:
    """Return the target: this machine, or all machines of a level. It has the large code model with absolute addresses,
    because the loader places each section of an object wherever the system decides. With the arena mapped in between,
    sections can be more than 2 GiB apart, which other models cannot address.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    cpu = level.cpu if level else llvm.get_host_cpu_name()
    features = level.features if level else llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="static", codemodel="large")


def emitted(functions: Functions, level: Level | None = None, module: "Module | None" = None) -> bytes:
    """Return an object file with one public symbol for each function. module: the result of `lowering.module`."""
    return _target_machine(level).emit_object(optimised_module(functions, level, module))


def _has_half_floats(level: Level | None) -> bool:
    """Return whether the processor converts float16 by itself."""
    import llvmlite.binding as llvm

    features = level.needs if level else {name for name, has in llvm.get_host_cpu_features().items() if has}
    return platform.machine() == "aarch64" or "f16c" in features


def optimised_module(functions: Functions, level: Level | None = None, module: "Module | None" = None) -> Any:
    """Return the optimised LLVM module of `{symbol: (function, number of arguments)}`. All other symbols are internal
    to it."""
    import llvmlite.binding as llvm

    if module is None:
        from shmcoll.engine.compiler import lowering

        module = lowering.module(functions)
    linked = llvm.parse_assembly(module.text)
    linked.triple, linked.data_layout = llvm.get_process_triple(), str(_target_machine(level).target_data)
    for library in module.libraries:
        linked.link_in(library._get_module_for_linking(), preserve=True)
    for value in (*linked.functions, *linked.global_variables):
        if not value.is_declaration and value.name not in functions:
            value.linkage = "internal"
    if re.search(r"\bhalf\b", module.text) and not _has_half_floats(level):
        linked.link_in(llvm.parse_assembly(DEFINITIONS))
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(_target_machine(level), options)
    builder.getModulePassManager().run(linked, builder)
    return linked


def all_kernels() -> list[tuple[DType, str]]:
    """Return every pair of dtype and reduction that has a kernel."""
    return [(d, r) for d in (*DTYPES, *PAIRS) for r in REDUCTIONS if kernels.has_kernel(d, r)]


if not hasattr(ctypes.CDLL(None), "sem_clockwait"):
    raise ImportError("shmcoll needs Linux with glibc 2.30 or later; on other systems use a container or WSL 2")
