"""Views of other ranks' shared arrays, on real ranks."""

import gc
import os
import signal

import numpy as np
import pytest
from ml_dtypes import bfloat16

from shmcoll.errors import RankFailed
from tests.support import switches


def neighbours(comm) -> list:
    """Everybody writes into its own array, reads the others', and writes into its neighbour's."""
    mine = comm.full((3, 4), comm.rank, "int32" if comm.rank % 2 else bfloat16)
    views = comm.views(mine)
    assert views[comm.rank] is mine
    told = [(str(v.dtype), float(v[1, 2])) for v in views]
    comm.barrier()
    views[(comm.rank + 1) % comm.size][0] = 10 + comm.rank
    comm.barrier()
    return [told, mine[0].tolist(), float(mine[1, 0])]


def test_views_are_the_arrays_themselves(ranks, n):
    wanted = [("int32" if r % 2 else "bfloat16", float(r)) for r in range(n)]
    for rank, (told, first_row, rest) in enumerate(ranks(n, neighbours)):
        assert told == wanted
        assert first_row == [10 + (rank - 1) % n] * 4
        assert rest == (rank if n > 1 else 0)


def parts(comm) -> list:
    """Parts of shared arrays: with strides, backwards, transposed, 0-d, empty, each rank another."""
    whole = comm.zeros((4, 6))
    whole[...] = np.arange(24).reshape(4, 6) + 100 * comm.rank
    forms = [whole[1:, ::2], whole[::-1, 1], whole.T[2:4], whole[2, 3, ...], whole[:0]]
    views = [comm.views(forms[(i + comm.rank) % len(forms)]) for i in range(len(forms))]
    theirs = (np.arange(24).reshape(4, 6) + 100.0 * (1 - comm.rank))[:]
    wanted = [theirs[1:, ::2], theirs[::-1, 1], theirs.T[2:4], theirs[2, 3, ...], theirs[:0]]
    other = 1 - comm.rank
    return [bool(np.array_equal(v[other], wanted[(i + other) % len(forms)])) for i, v in enumerate(views)]


def test_parts_of_shared_arrays(ranks):
    assert ranks(2, parts) == [[True] * 5] * 2


def lives_as_long_as_it_is_seen(comm) -> list[int]:
    told = []

    def held() -> None:
        comm.barrier()
        gc.collect()
        switches.give_back_memory(comm)  # looks at what can go
        comm.barrier()
        told.append(switches.held_by_ranks(comm) >> 20)
        comm.barrier()

    held()
    mine = comm.full(1 << 20, comm.rank, "uint8")  # and 1 MiB more for the holds behind it
    views = comm.views(mine)
    held()
    del mine
    held()
    part = views[1 - comm.rank][5:9]
    del views
    held()
    told.append(int(part[0]))
    if comm.rank == 0:
        del part
    held()
    part = None
    held()
    return told


@pytest.mark.slow
def test_an_array_lives_as_long_as_anybody_sees_it(ranks):
    for rank, told in enumerate(ranks(2, lives_as_long_as_it_is_seen)):
        before, made, dropped, seen, value, half, nothing = told
        assert (before, made, dropped, seen, value) == (0, 2, 2, 2, 1 - rank)
        assert (half, nothing) == (1, 0)


def held_by_the_dead(comm) -> list[int]:
    views = comm.views(comm.zeros(1 << 20, "uint8"))
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RankFailed):
        comm.barrier()
    before = switches.held_by_ranks(comm)
    del views
    gc.collect()
    switches.give_back_memory(comm)
    return [before >> 20, switches.held_by_ranks(comm) >> 20]


def test_the_dead_hold_nothing(ranks):
    assert ranks.start(2, held_by_the_dead).finish()[0].value == [2, 1]  # its own array is the dead rank's


def one_is_private(comm) -> list[str]:
    told = []
    for x in (np.ones(3) if comm.rank else comm.zeros(3), "no array" if comm.rank else comm.zeros(3), np.ones(2)):
        with pytest.raises(ValueError, match="views") as caught:
            comm.views(x)
        told.append(str(caught.value))
    comm.barrier()
    return told


def test_private_arrays_are_refused_on_all_ranks(ranks):
    does = "was not made by comm.empty, comm.zeros or comm.full; copy it into an array that was"
    told = [f"views: the array of {who} {does}" for who in ("rank 1", "rank 1", "ranks 0, 1")]
    assert ranks(2, one_is_private) == [told, told]
