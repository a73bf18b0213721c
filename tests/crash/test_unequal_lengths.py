"""Arrays and counts of unequal lengths: errors that name the call to use, in rows where rows are counted."""

import numpy as np
import pytest

from shmcoll import CollectiveMismatch

SAME = "All ranks must make the same calls in the same order."
UNLIKE = {
    "gather": (
        lambda c: c.gather(np.ones(2 + c.rank)),
        "For arrays of different lengths use gather_v(x, root, axis=0).",
    ),
    "all_gather": (
        lambda c: c.all_gather(np.ones((2 + c.rank, 3))),
        "For arrays of different lengths use all_gather_v(x, axis=0).",
    ),
    "rows": (
        lambda c: c.all_gather(np.ones((2, 3 + c.rank))),
        "For arrays of different shapes use all_gather_object, or all_gather_v(x), which flattens them.",
    ),
    "dtypes": (lambda c: c.all_gather(np.ones(2, "i4" if c.rank else "i8")), SAME),
    "dates": (  # which have a dtype in common
        lambda c: c.all_gather(np.ones(2 + c.rank, "M8[s]" if c.rank else "M8[D]")),
        "For arrays of different lengths use all_gather_v(x, axis=0).",
    ),
    "dimensions": (lambda c: c.gather(np.ones((2,) * (1 + c.rank))), SAME),
    "roots": (lambda c: c.gather(np.ones(2 + c.rank), c.rank), SAME),
    "calls": (lambda c: c.gather(np.ones(2)) if c.rank else c.all_gather(np.ones(3)), SAME),
    "others": (lambda c: c.all_reduce(np.ones(2 + c.rank)), SAME),
}


def advice(comm, name: str) -> str:
    with pytest.raises(CollectiveMismatch) as error:
        UNLIKE[name][0](comm)
        comm.barrier()  # a rank that has run ahead learns of it here
    return str(error.value)


@pytest.mark.parametrize("name", UNLIKE)
def test_a_mismatch_of_lengths_names_the_call_to_use(ranks, name):
    told = ranks(2, advice, name)
    assert told[0] == told[1]
    assert told[0].endswith(f". {UNLIKE[name][1]}")


ROWS = np.ones((4, 3))
DATES = np.zeros((4, 3), "M8[s]")
#: of 2 ranks: the call, and the words of both
UNFIT = {
    "expected": (
        lambda c: c.all_to_all_v(ROWS, [2, 2], recv_counts=[1, 2], axis=0),
        "all_to_all_v #1: rank 0 expects 1 rows from rank 0, which sends 2",
    ),
    "room": (
        lambda c: c.all_to_all_v(ROWS, [2, 2], recv_room=[2, 1], axis=0),
        "all_to_all_v #2: rank 1 sends 2 rows to rank 0, which has room for 1",
    ),
    "out": (
        lambda c: c.all_gather_v(ROWS, out=np.ones((7, 3)), axis=0),
        "all_gather_v #3: 4 rows from rank 1 at displacement 4 of rank 0 do not fit its result of 7",
    ),
    "source": (
        lambda c: c.scatter_v(ROWS, send_counts=[2, 3], axis=0),
        "scatter_v #4: rank 0 sends 3 rows from displacement 2 to rank 1, but its source has 4",
    ),
    "overlap": (
        lambda c: c.gather_v(ROWS, recv_displs=[0, 2], out=np.ones((8, 3)), axis=0),
        "gather_v #5: what rank 0 receives from ranks 0 and 1 overlaps at displacement 2",
    ),
    "foreign rows": (
        lambda c: c.scatter_v(DATES, send_counts=[2, 2], out=DATES[: 1 + c.rank].copy(), axis=0),
        "scatter_v #6: rank 0 expects 1 rows from rank 0, which sends 2",
    ),
    "foreign elements": (  # #7 compares the dtypes of the ranks
        lambda c: c.all_gather_v(DATES, recv_counts=[12, 9]),
        "all_gather_v #8: rank 0 expects 9 elements from rank 1, which sends 12",
    ),
    "known elements": (
        lambda c: c.all_gather_v(ROWS, recv_counts=[12, 9]),
        "all_gather_v #9: rank 0 expects 9 elements from rank 1, which sends 12",
    ),
    "of the native entry": (
        lambda c: c.all_to_all_v(np.ones(4), [2, 2], out=np.ones(3)),
        "all_to_all_v #10: 2 elements from rank 1 at displacement 2 of rank 0 do not fit its result of 3",
    ),
}


def unfit(comm) -> list[str]:
    told = []
    for call, _ in UNFIT.values():
        with pytest.raises(ValueError) as error:
            call(comm)
        told.append(str(error.value))
    comm.barrier()
    return told


def test_counts_that_do_not_fit_are_told_as_the_user_counts(ranks):
    assert ranks(2, unfit) == [[words for _, words in UNFIT.values()]] * 2


def lists(comm) -> list[str]:
    told = []
    for call in (
        lambda: comm.all_gather(np.ones(2), out=[np.ones(2), np.ones(3)]),
        lambda: comm.gather(np.ones(2), out=[np.ones(2), np.ones(3)]),
    ):
        with pytest.raises(ValueError) as error:
            call()
        told.append(str(error.value))
    return told


def test_a_list_of_unequal_outs_names_the_call_to_use(ranks):
    told = ranks(2, lists_on_the_root)[0]
    use = "array 1 of out has shape (3,), the result has (2,); for parts of different lengths use"
    assert told == [
        f"all_gather on rank 0: {use} all_gather_v(x, axis=0), or all_gather_object",
        f"gather on rank 0: {use} gather_v(x, root, axis=0), or gather_object",
    ]


def lists_on_the_root(comm) -> list[str]:
    return lists(comm) if comm.rank == 0 else []
