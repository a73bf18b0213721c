"""Convert what users pass into what routines read: exact, contiguous, aligned ndarrays. Or raise an error with the
reason.

Bad input is refused here, before anything is published.
"""

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shmcoll.calls.array_rules import check_apart, check_unmasked
from shmcoll.diagnostics.meant_call import of_op, with_objects
from shmcoll.engine.compiler.known_functions import how_to_make_an_operator, name_of_function
from shmcoll.engine.kernels.dtypes import BY_NAME, BY_NUMPY, REDUCTIONS, DType
from shmcoll.engine.kernels.element_marks import is_movable
from shmcoll.engine.kernels.kernels import has_kernel
from shmcoll.engine.layout import ANY, LARGEST_COUNT, LARGEST_TAG, MOST_DIMENSIONS
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import shown


def as_array(x: Any, operation: str, rank: int, name: str = "x") -> np.ndarray:
    """Return `x` as a C-contiguous, aligned ndarray in native byte order: `x` itself if it is one, otherwise a copy.

    Accepts arrays, anything with the buffer protocol, `__array__` or DLPack on the CPU, numbers and nested lists.
    Raises `TypeError` for an object that is not an array of a supported dtype. name: what the user calls it.
    """
    array = _as_native(x, operation, rank, name)
    if array.dtype not in BY_NUMPY:
        raise TypeError(f"{operation} on rank {rank}: {_about_dtype(array.dtype, operation, name)}")
    known = BY_NUMPY[array.dtype]
    array = np.require(array, requirements=["C", "A"])
    return array.view(known.numpy) if known.is_pair else array  # routines recognise pairs by the identity of the dtype


def as_moved(x: Any, operation: str, rank: int, name: str = "x") -> np.ndarray:
    """Do the same for an operation that only moves elements: their dtype may be any of fixed size."""
    array = _as_native(x, operation, rank, name)
    if array.dtype in BY_NUMPY:
        return as_array(array, operation, rank)
    check_movable(array, name, operation, rank)
    return np.require(array, requirements=["C", "A"])


def check_movable(array: np.ndarray, name: str, operation: str, rank: int) -> None:
    """Raise `TypeError` or `ValueError` for an array that cannot be sent as bytes."""
    if not is_movable(array.dtype):
        raise TypeError(
            f"{operation} on rank {rank}: {name} has dtype {array.dtype}, whose elements have no fixed size; for "
            f"objects use {with_objects(operation)}"
        )
    if array.dtype not in BY_NUMPY and array.ndim == MOST_DIMENSIONS:
        raise ValueError(
            f"{operation} on rank {rank}: {name} has {array.ndim} dimensions; of dtype {array.dtype} at most "
            f"{MOST_DIMENSIONS - 1} are possible"
        )


def _as_native(x: Any, operation: str, rank: int, name: str = "x") -> np.ndarray:
    check_unmasked(x, name, operation, rank)
    try:
        if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
            x = np.from_dlpack(x)
        array = np.asarray(x)
    except (TypeError, ValueError, BufferError, RuntimeError) as e:
        reraise_of_handler(e)
        raise TypeError(f"{operation} on rank {rank}: {name} is not an array: {type(x).__name__} ({e})") from e
    is_text = array.dtype.kind in "SU" and isinstance(x, (str, bytes, list, tuple)) and not isinstance(x, np.generic)
    if array.dtype.hasobject or is_text:
        raise TypeError(f"{operation} on rank {rank}: {_about_objects(x, array, operation, name)}")
    return array if array.dtype.isnative else array.astype(native(array.dtype))


def native(dtype: np.dtype) -> np.dtype:
    """Return a dtype in native byte order; for pairs of value and index, the dtype object that routines recognise."""
    same = dtype if dtype.isnative else dtype.newbyteorder("=")
    return BY_NUMPY[same].numpy if same in BY_NUMPY else same


def _about_objects(x: Any, array: np.ndarray, operation: str, name: str) -> str:
    """Return what is wrong with an `x` of which numpy makes an array of objects or strings, and what to do about it."""
    use = f"for Python objects use {with_objects(operation)}"
    if array.dtype.kind in "SU":
        if isinstance(x, (str, bytes)):
            return f"{name} is not an array: {type(x).__name__}; {use}"
        or_array = "" if operation in _REDUCING else f"; or pass np.array({name}), an array of strings"
        return f"{name} is a {type(x).__name__} that holds strings; {use}{or_array}"
    if array.size and all(isinstance(value, (int, np.integer)) for value in array.flat):
        return f"{name} holds an integer that 64 bits cannot hold; split it, or convert {name} to float64"
    if isinstance(x, np.ndarray) or array.ndim:
        held = ", ".join(sorted({type(value).__name__ for value in array.flat})) or "nothing"
        return f"{name} is an array of Python objects ({held}); {_conversion(array, operation, name)}{use}"
    if x is None:
        return f"{name} is not an array: NoneType; this rank sends, so it must pass an array; {use}"
    return f"{name} is not an array: {type(x).__name__}; pass an array or a number; {use}"


_REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v", "scan", "exscan")


def _conversion(array: np.ndarray, operation: str, name: str) -> str:
    """Return how an array of objects becomes an array of values, if it does."""
    if array.size and all(isinstance(value, str) for value in array.flat):
        return "" if operation in _REDUCING else f"convert it, as in np.array({name}, dtype=str); "
    try:
        array.astype(float)
    except Exception as error:
        reraise_of_handler(error)
        return ""
    return f"convert it, as in np.array({name}, dtype=float); "


def _about_dtype(dtype: np.dtype, operation: str, name: str) -> str:
    """Return what to do about an array of a dtype whose elements can be moved, but not reduced."""
    refused = f"dtype {dtype} cannot be reduced"
    if dtype.kind in "mM":
        return f"{refused}; reduce {name}.view('int64'), and view the result as {str(dtype)!r}"
    if dtype.kind in "fc":
        return f"{refused}; convert it, as in {name}.astype({'float64' if dtype.kind == 'f' else 'complex128'!r})"
    if dtype.names is not None:
        return (
            f"{refused}; make a call for each field, as of {name}[{dtype.names[0]!r}]; pairs of a value and its index "
            f"are of a shmcoll.pair_dtype"
        )
    if dtype.kind in "SUT":
        return f"{refused}; for Python objects use {with_objects(operation)}"
    return f"{refused}; use one of {', '.join(BY_NAME)}, or a shmcoll.pair_dtype"


def is_list_of_arrays(x: Any) -> bool:
    """Return whether `x` is a list or tuple that holds arrays. A list of numbers, or of lists of numbers, counts as one
    array."""
    return isinstance(x, (list, tuple)) and any(
        (hasattr(one, "__array__") or hasattr(one, "__dlpack__")) and not isinstance(one, np.generic) for one in x
    )


def as_list(values: Sequence[Any], size: int, operation: str, rank: int) -> list[np.ndarray]:
    """Return a list of n arrays of equal shape and dtype, each as `as_moved` returns it."""
    if len(values) != size:
        raise ValueError(f"{operation} on rank {rank}: x is a list of {len(values)} arrays for {size} ranks")
    arrays = [as_moved(one, operation, rank) for one in values]
    first = arrays[0]
    for i, array in enumerate(arrays):
        if array.dtype != first.dtype:
            raise TypeError(
                f"{operation} on rank {rank}: array {i} of x has dtype {array.dtype}, array 0 has {first.dtype}"
            )
        if array.shape != first.shape:
            raise ValueError(
                f"{operation} on rank {rank}: array {i} of x has shape {array.shape}, array 0 has {first.shape}"
                f"{_unequal(operation)}"
            )
    return arrays


def as_memory(out: Any) -> Any:
    """Return an array on the memory of `out`, if `out` is another object that shows its memory: by DLPack on the CPU,
    the array interface, or the buffer protocol. For a list it does so for each element. Other objects are returned as
    they are."""
    if out is None or isinstance(out, (np.ndarray, np.generic)):  # a numpy scalar shows only a copy
        return out
    if isinstance(out, (list, tuple)):
        views = [as_memory(one) for one in out]
        return out if all(view is one for view, one in zip(views, out, strict=True)) else views
    try:
        if hasattr(out, "__dlpack__"):
            return np.from_dlpack(out)
        return np.asarray(out if hasattr(out, "__array_interface__") else memoryview(out))
    except (TypeError, ValueError, BufferError, RuntimeError) as e:
        reraise_of_handler(e)
        return out


def as_output(
    out: Any, shape: tuple[int, ...], dtype: np.dtype, operation: str, rank: int, name: str = "out"
) -> np.ndarray:
    """Return `out` after checking that it fits the result. Raises `TypeError` or `ValueError` if it does not. name:
    what the user calls it."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{operation} on rank {rank}: {name} must be an array, got {type(out).__name__}")
    check_unmasked(out, name, operation, rank)
    if out.dtype != dtype:
        raise TypeError(f"{operation} on rank {rank}: {name} has dtype {out.dtype}, the result has {dtype}")
    if out.shape != shape:
        raise ValueError(f"{operation} on rank {rank}: {name} has shape {out.shape}, the result has {shape}")
    if not out.flags.writeable:
        raise ValueError(f"{operation} on rank {rank}: {name} is read-only")
    check_apart(out, name, operation, rank)
    return out


def as_outputs(
    outs: Sequence[Any], size: int, shape: tuple[int, ...], dtype: np.dtype, operation: str, rank: int
) -> list[np.ndarray]:
    """Return `out`, a list of n arrays, after checking that each fits a result and that they share no memory."""
    if len(outs) != size:
        raise ValueError(f"{operation} on rank {rank}: out is a list of {len(outs)} arrays for {size} ranks")
    for i, out in enumerate(outs):
        if isinstance(out, np.ndarray) and out.dtype == dtype and out.shape != shape:
            raise ValueError(
                f"{operation} on rank {rank}: array {i} of out has shape {out.shape}, the result has {shape}"
                f"{_unequal(operation)}"
            )
    targets = [as_output(out, shape, dtype, operation, rank) for out in outs]
    for i, one in enumerate(targets):
        if any(overlap(one, other) for other in targets[:i]):
            raise ValueError(f"{operation} on rank {rank}: array {i} of out overlaps one before it")
    return targets


def is_plain(array: np.ndarray) -> bool:
    """Return whether routines can work on the array as it is."""
    if type(array) is not np.ndarray:
        return False
    flags, dtype = array.flags, array.dtype
    known = BY_NUMPY.get(dtype)
    return known is not None and flags.c_contiguous and flags.aligned and (known.numpy is dtype or not known.is_pair)


def same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays are the same elements in the same order."""
    return a.__array_interface__["data"] == b.__array_interface__["data"] and (a.shape, a.strides) == (
        b.shape,
        b.strides,
    )


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays share memory. The exact answer is hard to compute for odd strides; then a common range
    counts."""
    try:
        return np.shares_memory(a, b, max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def check_divisible(x: np.ndarray, axis: int, size: int, operation: str, rank: int, name: str = "x") -> None:
    """Raise `ValueError` if an axis of `x` cannot be split evenly among `size` ranks."""
    if x.ndim == 0:
        raise ValueError(
            f"{operation} on rank {rank}: {name} has no axis that could be split among {size} ranks; it is 0-d"
        )
    if x.shape[axis] % size:
        raise ValueError(
            f"{operation} on rank {rank}: axis {axis} of length {x.shape[axis]} cannot be split "
            f"among {size} ranks; shape {x.shape}{_unequal(operation)}"
        )


def _unequal(operation: str) -> str:
    """Return a hint which method to call for parts of different lengths."""
    if operation == "scatter":
        return "; for parts of different lengths use scatter_v(x, root, send_counts=counts, axis=0), or scatter_object"
    if operation in ("gather", "all_gather"):
        root = ", root" if operation == "gather" else ""
        return f"; for parts of different lengths use {operation}_v(x{root}, axis=0), or {operation}_object"
    counted = {"all_to_all": "send_counts", "reduce_scatter": "counts"}
    if operation in counted:
        return f"; for parts of different lengths use {operation}_v(x, {counted[operation]}, axis=0)"
    return ""


def as_reduction(op: Any, dtype: DType, operation: str, rank: int) -> int:
    """Return the code of a reduction. Raises `TypeError` for one that the dtype does not have, and `ValueError` for an
    unknown one."""
    if not isinstance(op, str):
        op = name_of_function(op) or op
    if not isinstance(op, str):
        hint = of_op(op) or f"; {how_to_make_an_operator(op) if callable(op) else _choice(REDUCTIONS)}"
        raise TypeError(f"{operation} on rank {rank}: op must be a string, got {type(op).__name__}{hint}")
    if op not in REDUCTIONS:
        hint = of_op(op) or f"; {_choice(REDUCTIONS)}"
        raise ValueError(f"{operation} on rank {rank}: unknown op {shown(op)}{hint}")
    if not has_kernel(dtype, op):
        raise TypeError(f"{operation} on rank {rank}: {op} of {dtype.title} is not defined; {_instead(op, dtype)}")
    return REDUCTIONS[op]


def _choice(names: Iterable[str]) -> str:
    return f"use one of {', '.join(names)}"


def _instead(op: str, dtype: DType) -> str:
    """Return what to do about a reduction that the dtype does not have."""
    if dtype.is_pair:
        return "use argmin or argmax"
    if op in ("argmin", "argmax"):
        return "pass pairs of value and index (see shmcoll.pair_dtype)"
    return "convert to a floating dtype" if op == "avg" else "convert to an integer dtype, or use land, lor, lxor"


def as_algorithm(name: Any, algorithms: tuple[str, ...], operation: str, rank: int) -> int:
    """Return the number of an algorithm; 0 for None, which selects the best."""
    if name is None:
        return 0
    if not isinstance(name, str) or name not in algorithms:
        raise ValueError(f"{operation} on rank {rank}: unknown algorithm {shown(name)}; {_choice(algorithms)}")
    return algorithms.index(name) + 1


def as_index(value: Any, name: str, operation: str, rank: int) -> int:
    """Return an integer argument. Raises `TypeError` for anything else, also for a bool."""
    if isinstance(value, bool):
        raise TypeError(
            f"{operation} on rank {rank}: {name} must be an integer, got bool; use int() if 0 or 1 is meant"
        )
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{operation} on rank {rank}: {name} must be an integer, got {type(value).__name__}") from None


def as_word(value: Any, name: str, operation: str, rank: int) -> int:
    """Return an integer argument that is sent to other ranks, in 64 bits."""
    word = as_index(value, name, operation, rank)
    if not -(1 << 63) <= word < 1 << 63:
        raise ValueError(f"{operation} on rank {rank}: {name} {word} is out of range; use -2**63 to 2**63 - 1")
    return word


def _members(size: int, *more: str) -> str:
    """Return the advice about a number that is not a rank of the group. A program without a launcher has one rank."""
    if size == 1:
        return " or ".join(["0", *more, "start more ranks: shmrun -n 4 script.py"])
    return ", or ".join([f"0 to {size - 1}", *more])


def as_root(value: Any, size: int, operation: str, rank: int) -> int:
    if type(value) is int and 0 <= value < size:
        return value
    root = as_index(value, "root", operation, rank)
    if not 0 <= root < size:
        raise ValueError(
            f"{operation} on rank {rank}: root {root} is not a rank of this group of {size}; use {_members(size)}"
        )
    return root


def as_peer(value: Any, name: str, size: int, operation: str, rank: int, *, any_too: bool = False) -> int:
    """Return the other end of a message: a rank of the group, or ANY if the operation accepts it."""
    peer = as_index(value, name, operation, rank)
    if not (0 <= peer < size or (any_too and peer == ANY)):
        hint = _members(size, *["shmcoll.ANY"] * any_too)
        raise ValueError(f"{operation} on rank {rank}: {name} {peer} is not a rank of this group of {size}; use {hint}")
    return peer


def as_tag(value: Any, name: str, operation: str, rank: int, *, any_too: bool = False) -> int:
    tag = as_index(value, name, operation, rank)
    if not (0 <= tag <= LARGEST_TAG or (any_too and tag == ANY)):
        hint = f"use 0 to {LARGEST_TAG}{', or shmcoll.ANY' if any_too else ''}"
        raise ValueError(f"{operation} on rank {rank}: {name} {tag} is out of range; {hint}")
    return tag


def as_axis(value: Any, name: str, ndim: int, operation: str, rank: int) -> int:
    axis = as_index(value, name, operation, rank)
    if not -ndim <= axis < ndim:
        raise IndexError(f"{operation} on rank {rank}: {name} {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def as_row_shape(axis: Any, x: np.ndarray, name: str, operation: str, rank: int) -> tuple[int, ...] | None:
    """Return the shape of a row of `x` if counts are in rows (`axis` is 0); None if they are in elements."""
    if axis is None:
        return None
    if as_index(axis, "axis", operation, rank) != 0:
        raise ValueError(
            f"{operation} on rank {rank}: axis must be 0, to count rows, or None, to count elements; got {axis}"
        )
    if x.ndim == 0:
        raise ValueError(
            f"{operation} on rank {rank}: {name} is 0-d and has no rows, which axis=0 counts; leave axis out"
        )
    return x.shape[1:]


def as_counts(values: Any, size: int, name: str, operation: str, rank: int) -> np.ndarray:
    """Return n counts or displacements as int64. Raises an error if one is negative."""
    check_unmasked(values, name, operation, rank)
    if values is None:
        raise TypeError(f"{operation} on rank {rank}: {name} must be {size} integers, one for each rank, got None")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as e:
        reraise_of_handler(e)
        raise TypeError(
            f"{operation} on rank {rank}: {name} must be {size} integers, one for each rank, got {shown(values)}"
        ) from None
    if array.size and array.dtype == object and all(isinstance(value, int) for value in array.flat):
        raise ValueError(f"{operation} on rank {rank}: {name} has an entry out of range: {array.tolist()}")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{operation} on rank {rank}: {name} must be integers, got {array.dtype}")
    if array.shape != (size,):
        raise ValueError(
            f"{operation} on rank {rank}: {name} must have one entry for each of {size} ranks, got shape {array.shape}"
        )
    wide = array.astype(np.int64)
    if (wide < 0).any() or (wide > LARGEST_COUNT).any():
        raise ValueError(f"{operation} on rank {rank}: {name} has an entry out of range: {array.tolist()}")
    return wide


def check_packed(counts: np.ndarray, x: np.ndarray, in_rows: bool, name: str, operation: str, rank: int) -> None:
    """Raise `ValueError` for counts without displacements that do not add up to the elements of `x`, or to its rows."""
    total, there, what = int(counts.sum()), x.size, "elements"
    if in_rows:
        there, what = x.shape[0], "rows"
    if total == there:
        return
    rows = "; they add up to the rows of x: pass axis=0" if x.ndim > 1 and total == x.shape[0] else ""
    raise ValueError(
        f"{operation} on rank {rank}: {name} {counts.tolist()} are {total} {what} together, x has {there}: "
        f"counts are in {what}{rows}"
    )
