"""The operations of `shmcoll.nki.collectives`."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from shmbench.doors import Call
from shmcoll.nki import collectives as ncc
from shmcoll.nki import language as nl

STEPS = 3  # around the ring


def calls(comm: Any) -> Iterator[Call]:
    size = comm.size
    group, add = ncc.ReplicaGroup([list(range(size))]), nl.add
    blocks = np.arange(2 * size, dtype=np.float32) + comm.rank
    block, other = blocks[:2].copy(), blocks[:2] + 1
    part, parts = (np.empty_like(block), np.empty_like(block)), (np.empty_like(blocks), np.empty_like(blocks))
    counts, ring = np.full(size, 2), tuple((rank, (rank + 1) % size) for rank in range(size))
    one, all_of = part[0], parts[0]  # that the native calls write
    dst, dsts = [part[1]], [parts[1]]
    metadata = np.array([counts, 2 * np.arange(size), 0 * counts], np.uint32)
    behind_one = metadata[None]
    one_block = np.array([counts, 0 * counts, 0 * counts], np.uint32)
    split = ncc.all_to_all_v_prepare, ncc.all_to_all_v_trigger
    split_gather = ncc.all_gather_v_prepare, ncc.all_gather_v_trigger

    def all_to_all_v() -> None:
        comm.all_to_all_v(blocks, counts, out=all_of)

    def all_gather_v() -> None:
        comm.all_gather_v(block, out=all_of)

    def permute() -> None:
        comm.collective_permute(block, ring, out=one)

    rows: list[tuple[Any, ...]] = [
        ("all_to_all_v", all_to_all_v, lambda: ncc.all_to_all_v([blocks], dsts, group, metadata), parts),
        ("all_to_all_v, metadata of (1, 3, n)", all_to_all_v,
         lambda: ncc.all_to_all_v([blocks], dsts, group, behind_one), parts),
        ("all_to_all_v_prepare and _trigger", all_to_all_v,
         lambda: split[1](split[0]([blocks], dsts, group, metadata)), parts, 2),
        ("all_gather_v", all_gather_v, lambda: ncc.all_gather_v([block], dsts, group, one_block), parts),
        ("all_gather_v_prepare and _trigger", all_gather_v,
         lambda: split_gather[1](split_gather[0]([block], dsts, group, one_block)), parts, 2),
        ("all_reduce", lambda: comm.all_reduce(block, out=one), lambda: ncc.all_reduce([block], dst, group, add), part),
        ("all_gather", lambda: comm.all_gather(block, out=all_of), lambda: ncc.all_gather([block], dsts, group, 0),
         parts),
        ("reduce_scatter", lambda: comm.reduce_scatter(blocks, out=one),
         lambda: ncc.reduce_scatter([blocks], dst, group, 0, add), part),
        ("all_to_all", lambda: comm.all_to_all(blocks, out=all_of), lambda: ncc.all_to_all([blocks], dsts, group, 0),
         parts),
        ("collective_permute", permute, lambda: ncc.collective_permute([block], dst, ring), part),
        ("collective_permute_implicit", permute, lambda: ncc.collective_permute_implicit([[block]], [dst], group),
         part),
        ("collective_permute_implicit_reduce", lambda: comm.collective_permute(np.add(block, other), ring, out=one),
         lambda: ncc.collective_permute_implicit_reduce([[block]], [[other]], [dst], group, add), part),
        ("collective_permute_implicit_current_...", lambda: (comm.rank - STEPS) % size,
         lambda: ncc.collective_permute_implicit_current_processing_rank_id(STEPS, group)),
        ("rank_id", lambda: comm.rank, ncc.rank_id),
    ]  # fmt: skip
    for row in rows:
        yield Call(*row)
