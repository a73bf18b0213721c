"""What can go wrong, each error defined by contrast with its neighbours.

A user's own mistake (a wrong type, dtype, axis, shape, count, root) is a `TypeError`, `ValueError` or `IndexError` on
the rank that made it; nothing has been published and the rank may call again.
"""


class ShmcollError(RuntimeError):
    """The base of all errors that arise between ranks."""


class RankFailed(ShmcollError):
    """A peer died, raised, or left the job while it was still needed.

    If the peer is alive but late, you get `CollectiveTimeout`. The group has ended: later calls raise this again.
    """


class CollectiveTimeout(ShmcollError):
    """Peers that are alive did not arrive within `comm.timeout` seconds.

    If a peer arrived with a different call, you get `CollectiveMismatch`. The group has ended.
    """


class CollectiveMismatch(ShmcollError):
    """All ranks arrived, but not with the same call: operation, dtype, shape, axes, root or reduction differ.

    Raised on every rank before any data moves; the message says who called what. The group has ended.
    """


class ArenaError(ShmcollError):
    """Shared memory could not be had or is not what it should be: too little, wrong owner, wrong version.

    Where there was too little, `needed` and `available` are the amounts in bytes; else both are 0.
    """

    def __init__(self, text: str, *, needed: int = 0, available: int = 0):
        super().__init__(text)
        self.needed = needed
        self.available = available


class BufferChanged(ShmcollError):
    """A buffer of an asynchronous call was changed before the call had ended. Found with `shmrun --check` alone.

    The call has been made, with whatever its buffers held, and the group goes on.
    """


class InternalError(ShmcollError):
    """A bug in shmcoll: an invariant of the protocol does not hold. Please report it."""
