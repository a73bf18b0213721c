"""Reductions that are objects: functions of users (`shmcoll.op`), and sums with a factor (`shmcoll.premul_sum`).

A user's function is jitted by numba and called by a kernel of its own for each dtype (`kernels.make_function_kernel`).
All ranks must use the same function: the header has a hash of its bytecode, its constants and what it refers to.
"""

import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.compiler.enabled_jit import enabled_jit
from shmcoll.engine.compiler.known_functions import how_to_make_an_operator, name_of_function
from shmcoll.engine.kernels.dtypes import BY_CODE, BY_NUMPY, PREMUL_SUM, REDUCTION_NAMES, USER, DType
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import shown, to_bytes
from shmcoll.engine.system.tracebacks import border

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # numba writes in colours if it finds colorama


@border
def op(function: Callable[[Any, Any], Any], commutative: bool = True, *, dtypes: Iterable[Any] | None = None) -> "Op":
    """Make an operator from a function, for `op=` of the reducing collectives. Not a collective.

    All ranks must use the same function: else the collective raises `CollectiveMismatch`. If the function raises an
    exception, the ranks that called it with those values raise that exception. The other ranks raise `RankFailed` with
    its text, and the group has ended.

    Args:
        function: an associative function of two values; a plain function, or one jitted by numba, whose options are
            kept. It is called with scalars of the array's dtype, the value of the lower ranks first. For float16 and
            bfloat16 it is called with float32, and the result is rounded once. Its result is converted to the dtype.
        commutative: False if operands must be combined strictly in the order of ranks.
        dtypes: compile for these now. For others it is compiled when first used, which takes about half a second.

    Returns:
        The operator. Calling it calls the function.

    Raises:
        TypeError: the function does not take two values, or does not compile for one of `dtypes`; without `dtypes`, it
            compiles for neither float64 nor int64.

    Example:
        >>> larger = shmcoll.op(lambda a, b: a if abs(a) > abs(b) else b)
        >>> comm.all_reduce(np.array([-2.0, 1.0]), larger)
        array([-2.,  1.])
    """
    return Op(function, commutative, dtypes)


@border
def premul_sum(factor: float | complex) -> "PremulSum":
    """Make an operator that sums every rank's `x` times a factor of its own, for `op=` of the reducing collectives.

    For integer arrays the factor is an integer, and results wrap. float16 and bfloat16 are multiplied and summed in
    float32, and rounded once. A collective with this operator raises `TypeError` for a bool array, for an integer array
    if the factor is not an integer, and for a real array if the factor is complex.

    Args:
        factor: a number, which may differ between ranks.

    Returns:
        The operator.

    Raises:
        TypeError: `factor` is not a number.

    Example:
        >>> comm.all_reduce(np.ones(2), shmcoll.premul_sum(1 / comm.size))
        array([1., 1.])
    """
    return PremulSum(factor)


class Op:
    """A user's function as an operator; see `op`. Calling it calls the function in Python."""

    def __init__(
        self, function: Callable[[Any, Any], Any], commutative: bool = True, dtypes: Iterable[Any] | None = None
    ):
        with deferred_signals(), enabled_jit():  # numba cannot be imported again after an interrupt
            from numba.core.registry import CPUDispatcher

        if known := name_of_function(function):
            raise TypeError(f"op: {function!r} is the reduction {known!r}; pass op={known!r}, or the function itself")
        if not isinstance(function, (FunctionType, CPUDispatcher)):
            hint = f"; {how_to_make_an_operator(function)}" if callable(function) else ""
            raise TypeError(
                f"op: must be a Python function of two values or one jitted by numba, got {shown(function)}{hint}"
            )
        self.function: Callable[[Any, Any], Any] = getattr(function, "py_func", function)
        self.name = self.function.__name__
        self.commutative = bool(commutative)
        self._given = function
        self._jitted: Any = function if isinstance(function, CPUDispatcher) else _jit(function)
        self._kernels: dict[int, int] = {}
        self._check(dtypes)
        self.identity = _identity(function, self.commutative)
        _by_identity[self.identity] = self

    def __call__(self, a: Any, b: Any) -> Any:
        return self.function(a, b)

    def __repr__(self) -> str:
        return f"<shmcoll.Op {self.name}{'' if self.commutative else ', not commutative'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Op, (self._given, self.commutative)

    def kernel(self, dtype: DType) -> int:
        """Return the address of the kernel for a dtype. Raises `TypeError` if the function does not compile for it."""
        if dtype.code not in self._kernels:
            if dtype.is_pair:
                raise TypeError(f"{self.name} of {dtype.title} is not defined")
            try:
                with deferred_signals(), enabled_jit():
                    _check_result(self._jitted, dtype)
                    address = code.load_function_kernel(dtype, self._jitted)
            except Exception as e:
                reraise_of_handler(e)
                raise TypeError(f"{self.name} does not compile for {dtype.name}: {_short(e)}") from e
            self._kernels[dtype.code] = address
            _by_kernel[address] = self
        return self._kernels[dtype.code]

    def raised(self, a: Any, b: Any) -> BaseException:
        """Return the exception that the function raises for two values for which its compiled form has raised one."""
        try:
            self.function(a, b)
        except BaseException as e:
            return e
        return RuntimeError(f"{self.name}({a!r}, {b!r}) raised an exception in compiled code, but not in Python")

    def _check(self, dtypes: Iterable[Any] | None) -> None:
        try:
            inspect.signature(self.function).bind(0, 0)
        except TypeError as e:
            reraise_of_handler(e)
            raise TypeError(f"op: {self.name} cannot be called with two values: {e}") from None
        if dtypes is not None:
            for wanted in dtypes:
                dtype = np.dtype(wanted)
                if dtype not in BY_NUMPY:
                    raise TypeError(f"op: dtype {dtype} is not supported")
                self.kernel(BY_NUMPY[dtype])
            return
        reasons = []
        for dtype in (np.dtype(np.float64), np.dtype(np.int64)):
            try:
                with deferred_signals(), enabled_jit():
                    _check_result(self._jitted, BY_NUMPY[dtype])
                return
            except Exception as e:
                reraise_of_handler(e)
                reasons.append(f"for {dtype}: {_short(e)}")
        raise TypeError(f"op: {self.name} does not compile; {'; '.join(reasons)}")


class PremulSum:
    """A sum of multiples; see `premul_sum`."""

    def __init__(self, factor: Any):
        if isinstance(factor, (np.generic, np.ndarray)) and factor.ndim == 0:
            factor = factor.item()
        if isinstance(factor, bool) or not isinstance(factor, (int, float, complex)):
            raise TypeError(f"premul_sum: the factor must be a number, got {shown(factor)}")
        self.factor: Any = factor

    def __repr__(self) -> str:
        return f"<shmcoll.PremulSum {self.factor}>"

    def check(self, dtype: DType) -> None:
        """Raise `TypeError` for a dtype that cannot be multiplied by the factor."""
        if dtype.is_pair or dtype.name == "bool":
            raise TypeError(f"premul_sum of {dtype.title} is not defined")
        if dtype.numpy.kind in "iu" and not isinstance(self.factor, int):
            raise TypeError(f"premul_sum of {dtype.name} takes an integer factor, got {shown(self.factor)}")
        if dtype.numpy.kind != "c" and isinstance(self.factor, complex):
            raise TypeError(f"premul_sum of {dtype.name} takes a real factor, got {shown(self.factor)}")
        if dtype.numpy.kind not in "iu" and isinstance(self.factor, int):
            try:
                complex(self.factor)
            except OverflowError:
                raise TypeError(f"premul_sum of {dtype.name} takes a factor that a float can hold") from None

    def times(self, array: np.ndarray, dtype: DType) -> np.ndarray:
        """Return the multiple of an array, in the accumulator's type. Integers wrap."""
        wide = dtype.accumulator
        if wide.kind in "iu":
            factor = np.asarray(self.factor % (1 << 8 * wide.itemsize), f"u{wide.itemsize}").view(wide)
        else:
            factor = np.asarray(self.factor, wide)
        with np.errstate(all="ignore"):
            return np.asarray(np.multiply(array.astype(wide), factor))


# --- what messages say ------------------------------------------------------------------------------------------------

_by_identity: WeakValueDictionary[int, Op] = WeakValueDictionary()
_by_kernel: dict[int, Op] = {}


def reduction_name(reduction: int, identity: int) -> str:
    """Return the name of a reduction in messages, from the words of a header about it."""
    name = REDUCTION_NAMES.get(reduction, str(reduction))
    if reduction == USER:
        known = _by_identity.get(identity)
        if known is None:
            return f"another function ({identity:x})"
        return known.name if known.commutative else f"{known.name} (not commutative)"
    if reduction == PREMUL_SUM and identity in BY_CODE and BY_CODE[identity].accumulator != BY_CODE[identity].numpy:
        return f"{name} of {BY_CODE[identity].name}"  # the header describes the multiple
    return name


def of_kernel(address: int) -> Op:
    """Return the operator whose kernel is at an address."""
    return _by_kernel[address]


# --- compiling --------------------------------------------------------------------------------------------------------


def _jit(function: FunctionType) -> Any:
    with deferred_signals(), enabled_jit():
        import numba

        return numba.njit(function)


def _check_result(jitted: Any, dtype: DType) -> None:
    """Compile for the types of a dtype. Raises `TypeError` if the result is not a number, and for a function that calls
    the interpreter: numba returns from such a call with the GIL, and nobody would give it back."""
    import llvmlite.binding as llvm
    from numba.core import types
    from numba.np.numpy_support import from_dtype

    from shmcoll.engine.compiler.intrinsics import compiled_for

    result = code.result_type(dtype, jitted)
    if not isinstance(result, (types.Number, types.Boolean)):
        raise TypeError(f"its result is {result}, which is not a number")
    if isinstance(result, types.Complex) and dtype.numpy.kind != "c":
        raise TypeError(f"its result is {result}, which does not convert to {dtype.name}")
    with deferred_signals():
        library = compiled_for(jitted, (from_dtype(dtype.accumulator),) * 2).library
        bodies = [one for one in llvm.parse_assembly(library.get_llvm_str()).functions if not one.is_declaration]
    wrappers = ("_ZN7cpython", "cfunc.")  # they report what the function raises
    if any("@numba_gil_ensure" in str(one) for one in bodies if not one.name.startswith(wrappers)):
        raise TypeError("it calls the interpreter, as print does, which is not possible in a collective; take that out")


def _short(error: Exception) -> str:
    """Return the essence of a text of numba: the first line with a reason, and the call that it is about."""
    lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines()]
    telling = [line for line in lines if line and not line.startswith("Failed in ")] or [type(error).__name__]
    reason = telling[0]
    if reason.endswith(":") and len(telling) > 1:
        reason += f" {telling[1].removeprefix('>>>').strip()}"
    if "numba" in sys.modules and sys.modules["numba"].config.DISABLE_JIT:
        reason += " (NUMBA_DISABLE_JIT is set, so functions that it calls are not jitted: unset it)"
    return reason


def _identity(function: Any, commutative: bool) -> int:
    """Return 62 bits that are the same for the same function in every process."""
    digest = hashlib.blake2b(to_bytes(repr(commutative)), digest_size=8)
    for fact in _facts(function, set()):
        digest.update(to_bytes(fact) + b"\0")
    return int.from_bytes(digest.digest(), "little") >> 2


def _facts(thing: Any, seen: set[int]) -> Iterable[str]:
    """Return what defines a function, or a value that it refers to, without its address and its process."""
    if id(thing) in seen:
        return
    if options := getattr(thing, "targetoptions", None):
        yield repr(sorted((name, repr(value)) for name, value in options.items()))
    thing = getattr(thing, "py_func", thing)
    if isinstance(thing, FunctionType):
        seen.add(id(thing))
        yield from _facts(thing.__code__, seen)
        yield from _facts(thing.__defaults__, seen)
        for cell in thing.__closure__ or ():
            yield from _facts(cell.cell_contents, seen)
        for name in thing.__code__.co_names:
            if name in thing.__globals__:
                yield from _facts(thing.__globals__[name], seen)
    elif isinstance(thing, CodeType):
        yield f"{thing.co_name} {thing.co_names} {thing.co_code.hex()}"
        for constant in thing.co_consts:
            yield from _facts(constant, seen)
    elif isinstance(thing, np.ndarray):
        yield f"{thing.dtype} {thing.shape} {hashlib.sha256(thing.tobytes()).hexdigest()}"
    elif isinstance(thing, (tuple, list)):
        for one in thing:
            yield from _facts(one, seen)
    elif isinstance(thing, (set, frozenset)):
        yield repr(sorted(map(repr, thing)))
    elif thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic)):
        yield f"{type(thing).__name__} {thing!r}"
    elif isinstance(thing, ModuleType):
        yield thing.__name__
    else:
        yield f"{type(thing).__qualname__} {getattr(thing, '__qualname__', '')}"
