"""The parts of numba that compile our functions, as a target of its own beside the one for functions of users.

Importing this file imports numba. Our functions raise nothing, own no objects, and mostly work on 64-bit words. So:

    calls      a function returns its result; numba's return a status, which every caller checks
    names      a function finds another by its Python object (`Native`); nothing is registered with numba
    variables  are neither counted nor cleared, and each has one place, not one for every assignment
    answers    of numba about types and operators are remembered; it would find each of them again

What numba knows about numbers, tuples and loops stays as it is. Its names here are its own parts, which most versions
since 0.61 have left as they are; one that has changed fails in each test that compiles.
"""

import inspect
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir as llvm_ir
from numba.core import callconv, cgutils, ir, types, typing
from numba.core.cpu import CPUContext
from numba.core.datamodel import models
from numba.core.lowering import Lower

from shmcoll.engine.compiler.intrinsics import TWINS


@dataclass(frozen=True)
class Lowered:
    """A function for certain types of arguments. texts: what defines it, by name; calls: the functions that it calls;
    libraries: those of users."""

    name: str
    signature: Any
    texts: dict[str, str]
    calls: "list[Lowered]"
    libraries: list[Any]


class Native(types.Callable, types.Opaque):
    """The type of one of our functions, or of one with a twin."""

    def __init__(self, function: Any):
        self.function = function
        self._identity = identity(function)
        super().__init__(f"native({function.__qualname__})")

    @property
    def key(self) -> Any:
        return self._identity

    def get_call_type(self, context: Any, arguments: Any, keywords: Any) -> Any:
        if twin := TWINS.get(self.function):
            return twin(*map(types.unliteral, arguments))[0]
        parameters = inspect.signature(self.function)
        folded = typing.fold_arguments(
            parameters,
            arguments,
            dict(keywords),
            lambda _index, _parameter, given: types.unliteral(given),
            lambda _index, _parameter, default: types.Omitted(default),
            lambda _index, _parameter, given: types.Tuple(given),
        )
        return context.lowered(self.function, tuple(folded)).signature.replace(pysig=parameters)

    def get_call_signatures(self) -> Any:
        return (), True

    def get_impl_key(self, _signature: Any) -> Any:
        return self.key


models.register_default(Native)(models.OpaqueModel)


def identity(function: Any) -> Any:
    """Return what closures with the same code and the same contents have in common."""
    if function in TWINS:
        return function
    contents = tuple(_content(cell.cell_contents) for cell in function.__closure__ or ())
    return function.__module__, function.__code__, contents, function.__defaults__


def _content(value: Any) -> Any:
    if isinstance(value, FunctionType):
        return identity(value)
    return type(value), repr(value) if isinstance(value, (float, complex, np.inexact)) else value  # NaN is not NaN


class Typing(typing.Context):
    """What numba knows about types. lowered: `lowering.lowered`."""

    def __init__(self, lowered: Any):
        self.lowered = lowered
        self._answers: dict[Any, Any] = {}
        super().__init__()

    def resolve_value_type(self, value: Any) -> Any:
        if isinstance(value, FunctionType) or value is min or value is max:
            return Native(value)
        return super().resolve_value_type(value)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        question = function, tuple(arguments), tuple(keywords.items() if isinstance(keywords, dict) else keywords)
        known = self._answers.get(question)
        if known is None:
            known = self._answers[question] = super().resolve_function_type(function, arguments, keywords)
        return known


class CallConv(callconv.BaseCallConv):
    """A function takes its arguments and returns its result."""

    def _make_call_helper(self, _builder: Any) -> None:
        return None

    def get_function_type(self, result: Any, arguments: Any) -> Any:
        packed = self._get_arg_packer(arguments).argument_types
        return llvm_ir.FunctionType(self.get_return_type(result).pointee, packed)

    def get_arguments(self, function: Any) -> Any:
        return function.args

    def decorate_function(self, function: Any, names: Any, argument_types: Any, noalias: bool = False) -> None:
        pass

    def return_value(self, builder: Any, value: Any) -> None:
        builder.ret(value)

    def return_user_exc(self, builder: Any, *_arguments: Any, **_options: Any) -> None:
        """Mark a place where numba would raise, as for a step of 0 in a range, as one that is never reached."""
        builder.unreachable()

    def call_function(self, builder: Any, callee: Any, result: Any, argument_types: Any, arguments: Any) -> Any:
        packed = self._get_arg_packer(argument_types).as_arguments(builder, arguments)
        return None, self.context.get_returned_value(builder, result, builder.call(callee, packed))


class Target(CPUContext):
    """How numba makes LLVM code. calls, libraries: what the function that is being lowered has called so far."""

    def init(self) -> None:
        super().init()
        self._implementations: dict[Any, Any] = {}
        self.calls: list[Lowered] = []
        self.libraries: list[Any] = []

    @property
    def call_conv(self) -> Any:
        return CallConv(self)

    def get_function(self, function: Any, signature: Any, _firstcall: bool = True) -> Any:
        if isinstance(function, Native):
            return lambda builder, arguments, loc=None: self._call(builder, function, signature, arguments)
        question = function, signature
        made = self._implementations.get(question)
        if made is None:
            made = self._implementations[question] = super().get_function(function, signature, _firstcall)._imp
        return lambda builder, arguments, loc=None: made(self, builder, signature, arguments, loc=loc)

    def _call(self, builder: Any, native: Native, signature: Any, arguments: Any) -> Any:
        if twin := TWINS.get(native.function):
            wanted, generate = twin(*signature.args)
            return generate(self, builder, wanted, arguments)
        return self._call_lowered(builder, self.typing_context.lowered(native.function, signature.args), arguments)

    def compile_internal(self, builder: Any, function: Any, signature: Any, arguments: Any, locals: Any = None) -> Any:
        """Call a Python function by which numba defines an operator, such as `in`."""
        callee = self.typing_context.lowered(function, signature.args, signature.return_type)
        return self._call_lowered(builder, callee, arguments)

    def _call_lowered(self, builder: Any, callee: Lowered, arguments: Any) -> Any:
        self.calls.append(callee)
        signature = callee.signature
        kind = self.call_conv.get_function_type(signature.return_type, signature.args)
        declared = cgutils.get_or_insert_function(builder.module, kind, callee.name)
        return self.call_conv.call_function(builder, declared, signature.return_type, signature.args, arguments)[1]

    def add_linking_libs(self, libraries: Any) -> None:
        assert not libraries, "numba has compiled this for its own target"

    def post_lowering(self, module: Any, library: Any) -> None:
        pass


class OurLower(Lower):
    """numba's last step, without what serves exceptions, objects and debuggers."""

    def emit_environment_object(self) -> None:
        pass

    def lower_block(self, block: Any) -> None:
        for instruction in block.body:
            self.loc = instruction.loc
            self.lower_inst(instruction)

    def lower_inst(self, instruction: Any) -> None:
        if isinstance(instruction, ir.Assign):
            name = instruction.target.name
            self.storevar(self.lower_assign(self.typeof(name), instruction), name)
        elif isinstance(instruction, (ir.Branch, ir.Jump, ir.Return)):
            super().lower_inst(instruction)
        else:
            raise NotImplementedError(f"{type(instruction).__name__} in {self.fndesc.qualname}, {instruction.loc}")

    def lower_binop(self, result: Any, expression: Any, operator: Any) -> Any:
        signature = self.fndesc.calltypes[expression]
        function = self.context.typing_context.resolve_value_type(operator)
        sides = [
            self.context.cast(self.builder, self.loadvar(side.name), self.typeof(side.name), wanted)
            for side, wanted in zip((expression.lhs, expression.rhs), signature.args, strict=True)
        ]
        value = self.context.get_function(function, signature)(self.builder, sides)
        return self.context.cast(self.builder, value, signature.return_type, result)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def debug_print(self, text: str) -> None:
        pass
