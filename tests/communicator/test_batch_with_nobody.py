"""None in a batch: nothing is sent to nobody, and nothing is received from nobody."""

import numpy as np
import pytest

from shmcoll import Recv, RecvObject, Send, SendObject
from tests.support import switches


def test_the_ranks_of_a_line_make_the_same_batch(ranks):
    def shift(comm) -> list:
        before = comm.rank - 1 if comm.rank else None
        after = comm.rank + 1 if comm.rank < comm.size - 1 else None
        told = []
        for size in (1, 100_000):
            out = np.full(size, -1)
            works = comm.batch(
                [
                    Send(np.full(size, comm.rank), after, 1),
                    Recv(out, before, 1),
                    SendObject({"from": comm.rank}, before, 2),
                    RecvObject(after, 2),
                ]
            )
            results = [work.wait() for work in works]
            assert results[0] is None and results[2] is None and results[1][0] is out
            told.append((int(out[-1]), results[1][1:], results[3]))
        assert comm.iprobe() is None and not switches.posted(comm)
        return told

    nothing = None, None
    assert ranks(3, shift) == [
        [(-1, nothing, ({"from": 1}, 1, 2))] * 2,
        [(0, (0, 1), ({"from": 2}, 2, 2))] * 2,
        [(1, (1, 1), (None, None, None))] * 2,
    ]


def test_what_is_wrong_is_refused_and_nothing_has_begun(ranks):
    def refuse(comm) -> bool:
        wrong = (
            (Send("abc", None), TypeError, "x is not an array"),
            (Send(np.ones(1), None, -1), ValueError, "tag -1 is out of range"),
            (Recv([1], None), TypeError, "out must be an array, got list"),
            (SendObject(1, None, "a"), TypeError, "tag must be an integer"),
            (RecvObject(None, -5), ValueError, "tag -5 is out of range"),
        )
        for one, kind, text in wrong:
            with pytest.raises(kind, match=text):
                comm.batch([Send(np.ones(1), comm.rank, 3), one])
        return comm.iprobe() is None and not switches.posted(comm)

    assert ranks(1, refuse) == [True]
