"""Text, dates and records whose dtype differs between ranks: all get the dtype that can hold all, or the same error."""

from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.calls import common_dtype

#: the dtype on rank 0, on the others, and of the result
DTYPES = [
    ("U1", "U7", "U7"),
    ("S3", "S1", "S3"),
    ("S5", "U1", "U5"),
    ("M8[D]", "M8[s]", "M8[s]"),
    ("m8[h]", "m8[ms]", "m8[ms]"),
    ([("id", "i4"), ("name", "U1")], [("id", "i4"), ("name", "U3")], [("id", "i4"), ("name", "U3")]),
]


def moved(comm: Any, x: np.ndarray, *, later: bool) -> dict[str, Any]:
    """The result of every call in which all ranks pass an array."""
    n, how = comm.size, {"async_op": True} if later else {}
    ring = [(r, (r + 1) % n) for r in range(n)]
    works = {
        "all_gather": lambda: comm.all_gather(x, **how),
        "gather": lambda: comm.gather(x, n - 1, **how),
        "all_to_all": lambda: comm.all_to_all(x, **how),
        "all_to_all, axes": lambda: comm.all_to_all(x, 0, 1, **how),
        "all_to_all, list": lambda: comm.all_to_all(list(np.split(x, n)), **how),
        "collective_permute": lambda: comm.collective_permute(x, iter(ring), **how),
        "all_gather_v": lambda: comm.all_gather_v(x[comm.rank :], **how),
        "gather_v": lambda: comm.gather_v(x[comm.rank :], n - 1, axis=0, **how),
        "all_to_all_v": lambda: comm.all_to_all_v(x, [x.size // n] * n, **how),
    }
    results = {name: work().wait(30) if later else work() for name, work in works.items()}
    return {name: one[0] if isinstance(one, tuple) else one for name, one in results.items()}


def of_different_dtypes(comm: Any) -> list[str]:
    told = []
    for first, others, whole in DTYPES:
        dtype = np.dtype(first if comm.rank == 0 else others)
        numbers = np.arange(comm.size * 4).reshape(-1, 2) % 9 + comm.rank % 2
        values = (
            [(int(i), str(i)) for i in numbers.flat]
            if dtype.names
            else numbers.astype(str if dtype.kind in "US" else int)
        )
        x = np.array(values, dtype).reshape(numbers.shape)
        for later in (False, True):
            got, wanted = (moved(comm, one, later=later) for one in (x, x.astype(whole)))
            for name, one in got.items():
                same = one is None if wanted[name] is None else np.array_equal(one, wanted[name])
                if not same or (one is not None and one.dtype != np.dtype(whole)):
                    told.append(f"{name} of {dtype}")
    return told


def test_all_ranks_get_the_dtype_that_holds_all(ranks, few):
    for told in ranks(few, of_different_dtypes):
        assert not told, "\n".join(told)


def refused(comm: Any) -> list[str]:
    """What has no common dtype, and what cannot be converted because a rank passes `out`."""
    told = []
    for first, second, later in (("U1", "M8[s]", False), ("V3", "V4", True), ("i4,U2", "f4,U2,U2", False)):
        x = np.zeros((2, 3), second if comm.rank else first)
        with pytest.raises(ValueError, match="arrays have different dtypes: ") as error:
            comm.all_gather(x, async_op=True).wait(30) if later else comm.all_gather(x)
        told.append(str(error.value))
    x = np.zeros((2, 3), "U2" if comm.rank else "U1")
    out = np.full((4, 3), "z") if comm.rank == 0 else None
    with pytest.raises(ValueError, match="and a rank passes out: <U1 on rank 0, <U2 on rank 1; ") as error:
        comm.all_gather(x, out=out)
    assert out is None or (out == "z").all()
    return [*told, str(error.value), repr(comm.all_gather([1]).tolist())]


def test_the_error_is_the_same_on_all_and_the_group_lives_on(ranks):
    first, second = ranks(2, refused)
    assert first == second
    assert first[-1] == "[1, 1]"


def interrupted(comm: Any, where: str) -> str:
    """Rank 1 leaves between two operations of the call."""

    def leave(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    if comm.rank == 1:
        setattr(common_dtype, where, leave)
    x = np.full(4, "a" * (1 + comm.rank))
    with pytest.raises(KeyboardInterrupt if comm.rank else shmcoll.RankFailed) as error:
        comm.all_gather(x)
    return str(error.value)


@pytest.mark.parametrize("where", ["_common", "reduce", "dtype_in_words"])
def test_a_rank_that_leaves_between_two_operations_keeps_nobody_waiting(ranks, where):
    assert "rank 1 was interrupted" in ranks(2, interrupted, where)[0]


def test_other_calls_are_told_apart_from_the_first_operation(ranks):
    """Whose array could be taken for what the ranks tell each other."""

    def unlike(comm: Any) -> str:
        with pytest.raises(shmcoll.CollectiveMismatch) as error:
            comm.all_gather(np.zeros(2, np.int64)) if comm.rank else comm.gather(np.zeros(2, "U3"))
        return str(error.value)

    first, second = ranks(2, unlike)
    assert first == second
    assert "rank 0 called gather(text, dates or records) at " in first
    assert "rank 1 called all_gather(int64[2]) at " in first
