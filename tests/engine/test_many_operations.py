"""Operations whose numbers are so large that words which count them wrap."""

import numpy as np
import pytest

from shmcoll.engine import context as c
from shmcoll.engine.layout import PROGRESS, STEP_BITS, WORD
from shmcoll.engine.protocol.sync import CATCH_UP
from tests.support.waiting import until

pytestmark = pytest.mark.slow

LONG = 300_000  # elements: several cells, so several steps


def go_on_after(comm, operations: int, board: np.ndarray) -> None:
    """As if the group had made so many operations, the last CATCH_UP of them without steps."""
    comm.barrier()
    board[comm.rank] += 1
    until(lambda: (board[: comm.size] >= board[comm.rank]).all())  # all have left it: its headers are written over
    for word in (c.SEQUENCE, c.TURN, c.CREDIT):
        comm._dispatcher.words[word // WORD] = operations


def check_long_calls(comm) -> None:
    x = np.arange(LONG, dtype=np.float64) + comm.rank
    gathered = comm.all_gather(x)
    for rank in range(comm.size):
        np.testing.assert_array_equal(gathered[rank * LONG : (rank + 1) * LONG], np.arange(LONG) + rank)
    np.testing.assert_array_equal(comm.all_reduce(x), comm.size * np.arange(LONG) + sum(range(comm.size)))
    moved = comm.broadcast(x, root=comm.size - 1)
    np.testing.assert_array_equal(moved, np.arange(LONG) + comm.size - 1)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize(("turns", "barriers"), [(1, 20), (2, 4), (3, 20)])
def test_results_are_right_where_progress_wraps(ranks, board, n: int, turns: int, barriers: int) -> None:
    """PROGRESS is 2^63 at operation 2^39, and 0 again at 2^40: a rank that has not stored it for so long is not taken
    for one that has done its steps."""

    def run(comm) -> int:
        check_long_calls(comm)
        go_on_after(comm, turns * (1 << 39) - 3, board)
        for _ in range(barriers):
            comm.barrier()
        check_long_calls(comm)
        return comm._dispatcher.words.item(c.SEQUENCE // WORD)

    assert ranks(n, run) == [turns * (1 << 39) + barriers] * n


def test_progress_is_brought_along(ranks, board) -> None:
    def run(comm) -> tuple[int, int]:
        mine = comm._dispatcher.group.mailbox(comm.rank) + PROGRESS
        go_on_after(comm, 7 * CATCH_UP - 2, board)
        comm.barrier()
        before = comm._local_rank.arena.load(mine)
        comm.barrier()
        return before, comm._local_rank.arena.load(mine)

    assert ranks(2, run) == [(0, 7 * CATCH_UP << STEP_BITS)] * 2
