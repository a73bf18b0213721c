"""Collectives called from jitted code, on real ranks."""

import faulthandler
import os
import signal
import threading
import time

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import TypingError

from shmcoll import jit
from shmcoll.errors import CollectiveMismatch, RankFailed
from tests.support.sleepers import signal_when_asleep

HANDLE = types.Array(types.int64, 1, "C", readonly=True)


@pytest.fixture(autouse=True, scope="module")
def compiled():
    """Once, in the process from which ranks are forked, and not in each of them."""
    faulthandler.cancel_dump_traceback_later()  # numba may take longer on a busy machine
    barriers.compile((HANDLE, types.int64))
    for kind in (types.float64, types.int64):
        reduced.compile((HANDLE, *[types.Array(kind, 1, "C")] * 2, types.int64))
    for kind in (types.float64, types.float32, types.int16, types.complex64):
        everything.compile((HANDLE, *[types.Array(kind, 2, "C")] * 5))


OPERATORS = ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "lxor")


@njit(nogil=True)
def everything(h, x, total, all_of_them, mine, exchanged):
    """Each collective once; x has a block a rank. Returns what is in x after a broadcast from rank 1."""
    jit.barrier(h)
    jit.all_reduce(h, x, total)
    jit.all_gather(h, x, all_of_them)
    jit.reduce_scatter(h, x, mine, jit.MAX)
    jit.all_to_all(h, x, exchanged)
    jit.all_reduce(h, x, x, jit.MIN)
    jit.broadcast(h, x, 1)
    return x.sum()


def conform(comm) -> dict[str, list[str]]:
    """What is wrong, by dtype and length."""
    told = {
        f"{dtype} {length}": wrong_results(comm, dtype, length)
        for dtype, length in (("float64", 1), ("float32", 0), ("int16", 50_000), ("complex64", 700))
    }
    return {case: wrong for case, wrong in told.items() if wrong}


def wrong_results(comm, dtype: str, length: int) -> list[str]:
    n, rank = comm.size, comm.rank
    whole = [(np.arange(n * length * 3).reshape(n * length, 3) % 11 + r).astype(dtype) for r in range(n)]
    x, total, exchanged = whole[rank].copy(), np.empty_like(whole[0]), np.empty_like(whole[0])
    every, mine = np.empty((n * n * length, 3), dtype), np.empty((length, 3), dtype)
    result = everything(comm.handle, x, total, every, mine, exchanged)
    own = slice(rank * length, (rank + 1) * length)
    wanted = {
        "all_reduce": (total, np.sum(whole, 0, dtype)),
        "all_gather": (every, np.concatenate(whole)),
        "reduce_scatter": (mine, np.max([w[own] for w in whole], 0)),
        "all_to_all": (exchanged, np.concatenate([w[own] for w in whole])),
        "broadcast": (x, np.min(whole, 0)),
        "result": (result, np.min(whole, 0).sum()),
    }
    return [name for name, (got, should) in wanted.items() if not np.array_equal(got, should)]


def test_results(ranks, few):
    assert ranks(few, conform) == [{}] * few


@njit
def reduced(h, x, out, op):
    jit.all_reduce(h, x, out, op)


def operators(comm) -> list[str]:
    x = np.arange(6, dtype=np.int64) + comm.rank
    out, wrong = np.empty_like(x), []
    for name in OPERATORS:
        values = x.astype(np.float64) if name == "avg" else x
        result = np.empty_like(values)
        reduced(comm.handle, values, result, getattr(jit, name.upper()))
        if not np.array_equal(result, comm.all_reduce(values, name)):
            wrong.append(name)
    jit.all_reduce(comm.handle, x, out)  # from Python
    return wrong if np.array_equal(out, comm.all_reduce(x)) else [*wrong, "from Python"]


def test_operators(ranks):
    assert ranks(2, operators) == [[], []]


@njit
def transposed(h, x):
    jit.all_reduce(h, x.T, x)


def read_only(count: int) -> np.ndarray:
    array = np.arange(float(count))
    array.flags.writeable = False
    return array


@njit(nogil=True)
def broadcast_of(h, x, root):
    jit.broadcast(h, x, root)


def broadcast_of_the_read_only(comm) -> list[float]:
    x = read_only(4) if comm.rank == 0 else np.zeros(4)
    broadcast_of(comm.handle, x, 0)
    comm.barrier()
    if comm.rank:
        with pytest.raises(TypeError, match="x is read-only; on all ranks except the root it is written"):
            broadcast_of(comm.handle, read_only(4), 0)
        with pytest.raises(TypingError, match="root must be an integer, got float64"):
            broadcast_of(comm.handle, x, 0.5)
    return x.tolist()


def test_the_roots_array_may_be_read_only(ranks):
    assert ranks(2, broadcast_of_the_read_only) == [[0.0, 1.0, 2.0, 3.0]] * 2


@njit
def reduced_by_name(h, x):
    jit.all_reduce(h, x, x, "max")


def refused(comm) -> list[str]:
    h, x = comm.handle, np.ones(4)
    told = []
    for call in (
        lambda: reduced(h, x, np.ones(5), jit.SUM),
        lambda: reduced(h, x, np.ones(4, np.float32), jit.SUM),
        lambda: reduced(h, x, x, 99),
        lambda: reduced(h, x, x, jit.BXOR),
        lambda: reduced(h.copy(), x, x, jit.SUM),
        lambda: reduced(x, x, x, jit.SUM),
        lambda: transposed(h, np.ones((2, 3))),
        lambda: reduced(h, np.ones(3, ">f8"), x, jit.SUM),
        lambda: reduced(h, x, x, 1.5),
        lambda: reduced(h, x, read_only(4), jit.SUM),
        lambda: jit.all_reduce(h, x, x, "max"),
        lambda: reduced_by_name(h, x),
    ):
        with pytest.raises((ValueError, TypeError, TypingError)) as caught:
            call()
        told.append(f"{type(caught.value).__name__}: {caught.value}")
    comm.barrier()  # the group goes on
    return told


def test_bad_arguments_are_refused(ranks):
    told = ranks(2, refused)[1]
    assert told[0] == "ValueError: all_reduce on rank 1: out has shape (5,), the result has (4,)"
    assert told[1].startswith("TypeError: all_reduce on rank 1: out has dtype float32")
    operators = "pass jit.SUM, PROD, MIN, MAX, AVG, BAND, BOR, BXOR, LAND, LOR, LXOR"
    assert told[2] == f"ValueError: all_reduce on rank 1: 99 is not an operator of shmcoll.jit; {operators}"
    assert told[3].startswith("TypeError: all_reduce on rank 1: ")
    assert told[4] == (
        "ValueError: shmcoll.jit: the first argument must be comm.handle itself, "
        "of an open communicator of this process. Pass it to the jitted function as an argument: "
        "a global variable would be a copy"
    )
    assert "the first argument must be comm.handle, got array(float64, 1d, C)" in told[5]
    assert "x must be a C-contiguous array, got array(float64, 2d, F)" in told[6]
    assert f"op must be an integer, got float64; {operators}" in told[8]
    assert (
        told[10] == "ValueError: all_reduce on rank 1: 'max' is not an operator of shmcoll.jit; did you mean jit.MAX?"
    )
    assert "did you mean jit.MAX?" in told[11]
    assert "out is read-only" in told[9]
    assert "TypingError" in told[7] or "NumbaValueError" in told[7] or "unsupported" in told[7]


@njit(nogil=True)
def barriers(h, n):
    for _ in range(n):
        jit.barrier(h)


def lose(comm) -> list[str]:
    h = comm.handle
    barriers(h, 10)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    told = []
    for _ in range(2):
        with pytest.raises(RankFailed) as caught:
            barriers(h, 1_000_000)
        told.append(str(caught.value))
    return told


def test_a_dead_rank_raises_in_the_jitted_function(ranks):
    job = ranks.start(3, lose)
    for outcome in job.finish():
        if outcome.rank != 1:
            assert outcome.error is None, outcome.traceback
            assert all("rank 1" in text for text in outcome.value)


def disagree(comm) -> str:
    with pytest.raises(CollectiveMismatch) as caught:
        if comm.rank:
            barriers(comm.handle, 1)
        else:
            reduced(comm.handle, np.ones(2), np.ones(2), jit.SUM)
    return str(caught.value)


def test_a_mismatch_names_both_calls(ranks):
    told = ranks(2, disagree)
    assert told[0] == told[1]
    assert "all_reduce(float64[2], sum)" in told[0]
    assert "barrier()" in told[0]
    assert "test_jit.py" in told[0]


def interrupt(comm, own: bool) -> str:
    class Enough(Exception):
        pass

    def raise_enough(*_):
        raise Enough("no more")

    h = comm.handle
    barriers(h, 1)
    if comm.rank == 0:
        with pytest.raises(RankFailed) as caught:
            while True:  # rank 1 does not come any more
                time.sleep(0.3)
                comm.barrier()
        return str(caught.value)
    signal.signal(signal.SIGALRM, raise_enough if own else signal.default_int_handler)
    signal_when_asleep(comm)
    with pytest.raises(Enough if own else KeyboardInterrupt) as caught:
        barriers(h, 2)
    return str(caught.value)


@pytest.mark.parametrize("own", [True, False])
def test_a_signal_handler_raises_in_the_jitted_function(ranks, own):
    told = ranks(2, interrupt, own)
    assert "rank 1 was interrupted in barrier" in told[0]
    assert told[1] == ("no more" if own else "")


def beside_others(comm) -> list[int]:
    """Jitted code takes turns with asynchronous work, and with a thread of its own in another group."""
    other, total = comm.split(0), np.empty(1)
    ones = np.ones(1)
    thread = threading.Thread(target=barriers, args=(other.handle, 2000))
    thread.start()
    told = []
    for _ in range(50):
        work = comm.all_reduce(ones, async_op=True)
        reduced(comm.handle, ones, total, jit.SUM)
        told += [int(work.wait()[0]), int(total[0])]
    thread.join()
    return sorted(set(told))


def test_jitted_code_takes_turns(ranks):
    assert ranks(2, beside_others) == [[2], [2]]


def forgotten(comm) -> str:
    group = comm.split(0)
    h = group.handle
    group.close()
    with pytest.raises(RuntimeError) as caught:
        barriers(h, 1)
    comm.barrier()
    return str(caught.value)


def test_a_closed_communicator_is_refused(ranks):
    assert ranks(2, forgotten)[0].startswith("barrier on rank 0: this communicator is closed")
