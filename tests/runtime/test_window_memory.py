"""When the windows of a group get their memory, and what a call does that finds none."""

import ctypes
import os

import numpy as np
import pytest

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import pages
from shmcoll.engine.protocol.cells import MOVED_BYTES
from shmcoll.errors import ArenaError, RankFailed

FEW = 1024  # bytes that fit the beginning of a window
MUCH = 64 << 10


def committed(comm) -> int:
    """Return the bytes of memory of the whole arena, when all ranks have come here."""
    comm.barrier()
    found = os.fstat(comm._local_rank.arena.fd).st_blocks * 512
    comm.barrier()
    return found


def growth(comm, call) -> int:
    before = committed(comm)
    call()
    return committed(comm) - before


def window_of(comm) -> int:
    return comm._dispatcher.words.item(c.WINDOW_BYTES // WORD)


def test_calls_commit_what_they_may_use_and_no_more(ranks):
    def use(comm) -> list:
        groups, few, much = [], np.ones(FEW, np.uint8), np.ones(MUCH, np.uint8)

        def all_of(group) -> None:
            assert group.all_reduce(much).tolist() == [2] * MUCH

        made = growth(comm, lambda: groups.append(comm.dup()))
        group = groups[0]
        told = [
            growth(comm, call)
            for call in (
                group.barrier,
                lambda: group.all_reduce(few[:8]),
                lambda: group.send_object("few", 1 - comm.rank) if comm.rank else group.recv_object(1),
                lambda: group.all_gather(few),
                lambda: group.all_to_all(few),
                lambda: group.broadcast(few, 0),
                lambda: all_of(group),
                lambda: all_of(group),
            )
        ]
        return [made, told, window_of(group)]

    for made, told, window in ranks(2, use):
        assert layout.cells_offset(2) <= made < layout.cells_offset(2) + (64 << 10)
        assert told[:2] == [0, 0]
        assert told[2] < 256 << 10  # a ring for messages
        assert told[3:6] == [4 * MOVED_BYTES, 0, 0]
        assert told[6:] == [4 * (window - MOVED_BYTES), 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda group, x: group.all_reduce(x, algorithm="ring"),
        lambda group, x: group.scan(x, algorithm="chain"),
        lambda group, x: group.reduce_scatter(x),
        lambda group, x: group.all_gather_v(x),
        lambda group, x: group.grid(2).exchange(x),
    ],
)
def test_calls_that_use_cells_for_few_bytes_commit_all_of_their_windows(ranks, call):
    def use(comm) -> bool:
        group = comm.dup()
        call(group, np.ones(4))
        return group._dispatcher.words.item(c.COMMIT_BY // WORD) == 0

    assert ranks(2, use) == [True, True]


def test_a_region_that_is_used_again_keeps_its_memory(ranks):
    def use(comm) -> list[int]:
        def once() -> int:
            with comm.dup() as group:
                assert group.all_gather(np.full(MUCH, comm.rank)).sum() == MUCH
            return 0

        once()
        return [growth(comm, once), growth(comm, once)]

    for told in ranks(2, use):
        assert max(told) <= 64 << 10, told


def test_a_call_without_memory_is_refused_and_may_be_repeated(ranks):
    """Its peer waits meanwhile, and learns nothing wrong."""

    def use(comm) -> list:
        group, x = comm.dup(), np.full(MUCH, 1)
        word = c.COMMIT_BY // WORD
        if comm.rank == 1:
            real = int(group._dispatcher.words[word])
            group._dispatcher.words[word] = ctypes.cast(ctypes.CDLL(None).close, ctypes.c_void_p).value  # fails
            told = []
            for call in (
                lambda: group.all_reduce(x),
                lambda: group.all_reduce(x[::2]),
                lambda: group.all_reduce(x, async_op=True).wait(),
            ):
                with pytest.raises(ArenaError) as caught:
                    call()
                told.append((str(caught.value), caught.value.needed))
            group._dispatcher.words[word] = real
        else:
            told = []
        return [told, int(group.all_reduce(x)[0]), window_of(group)]

    (nothing, two, _), (told, other, window) = ranks(2, use)
    assert (nothing, two, other) == ([], 2, 2)
    assert told[0][0].startswith(
        "too little shared memory for all_reduce on rank 1, in the group of world ranks 0, 1: the staging memory of "
        "this rank: "
    )
    assert [needed for _, needed in told] == [2 * window] * len(told)


def test_a_composite_call_without_memory_ends_the_group(ranks):
    """Its first part may have been made."""

    def use(comm) -> str:
        group = comm.dup()
        if comm.rank == 1:
            close = ctypes.cast(ctypes.CDLL(None).close, ctypes.c_void_p).value  # fails
            group._dispatcher.words[c.COMMIT_BY // WORD] = close
        with pytest.raises(ArenaError if comm.rank == 1 else RankFailed) as caught:
            group.broadcast_object(b"x" * MUCH, 1)
        return str(caught.value)

    told = ranks(2, use)
    assert "rank 1 was interrupted in broadcast_object" in told[0]
    assert "the staging memory of this rank" in told[1]


def test_without_the_advice_the_leader_commits_the_windows(ranks, monkeypatch):
    def use(comm) -> list[int]:
        monkeypatch.setattr(pages, "function_to_commit", lambda: 0)
        groups = []
        made = growth(comm, lambda: groups.append(comm.dup()))
        return [made, growth(comm, lambda: groups[0].all_reduce(np.ones(MUCH))), window_of(comm)]

    for made, used, window in ranks(2, use):
        assert made >= 4 * window
        assert used == 0


def test_what_has_been_promised_counts(ranks):
    """Groups whose windows have no memory yet are in the limit of the heap, and go when they are closed."""

    def use(comm) -> list:
        groups = [comm.dup()]
        with pytest.raises(ArenaError) as caught:
            groups.extend(comm.dup() for _ in range(2))
        groups.pop().close()
        comm.barrier()
        with comm.dup() as group:
            return [str(caught.value), int(group.all_reduce(np.ones(MUCH))[0])]

    from shmcoll.engine.memory.arena import usual_window
    from shmcoll.engine.system.cores import usable_cores

    need = layout.group_bytes(2, usual_window(2, usable_cores()))
    told = ranks(2, use, environment={"SHMCOLL_HEAP": str(need + need // 2)})
    assert [value for _, value in told] == [2, 2]
    assert "the heap is full" in told[0][0]
