"""Find buffers that a program changes while an asynchronous call is pending: `shmrun --check`, SHMCOLL_CHECK=1.

An asynchronous call reads its arrays when its turn comes, not when it is submitted. The program must not change them
until then, and nothing can stop it. So with this check each rank notes the address of each array and a digest of its
bytes when it submits a call, and compares them again:

    before the call begins    all arrays: those that the call reads, and those that it will write
    after the call has ended  the arrays that it has only read

If they differ, the program has changed or resized an array. The call is made nevertheless, because peers wait for it.
Then its `Work` raises `BufferChanged`. A posted receive gets memory of its own, from which the message is copied into
`out` when it has arrived. So the check finds a change of `out` before that, and does not mistake the message for one.

Calls of one communicator are made in their order, so a call may use what the calls before it write. When a call has
ended, what it has written does not count as changed in the calls that are still pending. But a message may arrive
before or after any other call. So a posted receive and another pending call, one of which writes what the other reads
or writes, are a mistake: that of the two which was submitted last raises `BufferChanged`.

The check does not find that a program reads `out` too early or writes into it while the call runs, or that a library
frees the memory of an array by itself. Lists, and objects to be pickled, are compared by their pickle, if they have
one.

Everything here is private to one rank. The thread that submits a call notes the digests, then puts the call into the
worker's queue. Afterwards only the worker reads them.
"""

import contextlib
import inspect
import pickle
import weakref
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.diagnostics.call_site import here, short_path
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.errors import BufferChanged
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.work import Work

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

    def __init__(
        self, operation: str, rank: int, values: dict[str, Any], written: Iterable[str] = (), *, is_posted: bool = False
    ):
        self._call = operation, rank, here()
        self._is_posted = is_posted
        self.receive: Callable[[], Work[Any] | None] = lambda: None  # the posted receive, if it is one
        self._values = {name: value for name, value in values.items() if value is not None}
        self._written = [one for name in written for one in _ranges(values.get(name))]
        self._read = [name for name, value in self._values.items() if not _meet(_ranges(value), self._written)]
        self._rewritten: set[str] = set()  # by calls before this one
        self._clash = self._clashes()
        _pending.append(weakref.ref(self))  # before the digests, so that no call ends unnoticed while they are made
        self._noted = {name: Noted(value) for name, value in self._values.items()}

    def around(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that makes the call, and raises `BufferChanged` where a buffer was changed meanwhile."""

        def watched() -> Any:
            changed = self.changes()
            self._noted |= {name: Noted(self._values[name]) for name in self._rewritten}
            self._rewritten = set()
            try:
                result = call()
            except Exception as error:
                if changed:
                    error.add_note(self._words(changed))
                raise
            finally:
                self.end()
            self.refuse(changed or self.changes(self._read))
            return result

        return watched

    def changes(self, names: Iterable[str] | None = None) -> list[str]:
        """Return a text for each argument that is not as it was."""
        names = set(self._noted if names is None else names) - self._rewritten
        told = {name: self._noted[name].change() for name in self._values if name in names}
        return self._clash + [f"{name} {change}" for name, change in told.items() if change]

    def _clashes(self) -> list[str]:
        """Return a text if a call that is pending already, with which this one has no order, uses the same memory."""
        for other in filter(None, (one() for one in list(_pending))):
            receive = other.receive()
            if (receive and receive._has_ended) or not (self._is_posted or other._is_posted):
                continue
            mine, theirs = ([at for value in one._values.values() for at in _ranges(value)] for one in (self, other))
            if _meet(self._written, theirs) or _meet(mine, other._written):
                operation, _, site = other._call
                where = f" at {short_path(site[0])}:{site[1]}" if site else ""
                return [f"an array was used by {operation}{where}, which was pending, too,"]
        return []

    def end(self) -> None:
        """Excuse what this call has written in the calls that are pending."""
        others = [(one, one()) for one in list(_pending)]
        for reference, other in others:
            if other is None or other is self:
                with contextlib.suppress(ValueError):  # another thread has removed it
                    _pending.remove(reference)
            else:
                other._rewritten |= {n for n, value in other._values.items() if _meet(_ranges(value), self._written)}

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


#: the calls whose buffers are watched. Only the worker of a group makes its calls, but several groups may have one
_pending: list[weakref.ref[Watched]] = []


def _arrays(value: Any) -> list[np.ndarray]:
    """Return the arrays of an argument: itself, a view of its memory, or those in a list. Do not keep them: while there
    is a view of it, some memory cannot be resized."""
    seen = given.as_memory(value)
    return [one for one in (seen if isinstance(seen, (list, tuple)) else (seen,)) if isinstance(one, np.ndarray)]


def _ranges(value: Any) -> list[tuple[int, int]]:
    """Return the addresses of the first byte of each array of an argument, and behind its last one."""
    found = []
    for one in _arrays(value):
        start = one.__array_interface__["data"][0]
        steps = [(length - 1) * step for length, step in zip(one.shape, one.strides, strict=True)]
        if one.size:
            found.append(
                (
                    start + sum(min(step, 0) for step in steps),
                    start + sum(max(step, 0) for step in steps) + one.itemsize,
                )
            )
    return found


def _meet(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)


def _places(array: np.ndarray) -> list[tuple[Any, ...]]:
    """Return the address of an array, and the addresses of the arrays of which it is a view."""
    found, one = [], array
    while isinstance(one, np.ndarray):
        found.append((one.__array_interface__["data"][0], one.shape, one.strides))
        one = one.base  # type: ignore[assignment]
    return found


def _digest(value: Any) -> Any:
    """Return a digest to compare an argument with itself later; None if it cannot be read."""
    if isinstance(value, (list, tuple)) and _arrays(value):
        return [_digest(one) for one in value]
    seen = given.as_memory(value)
    if isinstance(seen, np.ndarray) and not seen.dtype.hasobject:
        # A copy of structured elements would have other bytes between its fields
        elements = np.asarray(seen).view(f"V{seen.itemsize}") if seen.nbytes else np.empty(0, "V1")
        return _digest_of_bytes(np.ascontiguousarray(elements).reshape(-1).view(np.uint8))
    first, second = (_digest_of_pickle(value) for _ in range(2))
    return first if first == second else None  # an object whose pickle is always another


def _digest_of_pickle(value: Any) -> int | None:
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
