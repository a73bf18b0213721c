"""The handles of torch around ours, from torch 2.14 on.

Torch puts a handle of its own around one of a backend in Python, and passes on `wait` and `get_future` only. So the
other methods of torch's class look for our handle first: they ask for a future, and our handle notes that it was asked.
"""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from shmcoll.torch.futures import follow
from shmcoll.torch.works import Pending, asked

_get_future = dist.Work.get_future


def _inner(handle: Any) -> Pending | None:
    """Return our handle in one of torch's, if it has one."""
    asked.handle, asked.is_only_asked = None, True
    try:
        _get_future(handle)
    except RuntimeError:  # a handle of another backend without futures
        pass
    finally:
        asked.is_only_asked = False
    return asked.handle


def _passing_on(name: str) -> Callable[[Any], Any]:
    """Return a method that asks our handle, and torch's if there is no other."""
    native = getattr(dist.Work, name)

    def call(self: Any) -> Any:
        inner = _inner(self)
        return native(self) if inner is None else getattr(inner, name)()

    call.__name__ = name
    return call


def get_future(self: Any) -> Any:
    """Return the future of a call; note on which call it depends."""
    asked.handle = None
    future = _get_future(self)
    return future if asked.handle is None else follow(future, [asked.handle])


def pass_on() -> None:
    """Have torch's handles pass on what they are asked."""
    for name in ("is_completed", "is_success", "exception", "result", "source_rank", "_source_rank"):
        setattr(dist.Work, name, _passing_on(name))
    dist.Work.get_future = get_future


__all__ = ["pass_on"]
