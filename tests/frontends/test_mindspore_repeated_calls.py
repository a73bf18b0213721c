"""Operators of mindspore.ops that are called again: with another shape, and after their group has been made anew."""

import numpy as np
import pytest

import shmcoll.mindspore as ms
from shmcoll.mindspore import Tensor, communication, ops

GROUP = "some"


def _borders_of_two_images(rank):
    """One row to the other rank and one from it: rank 0 is above rank 1. Small, large, and small again."""
    above = rank == 0
    ranks = [-1, -1, -1, -1, 1, -1, -1, -1] if above else [0, -1, -1, -1, -1, -1, -1, -1]
    lengths = [0, 1, 0, 0] if above else [1, 0, 0, 0]
    made = ops.NeighborExchangeV2(ranks, lengths, ranks, lengths, "NCHW")
    wrong = []
    for height, width in ((2, 3), (4, 1), (2, 3)):
        images = [np.arange(height * width, dtype=np.float32).reshape(1, 1, height, width) + 100 * r for r in (0, 1)]
        border = images[1][:, :, :1] if above else images[0][:, :, -1:]
        wanted = np.concatenate([images[0], border] if above else [border, images[1]], axis=2)
        if not np.array_equal(made(images[rank]), wanted):
            wrong.append((height, width))
    return wrong


def _image_too_small(rank):
    """What a call accepts says nothing about another shape."""
    made = ops.NeighborExchangeV2([-1] * 8, [2, 0, 0, 0], [-1] * 8, [0] * 4, "NCHW")
    made(np.ones((1, 1, 2, 2), np.float32))
    with pytest.raises(ValueError, match=r"the 'send_lens' \[2, 0, 0, 0\] are more than the image \(1, 1, 1, 2\) has"):
        made(np.ones((1, 1, 1, 2), np.float32))
    with pytest.raises(ValueError, match="must have 4 dimensions"):
        made(np.ones((2, 2), np.float32))


def _group_made_anew(rank):
    """The same operator on a group of 2, of 1, and of 2 ranks again. Returns what it has received."""
    found = []
    for ranks in ([0, 1], [rank], [0, 1]):
        communication.create_group(GROUP, ranks)
        if not found:
            shape = ([2],)
            exchange = ops.NeighborExchange([0], [0], shape, shape, ms.float32, GROUP) if rank == 0 else None
            other = ops.NeighborExchange([], [], (), (), ms.float32, GROUP)
        given = Tensor(np.arange(2, dtype=np.float32) + len(found))
        if exchange is not None:
            found.append(exchange((given,))[0].tolist())
        else:
            found.append(list(other(())))
        communication.destroy_group(GROUP)
    return found


def _batch_again(rank):
    """Every call has memory of its own for what it receives."""
    made = ops.BatchISendIRecv(["irecv", "isend"], [1 - rank] * 2, [[2]], [ms.float32])
    results = [made((Tensor(np.full(2, 10 * rank + i, np.float32)),))[0] for i in range(3)]
    return [one.tolist() for one in results]


def _everything(comm):
    communication.init()
    _image_too_small(comm.rank)
    return _borders_of_two_images(comm.rank), _group_made_anew(comm.rank), _batch_again(comm.rank)


def test_what_operators_keep_fits_every_call(ranks):
    first, second = ranks(2, _everything)
    assert first == ([], [[0, 1], [1, 2], [2, 3]], [[10 + i] * 2 for i in range(3)])
    assert second == ([], [[], [], []], [[i] * 2 for i in range(3)])
