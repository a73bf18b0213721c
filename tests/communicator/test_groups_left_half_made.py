"""A group that some members have while an error ends the call that makes it on others."""

import pytest

from shmcoll import RankFailed


def test_members_that_have_the_group_learn_why_another_has_left_it(ranks, monkeypatch):
    """Rank 2 has joined the group when rank 1's failure ends its call of `dup`; rank 0 waits in the group by then."""

    def run(comm) -> str:
        if comm.rank == 2:
            compose = comm._compose

            def ending(call, make):
                compose(call, make)
                raise RankFailed("rank 1 was interrupted")

            monkeypatch.setattr(comm, "_compose", ending)
        with pytest.raises(RankFailed) as caught, comm.dup() as made:
            made.barrier()
        return str(caught.value).partition(": ")[2] or str(caught.value)

    aborted = "rank 2 left dup: rank 1 was interrupted"
    assert ranks(3, run) == [aborted, aborted, "rank 1 was interrupted"]
