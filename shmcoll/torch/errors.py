"""shmcoll's errors, as torch's: each is an `shmcoll` error and a `torch.distributed.DistBackendError` at once.

So a program may catch either, and the attributes of `ShmcollError` (`rank`, `missing`, ...) are there.
"""

import torch.distributed as dist

from shmcoll.errors import ShmcollError

_kinds: dict[type[ShmcollError], type[ShmcollError]] = {}


def _both(kind: type[ShmcollError]) -> type[ShmcollError]:
    if kind not in _kinds:
        names = {"__module__": __name__, "__doc__": kind.__doc__}
        _kinds[kind] = type(kind.__name__, (kind, dist.DistBackendError), names)
    return _kinds[kind]


def as_torch(error: ShmcollError) -> ShmcollError:
    """Return the same error as one of torch's kind too."""
    if isinstance(error, dist.DistBackendError):
        return error
    made = _both(type(error)).__new__(_both(type(error)), *error.args)
    made.args = error.args
    made.__dict__.update(error.__dict__)
    return made


def timed_out(operation: str, seconds: float) -> Exception:
    """Return the error of a wait for a handle whose call goes on."""
    error: Exception = dist.DistBackendError(f"{operation} has not ended within {seconds:g} s; it continues")
    return error


__all__ = ["as_torch", "timed_out"]
