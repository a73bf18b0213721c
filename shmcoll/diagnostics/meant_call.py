"""Which call was perhaps meant by one that is refused: advice that is computed from the arguments that were passed.

People who know another library pass arguments in its order, or write its words: `send(0, x)`, `recv(1)`,
`all_reduce(x, out)`, `op="SUM"`. The advice moves each such value to the parameter that it suits, if there is one.
"""

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from shmcoll.engine.compiler.known_functions import name_of_function
from shmcoll.engine.compiler.user_operators import Op, PremulSum
from shmcoll.engine.kernels.dtypes import REDUCTIONS
from shmcoll.engine.layout import ANY, LARGEST_COUNT, LARGEST_TAG
from shmcoll.engine.system.handlers import ignored

_RANKS = ("root", "dest", "source")
_TAGS = ("tag", "sendtag", "recvtag")
_COUNTS = ("counts", "send_counts", "send_displs", "recv_counts", "recv_displs", "recv_room")
_WORDS = {"add": "sum", "plus": "sum", "mean": "avg", "average": "avg", "mul": "prod", "product": "prod"}
_WORDS |= {"minimum": "min", "maximum": "max", "and": "band", "or": "bor", "xor": "bxor"}
_WORDS |= {"minloc": "argmin", "maxloc": "argmax"}

#: parameters that may be left out, with the value that they then have
_DEFAULTS: dict[str, Any] = {"root": 0, "op": "sum", "out": None, "algorithm": None, "source": ANY, "sendtag": 0}
_DEFAULTS |= {"tag": ANY}
_DEFAULTS |= {"recvtag": ANY, "axis": None, **dict.fromkeys(_COUNTS[1:])}
_KNOWN = ("x", "value", "dest", "pairs", "counts", *_DEFAULTS)


def suggest(error: BaseException | None, operation: str, traceback: TracebackType | None, size: int) -> None:
    """Add to the text of a refusal the call that was perhaps meant, if there is one.

    traceback: it begins in a function that has the arguments, under the names that the method's parameters have, or in
    one that the function of that name in `calls/` has called.
    size: the number of ranks in the group.
    """
    if error is None or type(error) not in (TypeError, ValueError, IndexError) or traceback is None:
        return
    frame = traceback.tb_frame
    caller: FrameType | None = frame
    while caller is not None and caller.f_globals.get("__name__", "").startswith("shmcoll.calls."):
        frame = caller if caller.f_code.co_name == operation else frame
        caller = caller.f_back
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values = {name: frame.f_locals[name] for name in names if name in _KNOWN and name in frame.f_locals}
    if values.get("root", 0) is None:  # of a call for all ranks, whose function has a parameter all the same
        del values["root"]
    with ignored(Exception):  # what an object of the user raises when it is asked what it is
        wrong = [name for name, value in values.items() if not _is_taken(name, value, operation, size)]
        if wrong and (meant := _moved(operation, values, wrong, size) or _converted(values, wrong, operation, size)):
            error.args = (f"{error}; did you mean {meant}?",)


def of_op(op: Any) -> str:
    """Return a question with the reduction that is called `op`, or like it, in another library; empty if none is."""
    words = op if isinstance(op, str) else repr(op) if type(op).__module__.partition(".")[0] in _LIBRARIES else ""
    named = [_reduction(word) for word in "".join(c if c.isalpha() else " " for c in words).split()]
    found = next((name for name in named if name), None)
    return f"; did you mean op={found!r}?" if found else ""


#: functions of two objects that are like a reduction
_OF_OBJECTS = {"sum": "operator.add", "prod": "operator.mul", "min": "min", "max": "max"}
#: libraries whose operators are known by their names
_LIBRARIES = ("mpi4py", "torch", "horovod", "jax", "nccl", "cupy", "mindspore")


def _reduction(word: str) -> str | None:
    word = word.lower()
    word = _WORDS.get(word, word)
    return word if word in REDUCTIONS else None


def with_objects(operation: str) -> str:
    """Return the call for Python objects that does what a call for arrays does."""
    base = operation.removesuffix("_v")
    root = ", root=root" if base in ("broadcast", "gather", "scatter", "reduce") else ""
    if base in ("all_reduce", "reduce_scatter", "reduce", "scan", "exscan"):
        name = "all_reduce" if base == "reduce_scatter" else base
        return f"comm.{name}_object(x, function{root}), with a function of two objects"
    if base in ("all_to_all", "collective_permute"):
        return "comm.all_to_all_object(values), with one object for each rank"
    if base == "scatter":
        return "comm.scatter_object(values, root=root), with one object for each rank"
    if base == "recv":
        return "comm.recv_object(source)"
    if base in ("send", "sendrecv", "halo_exchange") or "." in base:
        return f"comm.{'send' if base == 'send' else 'sendrecv'}_object(x, dest)"
    return f"comm.{base if base in ('broadcast', 'gather') else 'all_gather'}_object(x{root})"


# --- which value suits which parameter --------------------------------------------------------------------------------


def _is_array(value: Any) -> bool:
    if isinstance(value, (np.generic, str, bytes, type)) or hasattr(value, "mask"):
        return False
    return any(hasattr(value, name) for name in ("__array__", "__array_interface__", "__dlpack__")) or isinstance(
        value, (bytearray, memoryview)
    )


def _is_number(value: Any, least: float = -math.inf, end: float = math.inf) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and least <= int(value) < end


def _is_count(value: Any) -> bool:
    return _is_number(value, 0, LARGEST_COUNT + 1)


def _is_default(name: str, value: Any, operation: str) -> bool:
    if operation.endswith("_object") and name == "op":
        return value is operator.add
    default = 0 if name == "tag" and operation.startswith("send") else _DEFAULTS.get(name, ...)
    return value is default or (type(value) is type(default) and value == default)


def _is_taken(name: str, value: Any, operation: str, size: int) -> bool:
    """Return whether a parameter may take the value, as far as its type says."""
    if _is_default(name, value, operation) or (value is None and name not in ("root", "op", *_TAGS)):
        return True
    if name == "x":
        return value is None or _is_array(value) or not isinstance(value, (str, bytes, dict, type)) or callable(value)
    if name == "value" or (name in (*_RANKS, *_TAGS) and _is_number(value)):  # a number that does not exist is no other
        return True
    if name == "out":
        return _is_array(value) or (isinstance(value, (list, tuple)) and all(map(_is_array, value)))
    if name == "pairs":
        return not _is_array(value) and hasattr(value, "__iter__") and not isinstance(value, (str, bytes))
    return _suits(name, value, operation, size)


def _suits(name: str, value: Any, operation: str, size: int) -> bool:
    """Return whether a value is so clearly meant for a parameter that it may be moved there."""
    if name in ("x", "out"):
        return _is_array(value)
    if name == "value":
        return True
    if name in _RANKS:
        return _is_number(value, 0, size)
    if name in _TAGS:
        return _is_number(value, 0, LARGEST_TAG + 1)
    if name == "op":
        if operation.endswith("_object"):
            return callable(value) and not isinstance(value, type)
        is_known = value in REDUCTIONS if isinstance(value, str) else name_of_function(value) is not None
        return is_known or isinstance(value, (Op, PremulSum))
    if name in _COUNTS:
        listed = value.tolist() if isinstance(value, np.ndarray) else value
        return isinstance(listed, (list, tuple)) and len(listed) == size and all(map(_is_count, listed))
    if name == "pairs":
        return isinstance(value, (list, tuple)) and all(isinstance(one, (list, tuple)) for one in value)
    return name == "axis" and _is_number(value, 0, 1)


def _moved(operation: str, values: Mapping[str, Any], wrong: list[str], size: int) -> str:
    """Return the call in which the wrong values, and those in their places, are moved. A call that keeps the order of
    the values goes before others, and then one that moves fewer of them."""
    passed = [name for name, value in values.items() if value is not None and not _is_default(name, value, operation)]
    required = {name for name in values if name not in _DEFAULTS}
    sends_counts = operation == "all_to_all_v" or (operation == "scatter_v" and values["x"] is not None)
    required |= {"send_counts"} if sends_counts else set()
    order = list(values)
    fits = [[new for new in values if _may_be(new, old, values[old], operation, wrong, size)] for old in passed]
    found = [
        (
            sum(a > b for a, b in combinations(map(order.index, places), 2)),
            sum(old != new for old, new in zip(passed, places, strict=True)),
            [*map(order.index, places)],
            places,
        )
        for places in _all_different(fits)
        if required <= set(places) and places != tuple(passed)
    ]
    if not found:
        return ""
    given = dict(zip(min(found)[-1], (values[name] for name in passed), strict=True))
    return f"comm.{operation}({', '.join(_written(name, given[name]) for name in values if name in given)})"


def _may_be(new: str, old: str, value: Any, operation: str, wrong: list[str], size: int) -> bool:
    """Return whether a value that was passed as one parameter may stay that, or be another one."""
    if new == old:
        return old not in wrong and (new not in _RANKS or _suits(new, value, operation, size))
    return _suits(new, value, operation, size)


def _all_different(lists: Sequence[Sequence[str]], taken: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield each choice of one name of each list in which no name is twice."""
    if not lists:
        yield ()
        return
    for name in lists[0]:
        if name not in taken:
            yield from ((name, *others) for others in _all_different(lists[1:], (*taken, name)))


def _converted(values: Mapping[str, Any], wrong: list[str], operation: str, size: int) -> str:
    """Return the arguments that are wrong, as they may be written, if that is clear of all of them."""
    found = [next(_written_otherwise(name, values[name], operation, size), "") for name in wrong]
    return ", ".join(found) if all(found) else ""


def _written_otherwise(name: str, value: Any, operation: str, size: int) -> Iterator[str]:
    if name == "op" and operation.endswith("_object") and isinstance(value, str) and (op := _reduction(value)):
        yield from [f"op={_OF_OBJECTS[op]}"] if op in _OF_OBJECTS else []
    is_whole = (
        value.isdecimal() if isinstance(value, str) else isinstance(value, (float, np.floating)) and value % 1 == 0
    )
    if is_whole and name in (*_RANKS, *_TAGS) and _suits(name, int(value), operation, size):
        yield f"{name}={int(value)}"


def _written(name: str, value: Any) -> str:
    """Return an argument as it is written in a call: an array, or any object that has no short name, by its name."""
    if name in ("x", "value"):
        return name
    if _is_number(value) or isinstance(value, str):
        return f"{name}={int(value) if not isinstance(value, str) else value!r}"
    if name in _COUNTS or name == "pairs":
        text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
        return f"{name}={text if len(text) <= 60 else name}"
    return f"{name}={getattr(value, '__name__', name) if name == 'op' else name}"
