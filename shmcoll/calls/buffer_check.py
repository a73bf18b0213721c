"""Find buffers that a program changes while an asynchronous call is pending: `shmrun --check`, SHMCOLL_CHECK=1.

An asynchronous call reads its arrays when its turn comes, not when it is submitted. The program must not change them
until then, and nothing can stop it. So with this check each rank notes the address of each array and a digest of its
bytes when it submits a call, and compares them again:

    before the call begins    all arrays: those that the call reads, and those that it will write
    after the call has ended  the arrays that it has only read

If they differ, the program has changed or resized an array. The call is made nevertheless, because peers wait for it.
Then its `Work` raises `BufferChanged`. A posted receive gets memory of its own, from which the message is copied into
`out` when it has arrived. So the check finds a change of `out` before that, and does not mistake the message for one.

The check does not find that a program reads `out` too early or writes into it while the call runs, or that a library
frees the memory of an array by itself. Lists, and objects to be pickled, are compared by their pickle, if they have
one.

Everything here is private to one rank. The thread that submits a call notes the digests, then puts the call into the
worker's queue. Afterwards only the worker reads them.
"""

import inspect
import pickle
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from shmcoll.diagnostics.call_site import here, short_path
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.errors import BufferChanged
from shmcoll.runtime.dispatcher import Dispatcher

_ROW = 8192  # bytes


def around(
    call: Callable[[], Any], dispatcher: Dispatcher, operation: str, values: dict[str, Any], *written: str
) -> Callable[[], Any]:
    """Return `call`, or, if the check is on, a call that also finds changes of `values`. written: the names of those
    that it writes."""
    if not dispatcher.checks_buffers:
        return call
    return Watched(operation, dispatcher.failures.name, values, written).around(call)


def named_arguments(call: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Return the arguments of a function of `calls/`, behind the caller, by name."""
    return dict(zip(_parameters(call)[1:], arguments, strict=True))


@cache
def _parameters(call: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(call).parameters)


class Watched:
    """The arguments of a pending call. Make it when the call is submitted."""

    def __init__(self, operation: str, rank: int, values: dict[str, Any], written: Iterable[str] = ()):
        self._call = operation, rank, here()
        self._noted = {name: Noted(value) for name, value in values.items() if value is not None}
        memory = [array for name in written for array in _arrays(values.get(name))]
        self._read = [
            name
            for name in self._noted
            if not any(np.may_share_memory(mine, theirs) for mine in _arrays(values[name]) for theirs in memory)
        ]

    def around(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that makes the call, and raises `BufferChanged` where a buffer was changed meanwhile."""

        def watched() -> Any:
            changed = self.changes()
            try:
                result = call()
            except Exception as error:
                if changed:
                    error.add_note(self._words(changed))
                raise
            self.refuse(changed or self.changes(self._read))
            return result

        return watched

    def changes(self, names: Iterable[str] | None = None) -> list[str]:
        """Return a text for each argument that is not as it was."""
        told = {name: self._noted[name].change() for name in (self._noted if names is None else names)}
        return [f"{name} {change}" for name, change in told.items() if change]

    def refuse(self, changed: list[str]) -> None:
        if changed:
            raise BufferChanged(self._words(changed))

    def _words(self, changed: list[str]) -> str:
        operation, rank, site = self._call
        where = f" at {short_path(site[0])}:{site[1]}" if site else ""
        return (
            f"{operation}{where} on rank {rank}: {' and '.join(changed)} while the call was pending, so "
            f"what it moved may be wrong; leave buffers alone until wait() has returned, or pass a copy"
        )


class Noted:
    """How one argument was when the call was submitted."""

    def __init__(self, value: Any):
        self._value = value
        self._places = [_places(array) for array in _arrays(value)]
        self._digest = _digest(value)

    def change(self) -> str:
        """Return 'was changed' or 'was resized', or '' if it is as it was."""
        if [_places(array) for array in _arrays(self._value)] != self._places:
            return "was resized"  # its old memory may be gone: do not read it
        return "was changed" if _digest(self._value) != self._digest else ""


def _arrays(value: Any) -> list[np.ndarray]:
    """Return the arrays of an argument: itself, or those in a list."""
    values = value if isinstance(value, (list, tuple)) else (value,)
    return [one for one in values if isinstance(one, np.ndarray)]


def _places(array: np.ndarray) -> list[tuple[Any, ...]]:
    """Return the address of an array, and the addresses of the arrays of which it is a view."""
    found, one = [], array
    while isinstance(one, np.ndarray):
        found.append((one.__array_interface__["data"][0], one.shape, one.strides))
        one = one.base  # type: ignore[assignment]
    return found


def _digest(value: Any) -> Any:
    """Return a digest to compare an argument with itself later; None if it cannot be read."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _digest_of_bytes(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    if isinstance(value, (list, tuple)) and _arrays(value):
        return [_digest(one) for one in value]
    try:
        return zlib.crc32(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        reraise_of_handler(error)
        return None


def _digest_of_bytes(data: np.ndarray) -> tuple[int, ...]:
    """Return checksums of the sums of rows and of columns, several times as fast as one checksum of all bytes. A change
    is missed only if what one element loses is gained by another in its row, and again in its column. The bytes that do
    not fill a row are summed themselves."""
    whole = data.size // _ROW * _ROW if data.size >= 2 * _ROW else 0
    table = data[:whole].view(np.uint64).reshape(-1, _ROW // 8)
    sums = [table.sum(axis=axis, dtype=np.uint64) for axis in (0, 1)] if whole else []
    return tuple(zlib.crc32(one.view(np.uint8).data) for one in (*sums, data[whole:]))
