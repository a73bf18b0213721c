"""What shows its memory can be read and written: the buffer protocol, the array interface, DLPack."""

import array
from typing import Any

import numpy as np
import pytest


class ByInterface:
    def __init__(self, of: np.ndarray):
        self._of = of
        self.__array_interface__ = of.__array_interface__


class ByDLPack:
    def __init__(self, of: np.ndarray):
        self._of = of

    def __dlpack__(self, **options: Any) -> Any:
        return self._of.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._of.__dlpack_device__()


class Elsewhere(ByDLPack):
    """What lies on a device of another kind."""

    def __dlpack__(self, **_options: Any) -> Any:
        raise BufferError("not on the CPU")


KINDS = {
    "interface": ByInterface,
    "dlpack": ByDLPack,
    "memoryview": memoryview,
    "array.array": lambda of: array.array("d", of.tolist()),
}


def content(what: Any) -> list[float]:
    return np.asarray(getattr(what, "_of", what)).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_array_likes_in_and_out(ranks, kind):
    def use(comm) -> list:
        make, told = KINDS[kind], []
        x = make(np.arange(4.0))
        whole, same, part = make(np.zeros(8)), make(np.zeros(4)), make(np.zeros(2))
        pair = [make(np.zeros(4)), make(np.zeros(4))]
        counted = make(np.zeros(8))
        for result, out in (
            (comm.all_reduce(x, out=same), same),
            (comm.all_gather(x, out=whole), whole),
            (comm.reduce_scatter(x, out=part), part),
            (comm.all_gather(x, out=pair), pair),
            (comm.all_gather_v(x, out=counted)[0], counted),
            (comm.all_reduce(x, out=same, async_op=True).wait(), same),
        ):
            assert result is out
            told.append([content(one) for one in out] if out is pair else content(out))
        return told

    x = [0.0, 1.0, 2.0, 3.0]
    twice = [2 * value for value in x]
    half = [twice[:2], twice[2:]]
    assert ranks(2, use) == [[twice, x + x, half[r], [x, x], x + x, twice] for r in range(2)]


def test_what_shows_no_memory_or_may_not_be_written(ranks):
    def use(comm) -> list[str]:
        told = []
        for out in (object(), Elsewhere(np.zeros(2)), memoryview(b"0123456789abcdef").cast("d"), 3):
            with pytest.raises((TypeError, ValueError)) as error:
                comm.all_reduce(np.zeros(2), out=out)
            told.append(str(error.value).partition(": ")[2])
        comm.barrier()
        return told

    assert ranks(1, use) == [
        [
            "out must be an array, got object",
            "out must be an array, got Elsewhere",
            "out is read-only",
            "out must be an array, got int",
        ]
    ]
