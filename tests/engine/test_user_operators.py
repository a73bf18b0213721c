"""Operators as objects: what is refused and in which words, kernels around functions, who recognises whose function."""

import ctypes
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import shmcoll
from shmcoll.engine.compiler.user_operators import of_kernel, reduction_name
from shmcoll.engine.kernels import kernels
from shmcoll.engine.kernels.dtypes import BY_CODE, BY_NAME, DTYPES, PAIR_CODES, PAIRS, PREMUL_SUM, REDUCTIONS, USER
from shmcoll.engine.kernels.kernels import FINISH, START, STEP, STORE
from shmcoll.engine.native.tables import DTYPE_CODES, REDUCTION_CODES

GLOBAL = 3


def weighted(a, b):
    return a + b * GLOBAL


def quotient(a, b):
    return a // b


def picky(a, b):
    if b == 4:
        raise ValueError("four")
    return a + b


def test_codes_fit_the_tables() -> None:
    codes = [*REDUCTIONS.values(), PREMUL_SUM, USER]
    assert len(set(codes)) == len(codes)
    assert max(codes) < REDUCTION_CODES
    assert max(BY_CODE) < DTYPE_CODES
    assert len(BY_CODE) == len(DTYPES) + len(PAIRS)


# --- registration -----------------------------------------------------------------------------------------------------


def no_numbers(a, b):
    return a, b


def nothing(a, b):
    pass


def one_argument(a):
    return a


def unknown_name(a, b):
    return a + missing  # type: ignore[name-defined] # noqa: F821


@numba.njit
def told(a):
    print(a)
    return a


def told_and_added(a, b):
    return told(a) + b


def in_python(a, b):
    with numba.objmode(c="float64"):
        c = float(str(a))
    return c + b


def bits_and_pieces(a, b):
    return (a & b) + a.real.foo


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no function": (
        lambda: shmcoll.op(3),
        r"op: must be a Python function of two values or one jitted by numba, got 3",
    ),
    "builtin": (
        lambda: shmcoll.op(pow),
        r"op: must be a Python function .*make an operator of it: shmcoll.op\(lambda a, b: pow\(a, b\)\)",
    ),
    "ufunc": (
        lambda: shmcoll.op(np.hypot),
        r"got <ufunc 'hypot'>; make an operator of it: shmcoll.op\(lambda a, b: numpy.hypot\(a, b\)\)",
    ),
    "reduction": (lambda: shmcoll.op(max), r"op: <built-in function max> is the reduction 'max'; pass op='max'"),
    "one argument": (lambda: shmcoll.op(one_argument), r"op: one_argument cannot be called with two values: too many"),
    "tuple": (
        lambda: shmcoll.op(no_numbers),
        r"op: no_numbers does not compile; for float64: its result is .*not a number",
    ),
    "nothing": (lambda: shmcoll.op(nothing), r"op: nothing does not compile; for float64: its result is none"),
    "name": (
        lambda: shmcoll.op(unknown_name),
        r"does not compile; for float64: NameError: name 'missing' is not defined",
    ),
    "print": (lambda: shmcoll.op(told_and_added), "does not compile; for float64: it calls the interpreter, as print"),
    "objmode": (lambda: shmcoll.op(in_python), "does not compile; for float64: it calls the interpreter, as print"),
    "both": (lambda: shmcoll.op(bits_and_pieces), r"and_\(float64, float64\); for int64: Unknown attribute 'foo'"),
    "asked dtype": (
        lambda: shmcoll.op(lambda a, b: a & b, dtypes=["int32", np.float32]),
        r"<lambda> does not compile for float32: No implementation of function .* and_\(float32, float32\)",
    ),
    "strange dtype": (lambda: shmcoll.op(weighted, dtypes=["U3"]), r"op: dtype <U3 is not supported"),
    "pairs": (lambda: shmcoll.op(weighted, dtypes=[shmcoll.pair_dtype("f4")]), "weighted of pair of float32 is not"),
    "complex result": (
        lambda: shmcoll.op(lambda a, b: a * 1j, dtypes=[float]),
        "complex128, which does not convert to",
    ),
    "other signature": (
        lambda: shmcoll.op(numba.njit("float64(float64, float64)")(quotient), dtypes=["int8"]),
        "quotient does not compile for int8: compilation disabled",
    ),
    "factor": (lambda: shmcoll.premul_sum("2"), "premul_sum: the factor must be a number, got '2'"),
    "bool factor": (lambda: shmcoll.premul_sum(True), "premul_sum: the factor must be a number, got True"),
    "pair of bool": (lambda: shmcoll.pair_dtype(bool), "pair_dtype: there are no pairs of bool; use one of int8, "),
    "pair of complex": (lambda: shmcoll.pair_dtype("c8"), "there are no pairs of complex64"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    make, text = REFUSED[what]
    with pytest.raises(TypeError, match=text):
        make()


def test_one_of_float64_and_int64_is_enough() -> None:
    both = shmcoll.op(lambda a, b: a & b)
    assert both.kernel(BY_NAME["uint16"])
    with pytest.raises(TypeError, match="<lambda> does not compile for float64: No implementation"):
        both.kernel(BY_NAME["float64"])


def test_pair_dtype() -> None:
    for pair in PAIRS:
        value = BY_CODE[pair.code - PAIR_CODES].numpy
        assert shmcoll.pair_dtype(value) is pair.numpy
        assert pair.numpy.names == ("value", "index")
        assert (pair.numpy["value"], pair.numpy["index"]) == (value, np.int64)
        assert pair.numpy.itemsize == 16
        assert pair.numpy.isalignedstruct
    assert len(PAIRS) == 12


# --- kernels ----------------------------------------------------------------------------------------------------------


def kernel_of(operator: Any, dtype: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(operator.kernel(dtype))


#: one of each kind; each is compiled, which takes a second
USUAL = {"bool", "int64", "bfloat16", "complex64"}


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=() if d.name in USUAL else pytest.mark.stress, id=d.name) for d in DTYPES]
)
def test_kernel_of_a_function(dtype: Any, seed: int) -> None:
    """All four modes and all aliases of FINISH against Python, and the template run as Python against both."""
    operator = shmcoll.op(weighted)
    chance = np.random.default_rng(seed)
    a, b, x = chance.integers(0, 5, (3, 21)).astype(dtype.numpy)
    plain = kernels.make_function_kernel(dtype, weighted)

    def python(kept: np.ndarray, new: np.ndarray) -> np.ndarray:
        wide = new.astype(dtype.accumulator)
        return np.array([weighted(p, q) for p, q in zip(kept.tolist(), wide.tolist(), strict=True)], dtype.accumulator)

    for kernel in (kernel_of(operator, dtype), plain):
        kept, out = np.zeros(21, dtype.accumulator), np.zeros(21, dtype.numpy)
        assert kernel(START, kept.ctypes.data, 0, a.ctypes.data, 21, 3) == 0
        assert kernel(STEP, 0, kept.ctypes.data, b.ctypes.data, 21, 3) == 0
        total = python(a.astype(dtype.accumulator), b)
        assert kept.tolist() == total.tolist()
        assert kernel(STORE, out.ctypes.data, kept.ctypes.data, 0, 21, 3) == 0
        assert out.tolist() == total.astype(dtype.numpy).tolist()
        wanted = python(total, x).astype(dtype.numpy).tolist()
        assert kernel(FINISH, out.ctypes.data, kept.ctypes.data, x.ctypes.data, 21, 3) == 0
        assert out.tolist() == wanted
        source = x.copy()
        assert kernel(FINISH, source.ctypes.data, kept.ctypes.data, source.ctypes.data, 21, 3) == 0
        assert source.tolist() == wanted
        if dtype.accumulator == dtype.numpy:
            assert kernel(FINISH, kept.ctypes.data, kept.ctypes.data, x.ctypes.data, 21, 3) == 0
            assert kept.tolist() == wanted


@pytest.mark.parametrize("mode", [STEP, FINISH])
@pytest.mark.parametrize("dtype", [BY_NAME[name] for name in ("int32", "float64", "float16")], ids=lambda d: d.name)
def test_a_function_that_raises_stops_at_the_element(mode: int, dtype: Any) -> None:
    kept, x = np.ones(9, dtype.accumulator), np.arange(9).astype(dtype.numpy)
    target = np.full(9, 7, dtype.numpy)
    for kernel in (kernel_of(shmcoll.op(picky), dtype), kernels.make_function_kernel(dtype, picky)):
        kept[:], target[:] = 1, 7
        assert kernel(mode, target.ctypes.data, kept.ctypes.data, x.ctypes.data, 9, 3) == 5
        assert (kept if mode == STEP else target).tolist() == [1, 2, 3, 4, *[1 if mode == STEP else 7] * 5]


def test_division_by_zero_raises_as_in_python() -> None:
    """Although our own code divides as numpy does."""
    a, b = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    assert (
        kernel_of(shmcoll.op(lambda a, b: a / b), BY_NAME["float64"])(STEP, 0, a.ctypes.data, b.ctypes.data, 2, 3) == 2
    )


def test_options_of_a_jitted_function_are_kept() -> None:
    operator = shmcoll.op(numba.njit(error_model="numpy")(lambda a, b: a / b))
    a, b = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    assert kernel_of(operator, BY_NAME["float64"])(STEP, 0, a.ctypes.data, b.ctypes.data, 2, 3) == 0
    assert a.tolist() == [1, np.inf]


def test_signatures_of_a_jitted_function_are_enough() -> None:
    operator = shmcoll.op(numba.njit("float64(float64, float64)")(weighted))
    a, b = np.array([1.0]), np.array([2.0])
    assert kernel_of(operator, BY_NAME["float64"])(STEP, 0, a.ctypes.data, b.ctypes.data, 1, 3) == 0
    assert a.tolist() == [7]


def test_functions_may_use_what_numba_links() -> None:
    """libm, and numba's own library."""
    operator = shmcoll.op(lambda a, b: np.hypot(a, b) + np.array([a, b]).sum() * 0 + 0 * a**b)
    a, b = np.array([3.0]), np.array([4.0])
    assert kernel_of(operator, BY_NAME["float64"])(STEP, 0, a.ctypes.data, b.ctypes.data, 1, 3) == 0
    assert a.tolist() == [5]


def test_kernels_are_made_once_and_found_by_their_address() -> None:
    operator = shmcoll.op(weighted)
    address = operator.kernel(BY_NAME["int64"])
    assert operator.kernel(BY_NAME["int64"]) == address
    assert of_kernel(address) is operator


def test_an_operator_can_be_called_and_pickled() -> None:
    operator = shmcoll.op(weighted, commutative=False)
    assert operator(1, 2) == 7
    again = pickle.loads(pickle.dumps(operator))
    assert (again.name, again.commutative, again.identity) == ("weighted", False, operator.identity)
    assert repr(again) == "<shmcoll.Op weighted, not commutative>"


def test_what_the_function_raises_is_found_again() -> None:
    operator = shmcoll.op(picky)
    assert repr(operator.raised(1, 4)) == "ValueError('four')"
    assert "picky(1, 3) raised an exception in compiled code, but not in Python" in str(operator.raised(1, 3))


# --- identity ---------------------------------------------------------------------------------------------------------


def test_identity_tells_functions_apart() -> None:
    def scaled(factor: Any) -> Callable[[Any, Any], Any]:
        return lambda a, b: a + factor * b

    table = np.arange(3.0)
    made = {
        "function": shmcoll.op(weighted),
        "order": shmcoll.op(weighted, commutative=False),
        "options": shmcoll.op(numba.njit(error_model="numpy")(weighted)),
        "constant": shmcoll.op(lambda a, b: a + 2 * b),
        "other constant": shmcoll.op(lambda a, b: a + 3 * b),
        "type of constant": shmcoll.op(lambda a, b: a + 3.0 * b),
        "operator": shmcoll.op(lambda a, b: a - 2 * b),
        "closure": shmcoll.op(scaled(2)),
        "other closure": shmcoll.op(scaled(3)),
        "array": shmcoll.op(lambda a, b: a + b * table[1]),
        "function in it": shmcoll.op(numba.njit(lambda a, b: a + b)),
    }
    identities = [o.identity for o in made.values()]
    assert len(set(identities)) == len(identities)
    assert all(0 <= i < 1 << 62 for i in identities)
    assert shmcoll.op(scaled(2)).identity == made["closure"].identity


def test_identity_covers_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    before = shmcoll.op(weighted).identity
    monkeypatch.setitem(globals(), "GLOBAL", 4)
    assert shmcoll.op(weighted).identity != before


def test_identity_is_the_same_in_every_process() -> None:
    """Whatever the order in which a process keeps the elements of sets of strings."""
    program = (
        "import math\n"
        "from shmcoll.engine.compiler.user_operators import _identity\n"
        "def f(a, b):\n"
        "    return a if 'x' in {'x', 'y', 'z', 'w'} else math.hypot(a, b)\n"
        "print(_identity(f, True))"
    )
    told = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        told.add(subprocess.check_output([sys.executable, "-c", program], env=environment, text=True))
    assert len(told) == 1


def test_names_in_messages() -> None:
    operator = shmcoll.op(weighted)
    assert reduction_name(USER, operator.identity) == "weighted"
    assert reduction_name(USER, 0xABC) == "another function (abc)"
    ordered = shmcoll.op(weighted, commutative=False)
    assert reduction_name(USER, ordered.identity) == "weighted (not commutative)"
    assert reduction_name(PREMUL_SUM, BY_NAME["float32"].code) == "premul_sum"
    assert reduction_name(PREMUL_SUM, BY_NAME["float16"].code) == "premul_sum of float16"
    assert reduction_name(REDUCTIONS["lxor"], 0) == "lxor"


# --- multiples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "factor", "text"),
    [
        ("int32", 0.5, "premul_sum of int32 takes an integer factor, got 0.5"),
        ("uint8", 2.0, "premul_sum of uint8 takes an integer factor, got 2.0"),
        ("float32", 1j, "premul_sum of float32 takes a real factor, got 1j"),
        ("bool", 1, "premul_sum of bool is not defined"),
    ],
)
def test_factors_that_do_not_fit(name: str, factor: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        shmcoll.premul_sum(factor).check(BY_NAME[name])


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.name != "bool"], ids=lambda d: d.name)
def test_multiples(dtype: Any) -> None:
    x = np.array([1, 2, 3, 100]).astype(dtype.numpy)
    for factor in (3, np.int16(-3)):
        operator = shmcoll.premul_sum(factor)
        operator.check(dtype)
        got = operator.times(x, dtype)
        assert got.dtype == dtype.accumulator
        with np.errstate(over="ignore"):
            assert got.tolist() == (x.astype(dtype.accumulator) * np.array(int(factor)).astype(got.dtype)).tolist()
    assert shmcoll.premul_sum(2).times(x[0], dtype).shape == ()
