"""`_set_pg_timeout` of torch. Torch's own knows the backends of torch only; this one knows ours as well."""

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from shmcoll.torch.group import backend_of

_of_torch = dist.distributed_c10d._set_pg_timeout


def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """Set the limit of the calls of a group from now on. A call that waits already keeps its limit, as over gloo."""
    try:
        backend_of(group).set_timeout(timeout)
    except TypeError:  # a group of other backends, or one that this rank is not in
        _of_torch(timeout, group)
        return
    others = (group or dist.group.WORLD)._device_types
    if any(device.type != "cpu" for device in others):
        _of_torch(timeout, group)


def take_over() -> None:
    """Put this function in the place of torch's."""
    dist.distributed_c10d._set_pg_timeout = _set_pg_timeout


__all__ = ["take_over"]
