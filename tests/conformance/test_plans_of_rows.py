"""Plans of calls that count rows, and of arrays whose dtype routines do not know: as the methods, on real ranks."""

import numpy as np
import pytest

COUNTED = [np.dtype("i8"), np.dtype("M8[D]"), np.dtype([("a", "u1"), ("b", "f8")])]


def fresh(array: np.ndarray, seed: int) -> None:
    """Other contents, of a dtype of whatever kind."""
    count = array.size * array.itemsize // (8 if array.dtype.names is None else 9)
    values = np.arange(count).reshape(array.shape) % 100 + 3 * seed
    if array.dtype.names is None:
        array[...] = values.astype(array.dtype)
    else:
        array["a"], array["b"] = values % 200, values / 2


def compare(comm, dtype: np.dtype) -> list[str]:
    """What differs between three calls of each plan and the method; and that a peer may call the method instead."""
    n, rank, wrong = comm.size, comm.rank, []
    counts = [i + 1 for i in range(n)]
    total, mine, root = sum(counts), rank + 1, n - 1
    whole, own, equal = (np.zeros((rows, 3), dtype) for rows in (total, mine, n))

    def made(rows: int) -> np.ndarray:
        return np.zeros((rows, 3), dtype)

    calls = []
    for axis, unit in ((0, 1), (None, 3)):
        how = {"axis": axis}
        sizes = [count * unit for count in counts]
        calls += [
            ("all_gather_v", (own,), {"out": made(total), **how}),
            ("gather_v", (own, root), {"out": made(total) if rank == root else None, **how}),
            ("scatter_v", (whole, root), {"send_counts": sizes, "out": made(mine), **how}),
            ("all_to_all_v", (whole, sizes), {"out": made(n * mine), "recv_room": [mine * unit] * n, **how}),
        ]
        if dtype == np.int64:
            calls.append(("reduce_scatter_v", (whole, sizes, "max"), how))
    calls += [
        ("broadcast", (own[:1], root), {}),
        ("scatter", (equal, root), {"out": made(1)}),
        ("all_gather", (equal,), {}),
        ("gather", (equal, root), {}),
        ("all_to_all", (equal,), {}),
        ("collective_permute", (equal, [(i, (i + 1) % n) for i in range(n)]), {}),
    ]
    for operation, args, keywords in calls:
        plan = comm.plan(operation, *args, **keywords)
        for i in range(3):
            for array in (whole, own, equal):
                fresh(array, 7 * i + rank)
            got = plan.start().wait(20) if i == 2 else plan()
            got = got[0] if type(got) is tuple else got
            told = None if got is None else got.copy()
            for array in (whole, own, equal):
                fresh(array, 7 * i + rank)
            again = {**keywords, "out": keywords["out"].copy()} if keywords.get("out") is not None else keywords
            if i == 1 and rank == 0:
                wanted = plan()  # beside ranks that call the method
            else:
                wanted = getattr(comm, operation)(*args, **again)
            wanted = wanted[0] if type(wanted) is tuple else wanted
            if (told is None) != (wanted is None) or (told is not None and not (told == wanted).all()):
                wrong.append(f"{operation} {keywords} of {dtype}, call {i}: {told}, not {wanted}")
            if keywords.get("out") is not None and keywords["out"] is not got:
                wrong.append(f"{operation}: out was not returned")
    return wrong


@pytest.mark.parametrize("number", range(len(COUNTED)), ids=str)
def test_plans_do_what_the_methods_do(ranks, number):
    size = 3 - number % 2
    assert ranks(size, compare, COUNTED[number]) == [[]] * size


def refused(comm) -> list[str]:
    dates, told = np.zeros(2 * comm.size, "M8[s]"), []
    for operation, args, keywords in (
        ("broadcast", (None if comm.rank else dates[::2],), {}),
        ("scatter_v", (dates,), {"send_counts": [2] * comm.size}),
        ("all_gather_v", (np.array(1),), {"axis": 0, "out": np.zeros(2, int)}),
        ("all_gather_v", (np.ones((2, 3)),), {"axis": 0, "out": np.zeros((2, 4))}),
        ("all_gather_v", (np.ones((2, 3)),), {"axis": 1, "out": np.zeros((4, 3))}),
    ):
        with pytest.raises(ValueError) as caught:
            comm.plan(operation, *args, **keywords)
        told.append(str(caught.value))
    comm.barrier()  # the group goes on
    return told


def test_what_cannot_be_planned_leaves_the_group_as_it_is(ranks):
    copied = "would be copied at every call: it is not C-contiguous"
    both = ranks(2, refused)
    assert both[0][0].startswith(f"plan of broadcast on rank 0: x {copied}")
    assert both[1][0] == "plan of broadcast on rank 1: only the call finds out the size of its result; pass out"
    for rank, told in enumerate(both):
        assert told[1].startswith("plan of scatter_v on rank ")
        assert told[2].startswith(f"all_gather_v on rank {rank}: x is 0-d and has no rows")
        assert told[3].startswith(f"all_gather_v on rank {rank}: out has shape (2, 4), a row of the result has (3,)")
        assert told[4].startswith(f"all_gather_v on rank {rank}: axis must be 0, to count rows, or None")
