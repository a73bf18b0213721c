"""From Python source to LLVM code, by numba: the steps before the optimiser, which are the same for every processor.

Importing this file imports numba, so only code that compiles does.

A function is lowered once per process for each list of argument types (`lowered`), into a text of its own, by the parts
of numba that our code needs (`numba_target.py`). A module is the texts of all functions that its entry points reach.
All but the entry points are internal to it. So a function that many routines call costs what one of them would.
"""

import gc
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir as llvm_ir
from numba.core import bytecode, callconv, funcdesc, interpreter, ir, types, typing
from numba.core.compiler import Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import type_inference_stage

from shmcoll.engine.compiler.numba_target import Lowered, OurLower, Target, Typing, identity
from shmcoll.engine.system.text import to_bytes


class Module(NamedTuple):
    """LLVM code that is not optimised. libraries: what numba has compiled of users for it."""

    text: str
    libraries: list[Any]


def module(functions: dict[str, tuple[Callable[..., int], int]]) -> Module:
    """Return an LLVM module that defines `{symbol: (function, number of arguments)}` and all they call. Every argument
    and result of these is a 64-bit word."""
    entries, word = [], types.int64
    defined: dict[str, str] = {}
    with global_compiler_lock, _without_collection():
        for symbol, (function, arity) in functions.items():
            entry = lowered(function, (word,) * arity, word)
            entries.append(entry)
            arguments = ", ".join(f"i64 %a{i}" for i in range(arity))
            call = f'  %result = call i64 @"{entry.name}"({arguments})\n  ret i64 %result'
            defined[symbol] = f'define i64 @"{symbol}"({arguments}) {{\n{call}\n}}\n'
    used = list(_reached(entries))
    declared: dict[str, str] = {}
    for one in used:
        for name, text in one.texts.items():
            known = (declared if text.startswith("declare") else defined).setdefault(name, text)
            assert known == text, f"two things are called {name}"
    texts = [text for name, text in declared.items() if name not in defined]
    return Module("\n".join([*texts, *defined.values()]), [library for one in used for library in one.libraries])


def _reached(entries: list[Lowered]) -> Iterator[Lowered]:
    seen, todo = set(), entries[::-1]
    while todo:
        one = todo.pop()
        if one.name not in seen:
            seen.add(one.name)
            yield one
            todo += reversed(one.calls)


_SELF = "self"  # the name of a function until its text is known
_lowered: dict[Any, Lowered] = {}


def lowered(function: Any, arguments: tuple[Any, ...], result: Any = None) -> Lowered:
    """Return a function for these types of arguments, and of its result if given."""
    key = identity(function), arguments, result
    if key not in _lowered:
        _lowered[key] = _lower(function, arguments, result)
    return _lowered[key]


def _lower(function: Any, arguments: tuple[Any, ...], result: Any) -> Lowered:
    target, flags = _target()
    known = bytecode.FunctionIdentity.from_function(function)
    code = interpreter.Interpreter(known).interpret(bytecode.ByteCode(known))
    _separate_constants(code)
    typemap, returned, calltypes, _ = type_inference_stage(target.typing_context, target, code, arguments, result)
    described = funcdesc.PythonFunctionDescriptor.from_specialized_function(
        code, typemap, returned, calltypes, lambda *_, **__: _SELF, inline=False, noalias=False, abi_tags=()
    )
    here = target.subtarget(calls=[], libraries=[])
    library = _Library()
    with ConfigStack().enter(flags):
        OurLower(here, library, described, code).lower()
    name, texts = _named(f"{function.__module__}.{function.__qualname__}", _texts(library.module))
    return Lowered(name, typing.signature(returned, *arguments), texts, here.calls, here.libraries)


def _named(prefix: str, texts: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Give a function its name. It has a hash of what the function is made of, the names of its callees included. So
    functions with one name are equal, and a name does not depend on what the process has lowered before."""
    digest = hashlib.blake2b(to_bytes("".join(texts.values())), digest_size=8).hexdigest()
    name = f"{prefix.removeprefix('shmcoll.')}.{digest}"
    texts[name] = texts.pop(_SELF).replace(f'@"{_SELF}"', f'@"{name}"', 1)
    return name, texts


class _Library:
    """Takes the module that numba makes of a function."""

    module: Any

    def create_ir_module(self, name: str) -> Any:
        self.module = llvm_ir.Module(name)
        return self.module

    def add_ir_module(self, _module: Any) -> None:
        pass


def _texts(made: Any) -> dict[str, str]:
    """Return the definitions and declarations of a module by name. Metadata have numbers, which are made from what they
    say, so that those of two modules go together."""
    contents = [str(value).partition(" = ")[2].strip() for value in made.metadata]
    numbers = [f"!{zlib.crc32(to_bytes(content))}" for content in contents]
    texts = {number: f"{number} = {content}" for number, content in zip(numbers, contents, strict=True)}
    for value in made.global_values:
        if isinstance(value, llvm_ir.Function) and not value.is_declaration:
            value.linkage = "internal"
            if "noinline" not in value.attributes:
                value.attributes.add("inlinehint")  # else the checks of the entry stay calls: 2 to 3 % of a short call
        texts[value.name] = re.sub(r"!(\d+)\b", lambda found: numbers[int(found[1])], str(value))
    return texts


@cache
def _target() -> tuple[Target, Any]:
    target = Target(Typing(lowered))
    flags: Any = Flags()
    flags.error_model = "numpy"
    target = target.subtarget(error_model=callconv.create_error_model("numpy", target))
    target.refresh()
    return target, flags


def _separate_constants(code: Any) -> None:
    """Give a constant that is assigned to a variable a name of its own. Else numba takes its type for the variable's,
    which other values do not have."""
    for label, block in code.blocks.items():
        for i, assigned in reversed(list(enumerate(block.body))):
            if (
                isinstance(assigned, ir.Assign)
                and isinstance(assigned.value, (ir.Const, ir.Global, ir.FreeVar))
                and not assigned.target.name.startswith("$")
            ):
                constant = ir.Var(block.scope, f"$constant.{label}.{i}", assigned.loc)
                block.body[i : i + 1] = [
                    ir.Assign(assigned.value, constant, assigned.loc),
                    ir.Assign(constant, assigned.target, assigned.loc),
                ]


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep the garbage collector off in the block: numba makes many objects, which it would search again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
