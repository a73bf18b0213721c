"""`shrink_group`: going on without some ranks.

`torch.distributed.shrink_group` of torch 2.13 puts the new backend into a group of its own, which takes no backend that
is a group. So this does what it does, with the same functions of torch, and the new group in its place.

Source: `torch/distributed/distributed_c10d.py` of torch 2.13, `shrink_group` and `_finalize_shrunk_group`.
"""

from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from shmcoll.torch.group import backend_of


def shrink_group(ranks_to_exclude: list[int], group: Any = None, shrink_flags: int = 0) -> Any:
    """Return a group without some of the ranks of a group, which is destroyed. The ranks that remain call it.

    The excluded ranks may have failed. If the default group shrinks, all other groups are destroyed, and the new group
    is the default group. `torch.distributed.shrink_group` does the same from torch 2.14 on.

    Args:
        ranks_to_exclude: numbers of ranks in the group.
        group: a group of this backend; the default group if None.
        shrink_flags: `torch.distributed.distributed_c10d.SHRINK_ABORT` ends the group first, so that pending calls
            raise.

    Returns:
        The new group.

    Raises:
        TypeError: the group is not one of this backend.
        ValueError: a rank does not exist, is named twice, or none would remain.
        RuntimeError: this rank is excluded.
        torch.distributed.DistBackendError: a rank that remains has failed, or has not called it in time.

    Example:
        >>> if dist.get_rank() != 1:
        ...     dist.barrier(group=shmcoll.torch.shrink_group([1]))
    """
    backend = backend_of(group, "shrink_group")
    if not isinstance(backend, dist.ProcessGroup):
        return c10d.shrink_group(ranks_to_exclude, group, shrink_flags)
    c10d._validate_shrink_inputs(ranks_to_exclude, shrink_flags)
    facts = c10d._prepare_shrink_target_group(group)
    excluded = c10d._validate_and_process_excluded_ranks(ranks_to_exclude, facts)
    remaining = [rank for i, rank in enumerate(c10d.get_process_group_ranks(backend)) if i not in excluded]
    made = backend.shrink(sorted(excluded), shrink_flags)
    if facts["is_default_group"]:
        c10d._destroy_all_other_groups(exclude_group=backend)
    known = c10d._extract_group_metadata(backend)
    c10d._cleanup_original_group(backend, facts["is_default_group"])
    made.setGroupName(c10d._process_group_name(remaining, use_hashed_name=True))
    made.setGroupDesc(f"{known['original_group_name']}:shrunk")
    if facts["is_default_group"]:
        c10d._update_default_pg(made)
    c10d._register_pg_in_world(
        made,
        backend_name=known["backend_name"],
        store=known["store"],
        group_name=made.getGroupName(),
        backend_config=known["backend_config"],
        rank_mapping={rank: i for i, rank in enumerate(remaining)},
    )
    return made


__all__ = ["shrink_group"]
