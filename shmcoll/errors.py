"""The exceptions that shmcoll raises, each distinguished from its neighbours.

A mistake of one rank's own (a wrong type, dtype, axis, shape, count, root) is a `TypeError`, `ValueError` or
`IndexError` on that rank: nothing has been sent, and the rank may call again. Everything else derives from
`ShmcollError`.
"""

from collections.abc import Mapping, Sequence


class ShmcollError(RuntimeError):
    """The base of all errors that are not a mistake in the arguments of one call.

    Raised as such when a job cannot start: ranks do not arrive, disagree on the size of the job, or are on several
    machines, or the system has no room for so many processes.

    All of them have these attributes, None where they do not apply or are not known. Ranks are numbers in the group of
    the call.

    * `operation`: the name of the call that raised, such as "all_reduce"
    * `rank`: the rank that failed (`RankFailed`)
    * `signal`: the number of the signal that killed it
    * `exitcode`: the exit code with which it ended without an exception
    * `missing`: the ranks that did not arrive or did not continue, and do not wait for others (`CollectiveTimeout`,
      `Deadlock`)
    * `calls`: what each rank called, by rank, in words (`CollectiveMismatch`, `Deadlock`)
    """

    def __init__(
        self,
        *args: object,
        operation: str | None = None,
        rank: int | None = None,
        signal: int | None = None,
        exitcode: int | None = None,
        missing: Sequence[int] | None = None,
        calls: Mapping[int, str] | None = None,
    ):
        super().__init__(*args)
        self.operation = operation
        self.rank = rank
        self.signal = signal
        self.exitcode = exitcode
        self.missing = missing
        self.calls = calls


class RankFailed(ShmcollError):
    """A peer died, raised, or left the job while it was still needed.

    If the peer is alive but late, you get `CollectiveTimeout`. The group has ended: later calls raise this again, and
    `Communicator.shrink` makes a group of the ranks that are left.
    """


class CollectiveTimeout(ShmcollError):
    """Peers that are alive did not arrive within `comm.timeout` seconds.

    If a peer has died, you get `RankFailed`; if it arrived with a different call, `CollectiveMismatch`. The group has
    ended: later calls raise this again.
    """


class Deadlock(CollectiveTimeout):
    """Ranks wait for one another in blocking receives and collectives, and nothing that they wait for is on its way.

    Raised on every rank of the circle after about a second, long before `comm.timeout`, because it is proven that
    waiting cannot help. The text and `calls` say which rank is in which call, at which line; `missing` is the rank
    that this one waits for. Other ranks of the group get `RankFailed` with the same text. A circle that goes through
    several groups, through calls other than collectives, and `recv` and `recv_object` from one rank, or through
    receives of ranks with several Python threads, is not found: it ends as a `CollectiveTimeout`. The group has ended:
    later calls raise this again.
    """


class CollectiveMismatch(ShmcollError):
    """All ranks arrived, but not with the same call: operation, dtype, shape, axes, root or reduction differ.

    Raised on every rank before any data moves; the text says which rank made which call. If a peer made no call, you
    get `CollectiveTimeout`. The group has ended: later calls raise this again.
    """


class ArenaError(ShmcollError):
    """Shared memory is not available or not as expected: too little, wrong owner, wrong version.

    If there is too little, `needed` and `available` are the amounts in bytes; else both are 0. A call that found too
    little has not been made, and the group stays usable. If ordinary memory is missing, you get Python's `MemoryError`.
    """

    def __init__(self, text: str, *, needed: int = 0, available: int = 0):
        super().__init__(text)
        self.needed = needed
        self.available = available


class CallNotAllowed(ShmcollError):
    """A call was made where no call is possible. Nothing has happened, and the group stays usable.

    The communicator is closed, this process is a fork of the rank, the program is ending, a signal handler or finaliser
    made the call during another call of the same thread, or another thread of the rank is in a collective of the same
    communicator: give each thread its own by `comm.dup()`. If the group has ended because of a failure, you get
    that failure again instead.
    """


class Cancelled(ShmcollError):
    """A posted receive was withdrawn before its message arrived. No message is lost, and the group stays usable.

    `Work.cancel` withdraws a receive, and so do `Communicator.close` and the end of the program. If an `await` of the
    work is cancelled, you get `asyncio.CancelledError` instead, and the receive stays posted.
    """


class BufferChanged(ShmcollError):
    """A buffer of an asynchronous call was changed before the call had ended, or it is shared by a posted receive and
    another pending call. Found with `shmrun --check` only.

    The call was made with whatever its buffers contained, and the group stays usable.
    """


class OperatorFailed(ShmcollError):
    """The operator of a reduction of objects has raised, or its result cannot be pickled.

    Raised on every rank; the text says on which rank it was and what it raised, and on that rank `__cause__` is the
    exception itself. The group stays usable.
    """


class InternalError(ShmcollError):
    """A bug in shmcoll: an invariant of the protocol does not hold. Please report it. The group has ended."""


class RemoteTraceback(Exception):
    """The traceback of a rank, as text. Never raised itself: it is the `__cause__` of the exception that the rank
    raised and `shmcoll.run` raises again."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


__all__ = [
    "ArenaError",
    "BufferChanged",
    "CallNotAllowed",
    "Cancelled",
    "CollectiveMismatch",
    "CollectiveTimeout",
    "Deadlock",
    "InternalError",
    "OperatorFailed",
    "RankFailed",
    "RemoteTraceback",
    "ShmcollError",
]
