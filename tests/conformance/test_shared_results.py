"""Results that all ranks share: who frees them, what is refused, and what a death leaves. Their values are in
`tests/support/cases_shared_results.py`."""

import gc
import os
import signal
from typing import Any

import numpy as np
import pytest

from shmcoll.errors import ArenaError, RankFailed
from tests.support import switches

LENGTH = 1 << 20  # bytes of a result
WORDS = 4096  # the page of the words behind it, which its owner frees later


def in_turn(comm: Any, order: list[int]) -> list[int]:
    """Drop the arrays in an order. Returns how many MiB the arena has more before each; then what is left."""
    comm.all_gather(np.zeros(1, np.uint8), shared=True)
    comm.barrier()
    switches.give_back_memory(comm)
    comm.barrier()
    before = switches.committed(comm)
    comm.barrier()
    x = np.full(LENGTH // comm.size, comm.rank + 1, np.uint8)
    mine = comm.all_gather(x, shared=True)
    view = mine[5:]
    mine = None
    told = []
    for rank in order:
        comm.barrier()
        told.append(switches.committed(comm) - before >> 20)
        comm.barrier()
        if comm.rank == rank:
            assert view[0] == 1 and view[-1] == comm.size and view.flags.c_contiguous
            view = None
            gc.collect()
    comm.barrier()
    told.append(switches.committed(comm) - before)
    comm.barrier()
    switches.give_back_memory(comm)
    comm.barrier()
    return [*told, switches.committed(comm) - before, switches.held_by_ranks(comm)]


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]])
def test_the_last_rank_frees_the_memory(ranks: Any, order: list[int]) -> None:
    for told in ranks(4, in_turn, order):
        assert told[:4] == [1, 1, 1, 1]
        assert told[4] in (0, WORDS)
        assert told[5:] == [0, 0]


def many(comm: Any) -> int:
    """In a loop, memory is taken for two results at most: the one before, and the new one."""
    x = np.full(LENGTH // comm.size, comm.rank, np.uint8)
    for i in range(20):
        result = comm.all_gather(x, shared=True)
        assert result[-1] == comm.size - 1, i
    works = [comm.broadcast(x if comm.rank == 1 else None, 1, shared=True, async_op=True) for _ in range(3)]
    assert all((work.wait() == 1).all() for work in works)
    return switches.held_by_ranks(comm)


def test_a_loop_takes_no_more_and_more_memory(ranks: Any) -> None:
    ranks(2, many, environment=switches.heap("4M"))


def results_of_the_dead(comm: Any, dies: int) -> tuple[bool, bool]:
    mine = comm.all_gather(np.full(LENGTH // 3, comm.rank, np.uint8), shared=True)
    comm.barrier()
    if comm.rank == dies:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RankFailed):
        comm.barrier()
    group = comm.shrink()
    is_right = all((mine[r * (LENGTH // 3) : (r + 1) * (LENGTH // 3)] == r).all() for r in range(3))
    before = switches.committed(comm)
    group.barrier()
    del mine
    gc.collect()
    group.barrier()
    return is_right, switches.committed(comm) <= before - LENGTH + 2 * WORDS


@pytest.mark.parametrize("dies", [0, 1])
def test_a_dead_rank_holds_nothing_and_a_dead_owner_takes_nothing_away(ranks: Any, dies: int) -> None:
    told = [outcome.value for outcome in ranks.start(3, results_of_the_dead, dies).finish() if outcome.rank != dies]
    assert told == [(True, True)] * 2


def dies_in_the_call(comm: Any, dies: int) -> int:
    """Rank `dies` ends after the others have learned of the memory, and before it has committed its part."""
    if comm.rank == dies:
        switches.commit_shared_results(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(RankFailed) as told:
        comm.all_gather(np.ones(LENGTH, np.uint8), shared=True)
    assert f"rank {dies} " in str(told.value)
    del told
    gc.collect()
    group = comm.shrink()
    group.barrier()
    switches.give_back_memory(comm)
    group.barrier()
    held = switches.held(comm)
    group.close()
    return held


@pytest.mark.parametrize("dies", [0, 2])
def test_a_rank_that_dies_in_the_call_leaves_no_memory_held(ranks: Any, dies: int) -> None:
    told = [outcome.value for outcome in ranks.start(3, dies_in_the_call, dies).finish() if outcome.rank != dies]
    assert told[0] < 2 * LENGTH  # the region of the group of the survivors, which its lowest rank has made
    assert told[1] == 0


def planned(comm: Any) -> bool:
    """Calls in turn with asynchronous ones; results are the same array, and nobody reads what comes later."""
    x, n = np.zeros(9), comm.size
    gathers, roots = comm.plan("all_gather", x[::2], shared=True), comm.plan("gather", x, 1, shared=True)
    scatters = comm.plan("scatter", x[: 2 * n] if comm.rank == 1 else None, 1, shared=True)
    first = None
    for i in range(6):
        x[:] = 10 * i + comm.rank
        whole = gathers.start().wait() if i % 2 else gathers()
        first = whole if first is None else first
        assert whole is first and not whole.flags.writeable
        assert whole.tolist() == np.repeat(10.0 * i + np.arange(n), 5).tolist()
        assert scatters().tolist() == [10 * i + 1] * 2
        got = roots()
        assert (got is None) == (comm.rank != 1)
        assert got is None or got[-1] == 10 * i + n - 1
        assert whole[-1] == 10 * i + n - 1
    return True


def test_a_plan_writes_into_one_result(ranks: Any) -> None:
    assert all(ranks(3, planned))


def refusals(comm: Any) -> list[str]:
    told = []
    for call in (
        lambda: comm.all_gather(np.ones(3 + comm.rank), shared=True),
        lambda: comm.all_gather(np.ones(3, "float32" if comm.rank else "float64"), shared=True),
        lambda: comm.gather(np.array(["a" * (comm.rank + 1)]), 1, shared=True),
    ):
        with pytest.raises(ValueError, match="the arrays differ") as error:
            call()
        told.append(str(error.value))
    for call in (
        lambda: comm.all_gather(np.ones(3), out=np.ones(3 * comm.size), shared=True),
        lambda: comm.scatter(np.ones((comm.size, 3)), comm.rank, out=np.ones((1, 3)), shared=True),
        lambda: comm.scatter(np.ones(comm.size + 1), comm.rank, shared=True),
        lambda: comm.broadcast(None, comm.size, shared=True),
        lambda: comm.plan("all_gather", np.ones(3), out=np.ones(3 * comm.size), shared=True),
    ):
        with pytest.raises(ValueError, match=r"shared=True|cannot be split|is not a rank"):
            call()
    with pytest.raises(TypeError, match="broadcast_object"):
        comm.broadcast(object(), comm.rank, shared=True)
    assert comm.gather(np.ones(1), 0, out=None if comm.rank == 0 else np.ones(7), shared=True) is None or comm.rank == 0
    comm.barrier()
    return told


def test_arrays_that_differ_are_refused_on_all_ranks(ranks: Any) -> None:
    first, second = ranks(2, refusals)
    assert first == second
    ends = "; with shared=True, shape and dtype are equal on all ranks"
    assert first[0] == f"all_gather: the arrays differ: float64[3] on rank 0, float64[4] on rank 1{ends}"
    assert first[1] == f"all_gather: the arrays differ: float64[3] on rank 0, float32[3] on rank 1{ends}"
    assert first[2] == f"gather: the arrays differ: <U1[1] on rank 0, <U2[1] on rank 1{ends}"


def too_much(comm: Any) -> list[Any]:
    told = []
    x = np.ones(1 << 20)
    for call in (
        lambda: comm.all_gather(x, shared=True),
        lambda: comm.broadcast(x if comm.rank == 1 else None, 1, shared=True),
        lambda: comm.gather(x, 1, shared=True, async_op=True).wait(),
        lambda: comm.scatter(x, shared=True),
    ):
        with pytest.raises(ArenaError) as error:
            call()
        told.append((str(error.value).partition(": ")[2], error.value.needed, error.value.available))

    def refuse(*_: Any) -> None:
        raise ArenaError("no", needed=3 << 20, available=1 << 20)

    commit = switches.commit_shared_results(refuse) if comm.rank == 1 else None
    with pytest.raises(ArenaError, match="rank 1 found no memory for its part of the shared result of all_gather") as e:
        comm.all_gather(np.ones(3), shared=True)
    assert (e.value.needed, e.value.available) == (3 << 20, 1 << 20)
    if commit is not None:
        switches.commit_shared_results(commit)
    del error, e
    gc.collect()
    assert comm.all_gather([comm.rank], shared=True).tolist() == [0, 1]
    comm.barrier()
    switches.give_back_memory(comm)
    comm.barrier()
    return [told, switches.held_by_ranks(comm)]


def test_too_little_memory_is_told_on_all_ranks_and_nothing_is_held(ranks: Any) -> None:
    (told, held), other = ranks(2, too_much, environment=switches.heap("4M"))
    assert (told, 0) == (other[0], held)
    for text, needed, available in told:
        assert text.startswith("the heap is full: ")
        assert needed >= 8 << 20 > 4 << 20 >= available


def forks(comm: Any) -> tuple[int, bool]:
    """A child does not see the result, and does not free it."""
    mine = comm.all_gather(np.full(LENGTH // 2, 7, np.uint8), shared=True)
    pid = os.fork()
    if pid == 0:
        seen = int(mine.max())
        del mine
        gc.collect()
        os._exit(seen)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    comm.barrier()
    return status, bool((mine == 7).all())


def test_a_forked_child_reads_zeros_and_frees_nothing(ranks: Any) -> None:
    assert ranks(2, forks) == [(0, True)] * 2
