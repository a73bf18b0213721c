"""A call with wrong arguments: the error, its words, and a group that goes on as if nothing had been called."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import SHORT

X = np.ones((4, 6), np.float32)
Call = Callable[[Any], Any]


def read_only(shape: tuple) -> np.ndarray:
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


def partly(comm: Any) -> Any:
    room = np.zeros(10, np.float32)
    return comm.all_reduce(room[:8], out=room[2:])


def partly_exchanged(comm: Any) -> Any:
    room = np.zeros(10, np.float32)
    return comm.all_to_all(room[:8], out=room[2:])


#: on rank 1 of 2: the call, the error, and what its message must contain
WRONG: dict[str, tuple[Call, type[Exception], str]] = {
    "x is None": (lambda c: c.all_reduce(None), TypeError, "all_reduce on rank 1: x is no array: NoneType"),
    "x is None with out": (lambda c: c.all_reduce(None, out=X.copy()), TypeError, "x is no array: NoneType"),
    "x is a string": (lambda c: c.all_reduce("abc"), TypeError, "dtype <U3 is not supported"),
    "x is ragged": (lambda c: c.gather([[1], [1, 2]]), TypeError, "gather on rank 1: x is no array: list"),
    "x is an object": (lambda c: c.all_to_all(object()), TypeError, "all_to_all on rank 1: x is no array: object"),
    "dtype of dates": (lambda c: c.gather(np.zeros(3, "M8[s]")), TypeError, "dtype datetime64[s] is not supported"),
    "dtype of records": (lambda c: c.gather(np.zeros(3, "i4,i4")), TypeError, "is not supported"),
    "dtype longdouble": (
        lambda c: c.gather(np.zeros(3, np.longdouble)),
        TypeError,
        "is not supported; use one of bool",
    ),
    "unknown op": (lambda c: c.all_reduce(X, "median"), ValueError, "unknown op 'median'; use one of sum, prod, min"),
    "op is a number": (lambda c: c.all_reduce(X, 1), TypeError, "op must be a string, got int"),
    "op is a list": (lambda c: c.all_reduce(X, []), TypeError, "op must be a string, got list"),
    "op is None": (lambda c: c.all_reduce(X, None), TypeError, "op must be a string, got NoneType"),
    "avg of integers": (lambda c: c.all_reduce(X.astype(int), "avg"), TypeError, "avg of int64 is not defined"),
    "avg of bool": (lambda c: c.all_reduce(X > 0, "avg"), TypeError, "avg of bool is not defined"),
    "out is a list": (lambda c: c.all_reduce(X, out=[0]), TypeError, "out must be a numpy array, got list"),
    "dtype of out": (lambda c: c.all_reduce(X, out=X.astype("f8")), TypeError, "out has dtype float64, the result has"),
    "shape of out": (
        lambda c: c.all_reduce(X, out=X[0].copy()),
        ValueError,
        "out has shape (6,), the result has (4, 6)",
    ),
    "read-only out": (
        lambda c: c.all_reduce(X, out=read_only((4, 6))),
        ValueError,
        "all_reduce on rank 1: out is read",
    ),
    "out overlaps": (partly, ValueError, "out overlaps x without being x"),
    "transposed onto itself": (lambda c: c.all_reduce(S := np.ones((3, 3)), out=S.T), ValueError, "out overlaps x"),
    "not divisible": (
        lambda c: c.all_to_all(np.zeros((3, 4))),
        ValueError,
        "all_to_all on rank 1: axis 0 of length 3 cannot be split among 2 ranks; shape (3, 4)",
    ),
    "0-d": (lambda c: c.all_to_all(np.float32(1)), IndexError, "split_axis 0 is out of range for 0 dimensions"),
    "split axis": (lambda c: c.all_to_all(X, 2), IndexError, "split_axis 2 is out of range for 2 dimensions"),
    "concat axis": (lambda c: c.all_to_all(X, 0, -3), IndexError, "concat_axis -3 is out of range for 2 dimensions"),
    "axis is bool": (lambda c: c.all_to_all(X, True), TypeError, "split_axis must be an integer, got bool"),
    "axis is float": (lambda c: c.all_to_all(X, 1.0), TypeError, "split_axis must be an integer, got float"),
    "shape of the exchanged": (lambda c: c.all_to_all(X, 0, 1, out=X.copy()), ValueError, "the result has (2, 12)"),
    "exchange overlaps": (partly_exchanged, ValueError, "out overlaps x without being x"),
    "root": (lambda c: c.gather(X, 2), ValueError, "gather on rank 1: root 2 is no rank of this group of 2"),
    "negative root": (lambda c: c.gather(X, -1), ValueError, "root -1 is no rank of this group of 2"),
    "root is a string": (lambda c: c.gather(X, "0"), TypeError, "root must be an integer, got str"),
    "root is None": (lambda c: c.gather(X, None), TypeError, "root must be an integer, got NoneType"),
    "length of out": (lambda c: c.gather(X, 1, out=[X.copy()]), ValueError, "out is a list of 1 arrays for 2 ranks"),
    "list of lists": (lambda c: c.gather(X, 1, out=[[], []]), TypeError, "out must be a numpy array, got list"),
    "list overlaps": (
        lambda c: c.gather(X, 1, out=[G := X.copy(), G]),
        ValueError,
        "array 1 of out overlaps one before",
    ),
    "list overlaps x": (lambda c: c.gather(X, 1, out=[X, X.copy()]), ValueError, "array 0 of out overlaps x"),
    "shape of the gathered": (lambda c: c.gather(X, 1, out=X.copy()), ValueError, "the result has (8, 6)"),
    "number of counts": (lambda c: c.all_to_all_v(X, [1]), ValueError, "send_counts must have one entry for each of 2"),
    "counts of floats": (lambda c: c.all_to_all_v(X, [1.0, 2]), TypeError, "send_counts must be integers, got float64"),
    "counts of bool": (lambda c: c.all_to_all_v(X, [True, False]), TypeError, "send_counts must be integers, got bool"),
    "negative count": (lambda c: c.all_to_all_v(X, [1, -2]), ValueError, "entry out of range: [1, -2]"),
    "huge count": (lambda c: c.all_to_all_v(X, [1, 1 << 60]), ValueError, "send_counts has an entry out of range"),
    "count beyond int64": (
        lambda c: c.all_to_all_v(X, np.uint64([1, 1 << 63])),
        ValueError,
        "send_counts has an entry out of",
    ),
    "table of counts": (lambda c: c.all_to_all_v(X, [[1, 2]]), ValueError, "got shape (1, 2)"),
    "counts are None": (lambda c: c.all_to_all_v(X, None), TypeError, "send_counts must be integers, got object"),
    "displacements": (
        lambda c: c.all_to_all_v(X, [1, 2], [-1, 0]),
        ValueError,
        "send_displs has an entry out of range",
    ),
    "received": (lambda c: c.all_to_all_v(X, [1, 2], recv_counts=[1]), ValueError, "recv_counts must have one entry"),
    "places": (lambda c: c.all_to_all_v(X, [1, 2], recv_displs="ab"), TypeError, "recv_displs must be integers"),
    "room": (lambda c: c.all_to_all_v(X, [1, 2], recv_room=[-1, 0]), ValueError, "recv_room has an entry out of range"),
    "out of v": (lambda c: c.all_to_all_v(X, [1, 2], out=[0] * 9), TypeError, "out must be a numpy array, got list"),
    "dtype of v": (lambda c: c.all_to_all_v(X, [1, 2], out=np.zeros(9)), TypeError, "out has dtype float64"),
    "read-only out of v": (lambda c: c.all_to_all_v(X, [1, 2], out=read_only((9,))), ValueError, "out is read-only"),
}


def refuse_all(comm, later: bool) -> list[str]:
    """Rank 1 makes every wrong call; after each, all ranks make right ones."""
    told = []
    for name, (call, kind, words) in WRONG.items():
        if comm.rank == 1:
            before = comm._verdicts._sequence()
            try:
                call(Later(comm) if later else comm)
                told.append(f"{name}: nothing was raised")
            except Exception as error:
                if type(error) is not kind or words not in str(error):
                    told.append(f"{name}: {type(error).__name__}: {error}")
            if comm._verdicts._sequence() != before:
                told.append(f"{name}: took a sequence number")
        for right in SHORT.values():
            right(comm)
    return told


class Later:
    """A communicator whose every call is asynchronous, and waited for."""

    def __init__(self, comm: Any):
        self._comm = comm

    def __getattr__(self, name: str) -> Call:
        return lambda *args, **keywords: getattr(self._comm, name)(*args, async_op=True, **keywords).wait(20)


@pytest.mark.parametrize("later", [False, True], ids=["at once", "asynchronous"])
def test_wrong_arguments_are_refused_and_the_group_goes_on(ranks, later):
    assert ranks(2, refuse_all, later) == [[], []]


def test_the_other_entry_refuses_the_same(ranks, monkeypatch):
    monkeypatch.setattr("shmcoll.engine.entry.FAST", False)
    assert ranks(2, refuse_all, False) == [[], []]


# --- what the ranks find together -------------------------------------------------------------------------------------

#: of 3 ranks: keywords of rank 1's call (the others send one element to each, into 3), and the words of all ranks
VERDICTS: dict[str, tuple[dict, str]] = {
    "beyond the source": (
        {"send_displs": [0, 1, 6]},
        "rank 1 sends 1 elements from displacement 6 to rank 2, but its source has 6",
    ),
    "more than the source": (
        {"send_counts": [1, 1, 7]},
        "rank 1 sends 7 elements from displacement 2 to rank 2, but its source has 6",
    ),
    "other than expected": (
        {"send_counts": [2, 1, 1]},
        "rank 0 expects 1 elements from rank 1, which sends 2",
    ),
    "more than there is room for": (
        {"send_counts": [1, 1, 3]},
        "rank 1 sends 3 elements to rank 2, which has room for 2",
    ),
    "beyond the result": (
        {"recv_displs": [0, 3, 2]},
        "1 elements from rank 1 at displacement 3 of rank 1 do not fit its result of 3",
    ),
    "overlap": (
        {"recv_displs": [0, 2, 2]},
        "what rank 1 receives from ranks 1 and 2 overlaps at displacement 2",
    ),
    "overlap, out of order": (
        {"recv_displs": [2, 0, 2]},
        "what rank 1 receives from ranks 0 and 2 overlaps at displacement 2",
    ),
}


def unfit(comm) -> list[list[str]]:
    told = []
    for keywords, _ in VERDICTS.values():
        out = np.full(3, -1)
        mine: dict = {"send_counts": [1, 1, 1], "recv_displs": [0, 1, 2], "out": out}
        mine |= keywords if comm.rank == 1 else {}
        mine |= {"recv_counts": [1, 1, 1]} if comm.rank == 0 else {"recv_room": [2, 2, 2]} if comm.rank == 2 else {}
        for later in (False, True):
            with pytest.raises(ValueError) as error:
                got = comm.all_to_all_v(np.arange(6), mine.pop("send_counts"), async_op=later, **mine)
                got.wait(20)
            mine["send_counts"] = keywords.get("send_counts", [1, 1, 1]) if comm.rank == 1 else [1, 1, 1]
            told.append([str(error.value).partition(": ")[2], str(out.tolist())])
            for right in SHORT.values():
                right(comm)
    return told


def test_counts_that_do_not_fit_are_told_to_all_ranks_and_nothing_moves(ranks):
    told = ranks(3, unfit)
    wanted = [[words, "[-1, -1, -1]"] for _, words in VERDICTS.values() for _ in range(2)]
    assert told == [wanted] * 3
