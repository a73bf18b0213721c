"""all_gather of nki.collectives into tensors of `nl.shared_hbm`: one memory for all ranks, until a rank writes."""

import gc
import mmap
import os
from typing import Any

import numpy as np
import pytest

from shmcoll.errors import CollectiveMismatch
from shmcoll.nki import collectives as nccl
from shmcoll.nki import language as nl
from shmcoll.nki import shared_hbm
from tests.support import switches

ROWS = 1 << 10


def gathered(comm: Any) -> list[bool]:
    group = nccl.ReplicaGroup([list(range(comm.size))[::-1]])
    wanted = np.repeat(np.arange(comm.size)[::-1], ROWS)[:, None]
    told = []
    for dtype in (nl.float32, nl.bfloat16):
        dst = nl.ndarray((comm.size * ROWS, 333), dtype, buffer=nl.shared_hbm)
        other = nl.zeros((comm.size * ROWS, 333), dtype, buffer=nl.private_hbm)
        src = np.full((ROWS, 333), comm.rank).astype(dtype)
        view = dst[:ROWS]
        for more in range(2):  # the second replaces the first
            nccl.all_gather([src + dtype(more)] * 2, [dst, other], group, 0)
            told.append((dst == wanted + more).all() and (other == wanted + more).all() and (view == dst[:ROWS]).all())
        dst[comm.rank] = 50 + comm.rank  # a rank's own
        comm.barrier()
        told.append((dst[: comm.size, 0] == np.where(np.arange(comm.size) == comm.rank, 50 + comm.rank, 3)).all())
        nccl.all_reduce([dst[:2]], [dst[2:4]], group, nl.maximum)
        told.append((dst[2:4, 0] == [50, 51]).all())
        comm.barrier()
    return list(map(bool, told))


def test_every_rank_sees_the_result_and_writes_for_itself(ranks: Any) -> None:
    assert ranks(3, gathered) == [[True] * 8] * 3


def memory(comm: Any) -> list[int]:
    group, size = nccl.ReplicaGroup([[0, 1]]), 4 << 20
    src, dst = np.full(size // 2, 1 + comm.rank, np.int8), nl.ndarray(size, nl.int8, buffer=nl.shared_hbm)
    before = switches.committed(comm)
    comm.barrier()
    nccl.all_gather([src], [dst], group, 0)
    comm.barrier()
    told = [switches.committed(comm) - before >> 20, private_mib(dst)]
    assert dst.min() == 1 and dst.max() == 2
    told.append(private_mib(dst))
    dst[:] = 7
    told.append(private_mib(dst))
    comm.barrier()
    del dst
    gc.collect()
    comm.barrier()
    return [*told, switches.committed(comm) - before >> 20]


def private_mib(tensor: np.ndarray) -> int:
    """The memory that only this process has in the pages of a tensor, from what Linux says of them."""
    first, found = tensor.ctypes.data, False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            begin, _, rest = line.partition("-")
            if rest[:1] and len(begin) >= 8 and " " not in begin and ":" not in begin:
                found = int(begin, 16) <= first < int(rest.split()[0], 16)
            if found and line.startswith("Anonymous:"):
                return int(line.split()[1]) >> 10
    raise AssertionError("no such pages")


def test_the_ranks_have_one_memory_until_they_write(ranks: Any) -> None:
    assert ranks(2, memory) == [[4, 0, 0, 4, 0]] * 2


def other_ways(comm: Any) -> bool:
    """Without the descriptor of the arena the result is copied; short tensors are ordinary; wrong ones are named."""
    group, size = nccl.ReplicaGroup([[0, 1]]), 2 << 20
    short = nl.zeros(8, nl.int32, buffer=nl.shared_hbm)
    assert not isinstance(short.base, shared_hbm.Pages)
    nccl.all_gather([np.full(4, comm.rank, np.int32)], [short], group, 0)
    assert short.tolist() == [0] * 4 + [1] * 4
    dst = nl.zeros(size, nl.int8, buffer=nl.shared_hbm)
    with pytest.raises(ValueError, match=r"dsts\[0\] has shape"):
        nccl.all_gather([np.zeros(3, np.int8)], [dst], group, 0)
    assert not dst.any()
    os.dup2(os.open(os.devnull, os.O_RDONLY), comm._local_rank.arena.fd)
    nccl.all_gather([np.full(size // 2, comm.rank + 1, np.int8)], [dst], group, 0)
    assert (dst[: size // 2] == 1).all() and (dst[size // 2 :] == 2).all()
    with pytest.raises(CollectiveMismatch, match="shared all_gather"):
        nccl.all_gather([dst[: size // 2]], [dst if comm.rank else np.empty(size, np.int8)], group, 0)
    return type(dst.base) is shared_hbm.Pages and isinstance(dst.base, mmap.mmap)


def test_what_is_not_mapped_is_copied(ranks: Any) -> None:
    assert ranks(2, other_ways) == [True] * 2
