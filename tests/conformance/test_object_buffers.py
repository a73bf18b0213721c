"""Objects whose memory travels beside their pickles: one buffer, several, more than a row has room for, and none, in
one call; and arrays that numpy pickles in another way than most."""

import copyreg
import pickle

import numpy as np

from tests.support.drawn_objects import same
from tests.support.switches import LEAST_ALONE, LEAST_BYTES, LEAST_MOVED, LONGEST_ROW

MANY = 80  # buffers, whose sizes no row holds
LONG = "x" * LONGEST_ROW  # whose pickle no row holds


def filled(size: int, number: int) -> np.ndarray:
    return (np.arange(size) % 251 + number).astype(np.uint8)


#: an object of each kind, made of a number
KINDS = {
    "a number": lambda i: i,
    "a long pickle": lambda i: LONG * (1 + i),
    "an array of few bytes": lambda i: np.arange(5.0) + i,
    "the least that moves beside": lambda i: filled(LEAST_ALONE, i),
    "a byte less": lambda i: filled(LEAST_ALONE - 1, i),
    "an array": lambda i: np.arange(3_000.0 + 2 * i).reshape(-1, 1 + i % 2),
    "a long array": lambda i: filled(LEAST_MOVED + 13 * i, i),
    "bytes": lambda i: bytes(filled(3_001, i)),
    "long bytes": lambda i: bytes(filled(300_001 + i, i)),
    "long bytes of one length": lambda i: bytes(filled(LEAST_BYTES, i)),
    "two arrays": lambda i: [filled(LEAST_MOVED, i), {"other": filled(LEAST_MOVED + 1, i)}],
    "an array and a long pickle": lambda i: (LONG, filled(LEAST_MOVED, i)),
    "many arrays": lambda i: [filled(LEAST_MOVED, i + k) for k in range(MANY)],
}


def calls(comm, mine: list) -> list:
    """The results of all calls in which rank i passes its i-th object, or a root the i-th one to rank i."""
    size, rank, last = comm.size, comm.rank, comm.size - 1
    return [
        *(comm.broadcast_object(mine[root] if rank == root else None, root) for root in range(size)),
        comm.gather_object(mine[rank], last),
        comm.all_gather_object(mine[rank]),
        comm.scatter_object(mine if rank == last else None, last),
        comm.all_to_all_object([mine[(rank + i) % size] for i in range(size)]),
    ]


def wanted(size: int, rank: int, mine: list) -> list:
    turned = [mine[(rank + i) % size] for i in range(size)]
    return [*mine, mine if rank == size - 1 else None, mine, mine[rank], turned]


def test_all_kinds_side_by_side(ranks, several) -> None:
    def check(comm) -> list[str]:
        wrong, kinds = [], list(KINDS.items())
        for first in range(len(kinds)):
            for step in (0, 1, 5):
                chosen = [kinds[(first + step * i) % len(kinds)] for i in range(several)]
                mine = [make(i) for i, (_, make) in enumerate(chosen)]
                if not same(calls(comm, mine), wanted(several, comm.rank, mine)):
                    wrong.append(", ".join(name for name, _ in chosen))
        return wrong

    assert ranks(several, check) == [[]] * several


class Other(np.ndarray):
    pass


def test_bytes_that_are_of_one_length_on_some_ranks_only(ranks, n) -> None:
    """Every rank must know whether it is so on all of them. Bytes are filled after they have been made: their hash is
    that of what they hold, and those that are given stay as they are."""

    def check(comm) -> list[str]:
        wrong = []
        for odd in range(-1, comm.size):
            length = LEAST_BYTES + (comm.rank == odd)
            mine = [bytes(filled(length, comm.rank + i)) for i in range(comm.size)]
            before = list(map(bytearray, mine))
            for got, i in ((comm.all_to_all_object(mine), comm.rank), (comm.all_gather_object(mine[0]), 0)):
                want = [bytes(filled(LEAST_BYTES + (rank == odd), rank + i)) for rank in range(comm.size)]
                if got != want or list(map(hash, got)) != list(map(hash, want)) or set(map(type, got)) != {bytes}:
                    wrong.append(f"rank {odd} differs, block {i}")
            if list(map(bytearray, mine)) != before:
                wrong.append(f"rank {odd} differs: what was given has changed")
        return wrong

    assert ranks(n, check) == [[]] * n


def test_arrays_arrive_as_pickle_makes_them(ranks) -> None:
    def check(comm) -> list[str]:
        base = np.arange(600.0)
        locked = base.copy()
        locked.flags.writeable = False
        odd = {
            "read-only": locked,
            "big-endian": base.astype(">f8"),
            "Fortran": np.asfortranarray(base.reshape(20, 30)),
            "strided": base[::2],
            "with metadata": base.astype(np.dtype("f8", metadata={"unit": "m"})),
            "records": np.zeros(100, [("a", "i2"), ("b", "f8")]),
            "text": np.full(300, "text"),
            "objects": np.array([[1], {}] * 300, object),
            "dates": np.arange(600).astype("M8[D]"),
            "subclass": base.view(Other),
            "complex": base.astype(np.complex64),
            "bool": base > 300,
            "zero-d": np.zeros((), "S1000"),
        }
        wrong = []
        for name, one in odd.items():
            for got in (
                comm.broadcast_object(one),
                *comm.all_gather_object(one),
                comm.scatter_object([one] * comm.size),
            ):
                right = one if got is one else pickle.loads(pickle.dumps(one, 5))
                alike = type(got) is type(right) and got.dtype == right.dtype and got.shape == right.shape
                flags = [(x.flags.writeable, x.flags.c_contiguous, x.flags.f_contiguous) for x in (got, right)]
                if not (alike and got.tolist() == right.tolist() and flags[0] == flags[1]):
                    wrong.append(name)
        return wrong

    assert ranks(2, check) == [[]] * 2


def restored(data: bytes) -> str:
    return f"restored {len(data)}"


def test_a_reducer_of_the_user_is_used(ranks) -> None:
    def check(comm) -> list:
        given = np.zeros(1_000)
        before = comm.all_gather_object(given)[0].size
        copyreg.pickle(np.ndarray, lambda array: (restored, (array.tobytes(),)))
        try:
            return [before, comm.all_gather_object(given)]
        finally:
            del copyreg.dispatch_table[np.ndarray]

    assert ranks(2, check) == [[1_000, ["restored 8000"] * 2]] * 2


def test_arrays_of_many_shapes(ranks) -> None:
    """More than whose pickles are kept."""

    def check(comm) -> bool:
        given = [np.full((100 + i, 2), comm.rank, np.int16) for i in range(600)]
        return all(comm.all_gather_object(one)[1].shape == one.shape for one in given)

    assert ranks(2, check) == [True, True]
