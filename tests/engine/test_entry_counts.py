"""Counts as users give them: what the native entry reads itself; and that Python's way says the same of the rest."""

import array
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shmcoll import calls
from shmcoll.engine import context as c
from shmcoll.engine.layout import LARGEST_COUNT, WORD
from tests.support import layouts, switches

ROWS = ("send_counts", "send_displs", "recv_counts", "recv_displs", "recv_room")

INTEGERS = ("int8", "int16", "int32", "int64", "longlong", "uint8", "uint16", "uint32", "uint64", "ulonglong")

#: two numbers, of which the second is 1, as a user may hold them: read by the native entry, by Python, or refused
NATIVE: dict[str, Callable[[list[int]], Any]] = {
    "tuple": tuple,
    "list": list,
    **{name: lambda v, name=name: np.array(v, name) for name in INTEGERS},
    "read-only": lambda v: layouts.read_only(np.array(v)),
}
PYTHON: dict[str, Callable[[list[int]], Any]] = {
    "strided": lambda v: layouts.strided(np.array(v)),
    "misaligned": lambda v: layouts.misaligned(np.array(v)),
    "foreign": lambda v: layouts.foreign(np.array(v)),
    "subclass": lambda v: layouts.subclass(np.array(v)),
    "holder": lambda v: layouts.Holder(np.array(v)),
    "buffer": lambda v: array.array("q", v),
    "subclass of list": type("Listed", (list,), {}),
    "subclass of tuple": type("Tupled", (tuple,), {}),
    "numpy ints": lambda v: [np.int64(i) for i in v],
    "an int and a bool": lambda v: (v[0], True),
}
REFUSED: dict[str, Callable[[list[int]], Any]] = {
    "generator": lambda v: (i for i in v),
    "bools": lambda v: [True, True],
    "array of bools": lambda v: np.array([True, True]),
    "floats": lambda v: [float(i) for i in v],
    "array of floats": lambda v: np.array(v, np.float64),
    "dates": lambda v: np.array(v, "M8[s]"),
    "texts": lambda v: [str(i) for i in v],
    "text": lambda v: "11",
    "number": lambda v: v[0],
    "dictionary": lambda v: dict.fromkeys(v),
    "None inside": lambda v: [v[0], None],
    "too few": lambda v: v[:1],
    "too few in a tuple": lambda v: tuple(v[:1]),
    "too few in an array": lambda v: np.array(v[:1]),
    "too many": lambda v: [*v, 0],
    "too many in a tuple": lambda v: (*v, 0),
    "too many in an array": lambda v: np.array([*v, 0]),
    "none at all": lambda v: [],
    "no dimension": lambda v: np.array(v[0]),
    "two dimensions": lambda v: np.array([v]),
    "one column": lambda v: np.array(v)[:, None],
    "nested": lambda v: [v, v],
    "negative": lambda v: [v[0], -1],
    **{
        f"negative {name}": lambda v, name=name: np.array([v[0], -1], name)
        for name in INTEGERS
        if not name.startswith("u")
    },
    "lowest int8": lambda v: np.array([v[0], -128], np.int8),
    "lowest int64": lambda v: np.array([v[0], -(1 << 63)]),
    "beyond the limit": lambda v: (v[0], LARGEST_COUNT + 1),
    "beyond the limit in an array": lambda v: np.array([v[0], LARGEST_COUNT + 1]),
    "beyond 63 bits": lambda v: [v[0], 1 << 63],
    "beyond 63 bits in an array": lambda v: np.array([v[0], 1 << 63], np.uint64),
    "beyond 64 bits": lambda v: [v[0], 1 << 70],
    "far below": lambda v: (v[0], -(1 << 70)),
}

#: the arguments of a call, by their names and in the order of `calls`, and the rows that are varied
CALLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "all_to_all_v": (
        {
            "x": np.arange(8),
            "send_counts": [1, 1],
            "send_displs": [3, 1],
            "recv_counts": [1, 1],
            "recv_displs": [2, 1],
            "recv_room": [4, 1],
            "out": np.zeros(5, np.int64),
        },
        ROWS,
    ),
    "gather_v": (
        {"x": np.arange(1), "root": 0, "recv_counts": [1, 1], "recv_displs": [3, 1], "out": np.zeros(5, np.int64)},
        ("recv_counts", "recv_displs"),
    ),
    "all_gather_v": (
        {"x": np.arange(1), "recv_counts": [1, 1], "recv_displs": [3, 1], "out": np.zeros(5, np.int64)},
        ("recv_counts", "recv_displs"),
    ),
    "scatter_v": (
        {"x": np.arange(8), "root": 0, "send_counts": [1, 1], "send_displs": [3, 1], "out": np.zeros(1, np.int64)},
        ("send_counts", "send_displs"),
    ),
    "reduce_scatter_v": (
        {"x": np.arange(4), "counts": [3, 1], "op": "sum", "out": np.zeros(0, np.int64)},
        ("counts",),
    ),
}


def arguments_of(comm: Any, operation: str, row: str, form: Callable[[list[int]], Any] | None) -> dict[str, Any]:
    """Those of a call in which a row comes in another form, where this rank gives it."""
    arguments = {name: value.copy() if name in ("x", "out") else value for name, value in CALLS[operation][0].items()}
    if operation == "reduce_scatter_v":
        arguments["out"] = np.zeros([3, 1][comm.rank], np.int64)
    if form:
        arguments[row] = form(arguments[row])
    elif row:
        arguments[row] = None
        arguments["x"] = arguments["x"][:2] if row == "send_displs" else arguments["x"]  # then the blocks are all of x
    if operation == "scatter_v" and comm.rank:
        arguments |= {"x": None, "send_counts": None, "send_displs": None}
    return arguments


def by_native(comm: Any, operation: str, arguments: dict[str, Any]) -> int:
    """The status of the native entry. It has begun an operation just when it has not answered NEEDS_PYTHON."""
    x, out, root = arguments["x"], arguments["out"], arguments.get("root", 0)
    before = comm._dispatcher.words[c.SEQUENCE // WORD]
    if operation == "reduce_scatter_v":
        status = comm._load("reduce_scatter")(x, out, 1, 0, 0, 0, None, arguments["counts"])
    else:
        rows = [arguments.get(row) for row in ROWS]
        out = None if operation == "gather_v" and comm.rank != root else out
        status = comm._load(operation)(x, out, 0, root, 0, 0, None, *rows)
    if (comm._dispatcher.words[c.SEQUENCE // WORD] != before) != (status != c.NEEDS_PYTHON):
        raise AssertionError(f"{operation}: status {status}, but something was begun, or nothing")
    return status


def by_method(comm: Any, operation: str, arguments: dict[str, Any]) -> Any:
    return getattr(comm, operation)(**arguments)


def by_python(comm: Any, operation: str, arguments: dict[str, Any]) -> Any:
    return getattr(calls, operation)(comm._dispatcher, *arguments.values())


def told(way: Callable[..., Any], comm: Any, operation: str, arguments: dict[str, Any]) -> list[Any]:
    """What comes of a call: results, or the error without the number of the operation, and `out`."""
    try:
        result = way(comm, operation, arguments)
        parts = result if isinstance(result, tuple) else (result,)
        said = [None if part is None else (part.dtype.str, part.tolist()) for part in parts]
    except (TypeError, ValueError) as error:
        said = [type(error).__name__, *str(error).split(f"#{comm._dispatcher.words[c.SEQUENCE // WORD]}")]
    return [*said, None if arguments["out"] is None else arguments["out"].tolist()]


def ways(comm, operation: str, row: str) -> dict[str, Any]:
    """For each form of a row: the status of the native entry, what the method does, and what Python's way does."""
    by_python(comm, operation, arguments_of(comm, operation, "", None))  # what is loaded when first used
    seen = {}
    for name, form in (NATIVE | PYTHON | REFUSED).items():
        refused_by_root = name in REFUSED and operation in ("gather_v", "scatter_v")
        if refused_by_root and comm.rank:
            continue
        fresh = [arguments_of(comm, operation, row, form) for _ in range(3)]
        if name in NATIVE or comm.rank == 0 or operation not in ("gather_v", "scatter_v"):
            status = by_native(comm, operation, fresh[0])
        else:
            status = c.NEEDS_PYTHON  # what the root says
        seen[name] = status, told(by_method, comm, operation, fresh[1]), told(by_python, comm, operation, fresh[2])
    return seen


@pytest.mark.parametrize(("operation", "row"), [(name, row) for name, (_, rows) in CALLS.items() for row in rows])
def test_forms_of_counts(ranks, operation, row):
    """The native entry takes those that it should and no other, and the outcome is always that of Python's way."""
    for rank, seen in enumerate(ranks(2, ways, operation, row)):
        for name, (status, by_method, by_python) in seen.items():
            assert status == (c.OK if name in NATIVE else c.NEEDS_PYTHON), (name, rank)
            assert by_method == by_python, (name, rank)
            assert (by_method[0] in ("TypeError", "ValueError")) == (name in REFUSED), (name, rank, by_method)


@pytest.mark.parametrize(
    ("operation", "row"),
    [
        (name, row)
        for name, (_, rows) in CALLS.items()
        for row in (*rows, "out")
        if row not in ("send_counts", "counts")
    ],
)
def test_what_may_be_left_out(ranks, operation, row):
    """Displacements, expected counts and room; and `out`, for which the native entry stops halfway."""

    def without(comm) -> tuple[list, list]:
        fresh = [arguments_of(comm, operation, row, None) for _ in range(2)]
        return told(by_method, comm, operation, fresh[0]), told(by_python, comm, operation, fresh[1])

    outcomes = ranks(2, without)
    assert all(by_method == by_python for by_method, by_python in outcomes)
    assert all(said[0] not in ("TypeError", "ValueError") for said, _ in outcomes)


def test_send_counts_may_not_be_left_out(ranks):
    def without(comm) -> list:
        arguments = arguments_of(comm, "all_to_all_v", "send_counts", None)
        return [by_native(comm, "all_to_all_v", arguments), told(by_method, comm, "all_to_all_v", arguments)[:2]]

    words = "all_to_all_v on rank {}: send_counts must be 2 integers, one for each rank, got None"
    assert ranks(2, without) == [[c.NEEDS_PYTHON, ["TypeError", words.format(rank)]] for rank in range(2)]


#: arrays that the native entry leaves to Python, and one that it takes
ARRAYS: dict[str, tuple[int, Callable[[np.ndarray], dict[str, Any]]]] = {
    "as they are": (c.OK, lambda x: {}),
    "of several dimensions": (c.OK, lambda x: {"x": x.reshape(2, 1, 4), "out": np.zeros((5, 1), x.dtype)}),
    "read-only x": (c.OK, lambda x: {"x": layouts.read_only(x)}),
    "a list": (c.NEEDS_PYTHON, lambda x: {"x": x.tolist()}),
    "strided": (c.NEEDS_PYTHON, lambda x: {"x": layouts.strided(x)}),
    "a subclass": (c.NEEDS_PYTHON, lambda x: {"x": layouts.subclass(x)}),
    "out strided": (c.NEEDS_PYTHON, lambda x: {"out": layouts.strided(np.zeros(5, x.dtype))}),
    "out is x": (c.NEEDS_PYTHON, lambda x: {"x": x, "out": x}),
    "out overlaps x": (c.NEEDS_PYTHON, lambda x: {"x": x, "out": x[2:7]}),
    "out of another dtype": (c.NEEDS_PYTHON, lambda x: {"out": np.zeros(5)}),
    "out read-only": (c.NEEDS_PYTHON, lambda x: {"out": layouts.read_only(np.zeros(5, x.dtype))}),
    "no x": (c.NEEDS_PYTHON, lambda x: {"x": None}),
    "x of objects": (c.NEEDS_PYTHON, lambda x: {"x": np.array([None] * 8)}),
}


def test_arrays_beside_the_counts(ranks):
    def variants(comm) -> dict[str, tuple]:
        seen = {}
        for name, (_, change) in ARRAYS.items():
            fresh = [arguments_of(comm, "all_to_all_v", "", None) for _ in range(3)]
            for arguments in fresh:
                arguments |= change(arguments["x"])
            outcomes = [
                told(way, comm, "all_to_all_v", a) for way, a in zip((by_method, by_python), fresh, strict=False)
            ]
            seen[name] = (by_native(comm, "all_to_all_v", fresh[2]), *outcomes)
        return seen

    for seen in ranks(2, variants):
        assert {name: status for name, (status, *_) in seen.items()} == {name: s for name, (s, _) in ARRAYS.items()}
        assert all(by_method == by_python for _, by_method, by_python in seen.values())


def test_what_others_than_the_root_give(ranks):
    """Anything, which is not looked at. The native entry of scatter_v wants None, which the method makes of it."""

    def given(comm) -> list:
        x, root = np.arange(2) + comm.rank, comm.rank == 0
        odd = {"recv_counts": [2, 2] if root else "nonsense", "out": None if root else 3}
        result, received = comm.gather_v(x, **odd)
        seen: list = [(result.tolist(), received.tolist()) if root else (result, received)]
        for odd in ({"x": x}, {"send_counts": "nonsense"}, {"send_displs": [0, 1]}):
            arguments = {"x": None, "root": 0, "send_counts": None, "send_displs": None, "out": None} | odd
            if root:
                arguments |= {"x": x, "send_counts": [1, 1], "send_displs": [0, 1]}
            else:
                seen.append(by_native(comm, "scatter_v", arguments))
            seen.append(told(by_method, comm, "scatter_v", arguments)[0][1])
        for strange in (2, -1, True, np.int64(0), 1 << 70):
            seen.append(comm._load("gather_v")(x, None, 0, strange, 0, 0, None, None, None, None, None, None))
        return seen

    first, second = ranks(2, given)
    assert first == [([0, 1, 1, 2], [2, 2]), *[[0]] * 3, *[c.NEEDS_PYTHON] * 5]
    assert second == [(None, None), *[c.NEEDS_PYTHON, [1]] * 3, *[c.NEEDS_PYTHON] * 5]


def test_the_other_entry_reads_no_counts(ranks, monkeypatch):
    switches.use_entry(monkeypatch, fast=False)

    def statuses(comm) -> list[int]:
        return [by_native(comm, operation, arguments_of(comm, operation, "", None)) for operation in CALLS]

    assert ranks(2, statuses) == [[c.NEEDS_PYTHON] * len(CALLS)] * 2


def test_lengths_are_the_same_by_either_way(ranks):
    """The mark that stands for the lengths of a reduce_scatter_v, between ranks that go different ways."""

    def mixed(comm) -> list:
        counts = [np.array([3, 0, 2]), layouts.strided(np.array([3, 0, 2])), (3, 0, 2)][comm.rank]
        return [comm.reduce_scatter_v(np.arange(5.0).reshape(5, 1), counts).tolist() for _ in range(3)]

    assert ranks(3, mixed) == [[[0.0, 3.0, 6.0]] * 3, [[]] * 3, [[9.0, 12.0]] * 3]


def test_numbers_up_to_the_largest_of_their_type(ranks):
    """As limits of what may be received, which are not used otherwise."""

    def statuses(comm) -> list[int]:
        x, out = np.zeros(1), np.zeros(1)
        rooms: list = [np.array([min(np.iinfo(name).max, LARGEST_COUNT)], name) for name in INTEGERS]
        rooms += [[LARGEST_COUNT], (LARGEST_COUNT,)]
        return [comm._load("all_to_all_v")(x, out, 0, 0, 0, 0, None, [1], None, None, None, room) for room in rooms]

    assert ranks(1, statuses) == [[c.OK] * (len(INTEGERS) + 2)]


def test_a_block_of_x_is_reduced_in_place(ranks):
    def reduced(comm) -> tuple:
        x = np.arange(5)
        mine = [x[:3], x[3:]][comm.rank]
        comm.reduce_scatter_v(np.arange(5), [3, 2])
        status = comm._load("reduce_scatter")(x, mine, 1, 0, 0, 0, None, [3, 2])
        overlapping = comm._load("reduce_scatter")(x, [x[1:4], x[2:4]][comm.rank], 1, 0, 0, 0, None, [3, 2])
        return status, overlapping, x.tolist()

    assert ranks(2, reduced) == [(c.OK, c.NEEDS_PYTHON, [0, 2, 4, 3, 4]), (c.OK, c.NEEDS_PYTHON, [0, 1, 2, 6, 8])]


def test_a_thread_and_asynchronous_work_keep_their_counts_apart(ranks):
    """Each call has a length of its own: result and receive counts belong together, however the calls mix."""

    def mixed(comm) -> list[str]:
        wrong = []

        def look(length: int, told: tuple) -> None:
            result, received = told
            parts = np.split(result, np.cumsum(received)[:-1])
            if received[comm.rank] != length or any((part != len(part)).any() for part in parts):
                wrong.append(f"{length}: {result} {received}")

        def call(lengths: range) -> None:
            for length in lengths:
                look(length, comm.all_gather_v(np.full(length, length)))

        works = [(k, comm.all_gather_v(np.full(k, k), async_op=True)) for k in range(50)]
        thread = threading.Thread(target=call, args=(range(1, 400, 2),))
        thread.start()
        for length, work in works:
            look(length, work.wait(60))
        thread.join()
        return wrong

    switches = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert ranks(2, mixed) == [[], []]
    finally:
        sys.setswitchinterval(switches)


def test_counts_are_borrowed(ranks):
    """A call neither keeps nor loses references to counts and what is in them."""

    def references(comm) -> list[int]:
        big, x, out = 1000, np.zeros(1000), np.zeros(1000)
        listed, tupled, counted = [big], (big,), np.array([big])

        def held() -> np.ndarray:
            return np.array([sys.getrefcount(o) for o in (big, listed, tupled, counted, x, out)])

        before = held()
        for _ in range(1000):
            comm.all_to_all_v(x, listed, recv_counts=tupled, recv_room=counted, out=out)
        return (held() - before).tolist()

    assert ranks(1, references) == [[0] * 6]
