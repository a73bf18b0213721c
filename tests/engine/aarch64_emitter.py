"""Emit machine code for aarch64 on any machine: `aarch64_emitter.py [--inline-assembly] NAME...`

Nothing of that code runs here.

A name is an operation, `gate`, `reduction_dtype` of a kernel, or `small_functions`, which prints their assembly too.
A line is printed for each object file: the name, the machine that it is for, the bytes of code.
`--inline-assembly` puts the fault back that this must find: `pause` as inline assembly.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import llvmlite.binding as llvm

from tests.support.pretend_aarch64 import pretend


def seed_inline_assembly() -> None:
    from llvmlite import ir

    from shmcoll.engine.compiler import intrinsics

    usual = intrinsics._call

    def call(builder: Any, module: Any, name: str, result: Any, *arguments: Any) -> Any:
        if name == "llvm.aarch64.isb":
            return builder.asm(ir.FunctionType(ir.VoidType(), []), "isb", "~{memory}", [], True)
        return usual(builder, module, name, result, *arguments)

    intrinsics._call = call


def emit(names: list[str]) -> None:
    """Emit each of them as a process does that finds nothing in the cache."""
    from shmcoll.collectives import RECORDS
    from shmcoll.engine.compiler import compile as code
    from shmcoll.engine.kernels.dtypes import BY_CODE
    from shmcoll.engine.native import profile_calls, tensor_entry

    def place(data: bytes, symbols: tuple[str, ...]) -> tuple[int, ...]:
        machine = int.from_bytes(data[18:20], "little")  # of the ELF header
        sections = llvm.ObjectFileRef.from_data(data).sections()
        print(name, machine, sum(s.size() for s in sections if s.is_text()), flush=True)
        return (0,) * len(symbols)

    code.object_file = lambda _name, build, _progress: build()
    code._place = place
    dtypes = {d.name: d for d in BY_CODE.values()}
    for name in names:
        if name == "small_functions":
            emit_small_functions()
        elif name == "gate":
            code.load_gate()
        elif name == "array_allocator":
            code.load_allocator()
        elif name in (tensor_entry.NAME, profile_calls.NAME):
            code.load_functions(name, (tensor_entry if name == tensor_entry.NAME else profile_calls).functions)
        elif name in RECORDS:
            code.load_routine(RECORDS[name])
        else:
            reduction, _, dtype = name.partition("_")
            code.load_kernel(dtypes[dtype], reduction)


def emit_small_functions() -> None:
    from shmcoll.engine.compiler import compile as code
    from tests.engine import small_functions

    functions = {name: (getattr(small_functions, name), arity) for name, arity in small_functions.ARITIES.items()}
    module = code.optimised_module(functions)
    code._place(code._target_machine().emit_object(module), ())
    print(code._target_machine().emit_assembly(module))


if __name__ == "__main__":
    pretend()
    wanted = sys.argv[1:]
    if wanted[0] == "--inline-assembly":
        seed_inline_assembly()
        del wanted[0]
    emit(wanted)
