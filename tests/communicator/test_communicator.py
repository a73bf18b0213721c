"""The communicator itself: what it tells about the group, its limit of a wait, results that are the user's own."""

import os

import numpy as np
import pytest

from shmcoll.errors import CollectiveTimeout
from tests.support import switches
from tests.support.calls import SHORT
from tests.support.waiting import until_ended


def test_what_it_says_of_itself(ranks):
    def said(comm) -> tuple:
        return comm.rank, comm.size, comm.ranks, comm.name, comm.launcher, comm.timeout, repr(comm)

    told = ranks(2, said, timeout=7.5)
    assert told == [
        (r, 2, [0, 1], "world", "shmrun", 7.5, f"<shmcoll.Communicator world: rank {r} of 2>") for r in range(2)
    ]


def test_the_limit_of_a_wait_can_be_set(ranks):
    def limits(comm) -> list[str]:
        comm.timeout = 0.25
        told = [str(comm.timeout)]
        for bad in (0, -1, float("nan"), float("inf"), 1e10):
            with pytest.raises(
                ValueError, match="timeout must be a positive number of seconds, from 1e-6 to 1e9, got"
            ) as error:
                comm.timeout = bad
            told.append(str(error.value).rpartition(" ")[2])
        comm.timeout = 1e9
        return told

    assert ranks(1, limits) == [["0.25", "0", "-1", "nan", "inf", "10000000000.0"]]


def test_no_error_before_the_limit_and_one_soon_after(ranks, allowed):
    def alone(comm) -> float:
        import time

        if comm.rank == 1:
            until_ended(comm)
            return 0.0
        comm.timeout = 0.3
        begin = time.monotonic()
        with pytest.raises(
            CollectiveTimeout,
            match=r"barrier #1 on rank 0 at .*test_communicator\.py:\d+: timed out after 0\.3 s; rank 1 did not arrive",
        ):
            comm.barrier()
        return time.monotonic() - begin

    assert 0.3 <= ranks(2, alone)[0] < 0.3 + allowed(1.0)


def test_a_result_is_new_unless_out_is_given(ranks):
    def own(comm) -> list[bool]:
        x = np.ones((2, 2))
        told = []
        for call in (comm.all_reduce, comm.all_to_all, comm.gather, comm.all_gather, comm.scatter):
            first, second = call(x), call(x)
            told += [not np.shares_memory(a, b) for a, b in ((first, x), (second, x), (first, second))]
            told.append(first.flags.c_contiguous and first.flags.writeable)
        got, counts = comm.all_to_all_v(x, [4])
        return [*told, not np.shares_memory(got, x), got.shape == (4,), counts.tolist() == [4]]

    assert all(ranks(1, own)[0])


def test_one_rank_alone_copies(ranks):
    def alone(comm) -> list:
        x = np.arange(6.0).reshape(2, 3)
        return [
            comm.barrier(),
            *[comm.all_reduce(x, op).tolist() for op in ("sum", "prod", "min", "max", "avg")],
            comm.all_to_all(x, 1, 0).tolist(),
            comm.gather(x).tolist(),
            comm.broadcast(x).tolist(),
            comm.all_gather(x).tolist(),
            comm.scatter(x).tolist(),
            comm.scatter([x]).tolist(),
            comm.all_to_all([x]).tolist(),
            comm.all_to_all_v(x, [2], [3], recv_displs=[1])[0].tolist(),
        ]

    x = [[0.0, 1, 2], [3, 4, 5]]
    assert ranks(1, alone) == [[None, *[x] * 5, *[x] * 7, [0.0, 3.0, 4.0]]]


@pytest.mark.slow
def test_thousands_of_operations_use_no_more_memory(ranks):
    def grow(comm) -> int:
        import resource

        def peak() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        for _ in range(300):
            for call in SHORT.values():
                call(comm)
        before = peak()
        for _ in range(2000):
            for call in SHORT.values():
                call(comm)
        return peak() - before

    assert max(ranks(2, grow)) < 2048  # KiB


def test_a_forked_child_is_no_rank(ranks):
    def fork(comm) -> list[str]:
        comm.all_reduce(np.ones(2))
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            told = []
            for call in (comm.barrier, lambda: comm.all_reduce(np.ones(2)), lambda: comm.gather(1)):
                with pytest.raises(ValueError, match="median"):
                    comm.all_reduce(np.ones(2), "median")
                try:
                    call()
                    told.append("no error")
                except RuntimeError as error:
                    told.append(str(error))
            os.write(write, "\n".join(told).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        with open(read, "rb") as answers:
            told = answers.read().decode().splitlines()
        comm.barrier()
        assert switches.pid_of(comm, comm.rank) == os.getpid()
        return told

    for told in ranks(2, fork):
        assert len(told) == 3
        assert all("this process was forked by rank" in text and "not a rank itself" in text for text in told)


def test_seven_kinds_of_crowding(ranks):
    """More ranks than cores by far: everybody yields, nobody starves."""
    told = ranks(12, lambda comm: [call(comm) for _ in range(20) for call in SHORT.values()])
    assert told == [[None] * 20 * len(SHORT)] * 12
