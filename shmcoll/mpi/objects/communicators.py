"""Groups and communicators of MPI, and how each maps to a communicator of shmcoll.

A communicator has two of the same ranks in the same order: `native` for its collectives, and `messages`. Each makes its
calls one after the other, and a message must pass a nonblocking collective, which may wait for the receiver. The
communicator of a file has no messages. An intercommunicator has those of both of its groups, this side's ranks first on
the side whose first rank is the lower one; its group and remote group number the ranks of each side.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from shmcoll import ANY
from shmcoll.calls import delivery
from shmcoll.communicator import Communicator
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.attributes import Attributes
from shmcoll.mpi.objects.error_handlers import ERRORS_ARE_FATAL, ErrorHandler
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import COMM, GROUP
from shmcoll.runtime.dispatcher import Dispatcher

UNDEFINED = c["MPI_UNDEFINED"]
PROC_NULL, ANY_SOURCE, ROOT = c["MPI_PROC_NULL"], c["MPI_ANY_SOURCE"], c["MPI_ROOT"]


class Group:
    """An ordered set of processes, by their numbers: see `processes.py`. Those of this job have their rank there."""

    handle = GROUP.null

    def __init__(self, ranks: Sequence[int]):
        self.ranks = tuple(ranks)
        self._places = {rank: i for i, rank in enumerate(self.ranks)}

    @property
    def size(self) -> int:
        return len(self.ranks)

    def place(self, rank: int) -> int:
        """Return the number in this group of a rank of the job; MPI_UNDEFINED if it is no member."""
        return self._places.get(rank, UNDEFINED)

    def member(self, place: int) -> int:
        """Return the rank in the job of a member.

        Raises:
            MPIError: there is no such member.
        """
        if not 0 <= place < len(self.ranks):
            raise MPIError("MPI_ERR_RANK", f"rank {place} is not in a group of {len(self.ranks)}")
        return self.ranks[place]


_freed: list[Communicator] = []  # with pending calls, which go on: of a request, or of one that was freed


def close_idle(freed: Sequence[Communicator]) -> None:
    """Close native communicators that were freed, now or before, unless they have pending calls."""
    _freed.extend(freed)
    for native in list(_freed):
        if not _has_pending(native):
            with suppress(ValueError):  # another thread has removed it
                _freed.remove(native)
            native.close()


def _has_pending(native: Communicator) -> bool:
    dispatcher = native._dispatcher
    worker = dispatcher.worker
    return bool(worker.turns.calls()) or worker.has_receives() or delivery.has_pending(dispatcher)


class Comm:
    """A communicator."""

    handle = COMM.null

    def __init__(
        self,
        native: Communicator,
        messages: Communicator | None,
        group: Group,
        *,
        remote: Group | None = None,
        offset: int = 0,
        name: str = "",
    ):
        self.native = native
        self._messages = messages
        for one in filter(None, (native, messages)):
            one._dispatcher.worker.unseen = None  # requests that nobody has waited for are told at the end of MPI
        self.group = group
        self.remote = remote
        self.name = name
        self.errhandler: ErrorHandler = ERRORS_ARE_FATAL
        self.attributes = Attributes()
        self.topology: Any = None
        self.info: dict[str, str] = {}
        self.offset = offset  # of the ranks of this side in `native`, for an intercommunicator

    def native_row(self) -> tuple[int, ...] | None:
        """Return what native functions need; None for an intercommunicator, and if calls are watched."""
        dispatcher = self.native._dispatcher
        if self.is_inter or not isinstance(dispatcher, Dispatcher) or dispatcher.checks_buffers:
            return None
        messages = self.messages._dispatcher
        return dispatcher.words.ctypes.data, messages.words.ctypes.data, self.native.rank, self.size

    @property
    def messages(self) -> Communicator:
        assert self._messages
        return self._messages

    def abort(self, text: str) -> None:
        """End both groups, and tell the others why."""
        self.native.abort(text)
        self.messages.abort(text)

    def release(self) -> None:
        """Close the native communicators when nothing needs them any more."""
        close_idle([one for one in (self._messages, self.native) if one is not None])

    @property
    def rank(self) -> int:
        return self.native.rank - self.offset

    @property
    def size(self) -> int:
        return self.group.size

    @property
    def is_inter(self) -> bool:
        return self.remote is not None

    def check_intra(self) -> None:
        """Raise if this is an intercommunicator."""
        if self.is_inter:
            raise MPIError(
                "MPI_ERR_COMM", f"{self.in_words} is an intercommunicator; the call needs an intracommunicator"
            )

    def check_root(self, root: int) -> None:
        """Raise if there is no such root."""
        if not (0 <= root < self.peers or (self.is_inter and root in (ROOT, PROC_NULL))):
            raise MPIError("MPI_ERR_ROOT", f"root {root} is not in {self.in_words} of {self.peers} ranks")

    @property
    def peers(self) -> int:
        """How many ranks a rank exchanges data with: those of the group, or of the other side."""
        return self.size if self.remote is None else self.remote.size

    def is_root(self, root: int) -> bool:
        """Return whether this rank is the root of a call that has passed this root."""
        return root == (ROOT if self.is_inter else self.rank)

    def is_served(self, root: int) -> bool:
        """Return whether the root of a call sends something to this rank, or takes something from it."""
        return root >= 0

    def native_root(self, root: int) -> int:
        """Return the root's rank in `native`. All ranks call it, for only one side knows the root of two sides."""
        if not self.is_inter:
            return root
        return int(self.native.all_reduce(np.array([self.native.rank if root == ROOT else -1]), "max")[0])

    def spread(self, numbers: Sequence[int]) -> list[int]:
        """Return numbers of the peers as numbers of all ranks of `native`: 0 for those of this side."""
        if not self.is_inter:
            return list(numbers)
        own = [0] * self.size
        return [*own, *numbers] if self.offset == 0 else [*numbers, *own]

    def rows(self, data: np.ndarray) -> np.ndarray:
        """Return the bytes of all peers, as many as this rank has, a row for each. All ranks call it."""
        if not self.is_inter:
            return self.native.all_gather(data).reshape(self.size, -1)
        lengths = self.spread([data.size] * self.peers)
        zeros = [0] * self.native.size
        given, _ = self.native.all_to_all_v(data, lengths, zeros, recv_counts=lengths)
        return given.reshape(self.peers, -1)

    @property
    def _remote_offset(self) -> int:
        """The rank in `native` of the first rank that messages go to."""
        return self.size if self.remote is not None and self.offset == 0 else 0

    def to_native(self, peer: int) -> int | None:
        """Return the rank in `native` of a peer; None for MPI_PROC_NULL, ANY for any."""
        if peer == PROC_NULL:
            return None
        return ANY if peer == ANY_SOURCE else peer + self._remote_offset

    def from_native(self, rank: int | None) -> int:
        """Return the peer that is a rank of `native`; MPI_PROC_NULL for None."""
        return PROC_NULL if rank is None else rank - self._remote_offset

    def check_peer(self, rank: int, *, may_be_any: bool = False) -> None:
        """Raise if no message can go to this rank, or come from it."""
        size = self.remote.size if self.remote else self.size
        if not (0 <= rank < size or rank == PROC_NULL or (may_be_any and rank == ANY_SOURCE)):
            raise MPIError("MPI_ERR_RANK", f"rank {rank} is not in {self.in_words} of {size} ranks")

    @property
    def in_words(self) -> str:
        return self.name or f"communicator {self.handle & 0xFFFFFFFF:#x}"
