"""The handles of groups: small numbers, which a compiled program keeps.

A handle is never given twice, so that of a group that has ended names no other one. `entries` has the native entry for
each handle. The group is kept with it, so the memory that the entry works on is there; the entry of a group that has
ended lets no call in.
"""

from collections.abc import Callable
from typing import Any

from shmcoll.torch.group import Group, backend_of
from shmcoll.torch.ops.native import entry_of

entries: dict[int, Callable[..., int]] = {}
_groups: dict[int, Group] = {}
_last = 0


def handle(group: Any = None) -> int:
    """Return the handle of a group, for the operators of `torch.ops.shmcoll`. Not a collective.

    Args:
        group: a torch group of this backend; the default group if None.

    Returns:
        A number that names the group in this process until the group ends. It is the same at every call.

    Raises:
        TypeError: the group is not one of this backend.
        ValueError: the group has ended.

    Example:
        >>> group = shmcoll.torch.ops.handle()
        >>> torch.ops.shmcoll.all_reduce_(x, group)
    """
    global _last
    backend = backend_of(group, "handle")
    if _has_ended(backend):
        raise ValueError(f"handle: {backend!r} has ended; make a new group")
    for number, known in _groups.items():
        if known is backend:
            return number
    _last += 1
    _groups[_last] = backend
    entries[_last] = entry_of(backend.comm._dispatcher.words)
    return _last


def group_of(number: int, operation: str) -> Group:
    """Return the group of a handle. Raises `ValueError` if it has ended, or there has never been one.

    operation: the caller, for the message.
    """
    found = _groups.get(number)
    if found is not None and not _has_ended(found):
        return found
    if found is not None:
        del entries[number], _groups[number]
    what = f"the group of handle {number} has ended" if 0 < number <= _last else f"no group has the handle {number}"
    raise ValueError(
        f"torch.ops.shmcoll.{operation}: {what}; get one by shmcoll.torch.ops.handle(group) of an open group"
    )


def _has_ended(group: Group) -> bool:
    return bool(group.comm._dispatcher.failures.is_shut)  # false in a fork, which `comm` itself refuses


__all__ = ["entries", "group_of", "handle"]
