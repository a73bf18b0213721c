"""shmcoll's errors, as torch's: each is an `shmcoll` error and a `torch.distributed.DistBackendError` at once.

So a program may catch either, and the attributes of `ShmcollError` (`rank`, `missing`, ...) are there.
"""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from shmcoll.communicator import Communicator
from shmcoll.engine.memory import records
from shmcoll.errors import CallNotAllowed, ShmcollError

_kinds: dict[type[ShmcollError], type[ShmcollError]] = {}

#: by the cause of the first failure; REMOTE_ERROR for others
_TYPES = {
    records.TIMED_OUT: ErrorType.TIMEOUT,
    records.DEADLOCKED: ErrorType.TIMEOUT,
    records.MISMATCHED: ErrorType.COMM_ERROR,
    records.BROKEN: ErrorType.COMM_ERROR,
}


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


def refused(comm: Communicator, operation: str, refusal: CallNotAllowed) -> ShmcollError:
    """Return why a call has not been made, in torch's words."""
    if comm._dispatcher.failures.is_shut:
        text = f"{operation}: this group has been destroyed; make another one by init_process_group or new_group"
        refusal = CallNotAllowed(text, operation=operation)
    return as_torch(refusal)


def raising(call: Callable[[], Any]) -> Any:
    """Make a call, and return its result; its errors are torch's as well."""
    try:
        return call()
    except ShmcollError as error:
        raise as_torch(error) from error.__cause__


def on_its_own_line(error: ShmcollError) -> Exception:
    """Return the same error with a name that begins on a line of its own. Torch, and DDP with it, quotes what the
    callback of a future has raised behind words of its own, on the same line."""
    return type(f"\n{type(error).__name__}", (RuntimeError,), {})(str(error))


def timed_out(operation: str, seconds: float) -> Exception:
    """Return the error of a wait for a handle whose call goes on."""
    error: Exception = dist.DistBackendError(f"{operation} has not ended within {seconds:g} s; it continues")
    return error


def late_in_callback(seconds: float) -> Exception:
    """Return the error of a callback that waits for a future which is not completed."""
    error: Exception = dist.DistBackendError(
        f"a callback of a future has waited {seconds:g} s for another future. As long as it waits, no other thread "
        f"makes a call of the same group. Have the program wait for that future, or chain callbacks by `then`"
    )
    return error


def error_type(comm: Communicator) -> Any:
    """Return torch's `ErrorType` for the state of a group; see `Group.get_error`."""
    dispatcher = comm._dispatcher
    if dispatcher.failures.is_shut:  # its memory may belong to another group by now
        return ErrorType.COMM_ERROR
    group = dispatcher.group
    if group.has_ended():
        endings = [records.ending(group, rank) for rank in range(group.size)]
        first = min((one for one in endings if one.state == records.FAILED), key=lambda one: one.time, default=None)
        return _TYPES.get(first.cause, ErrorType.REMOTE_ERROR) if first else ErrorType.REMOTE_ERROR
    if any(records.how_ended(group.arena, rank) for rank in group.ranks):
        return ErrorType.REMOTE_ERROR
    return ErrorType.SUCCESS


__all__ = ["as_torch", "error_type", "late_in_callback", "on_its_own_line", "raising", "refused", "timed_out"]
