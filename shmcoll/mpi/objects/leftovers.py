"""What a program leaves behind when it ends MPI, in words: a line for each kind, on the rank that it is about."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from shmcoll.diagnostics.call_site import places
from shmcoll.engine.system.switches import is_on
from shmcoll.errors import ShmcollError
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.handles import COMM, FILE, REQUEST, WIN
from shmcoll.mpi.objects.native_requests import settle
from shmcoll.mpi.objects.requests import ReceiveRequest
from shmcoll.runtime import leftovers

_MOST = 5  # messages that are named


def note() -> None:
    """Note for the senders which messages this rank has not received, when all ranks have come to the end."""
    for comm in COMM.all():
        with suppress(ShmcollError):
            leftovers.note(comm.messages._dispatcher, leftovers.MEETS)


def sends() -> Iterator[str]:
    """Yield which messages of this rank have not been received, when all ranks have noted theirs."""
    for comm in COMM.all():
        with suppress(ShmcollError):  # of a group that has ended
            dispatcher = comm.messages._dispatcher
            for line in () if dispatcher.group.has_ended() else leftovers.sends(dispatcher, leftovers.MEETS):
                yield f"{line}, in {comm.in_words}"


def lines(sends: Sequence[str]) -> Iterator[str]:
    """Yield what is left behind, when all ranks have come to the end. sends: the lines about sends.

    Messages are looked for among those that have arrived. They are taken, so this is done once.
    """
    yield from _requests()
    yield from sends
    for comm in COMM.all():
        with suppress(ShmcollError):  # of a group that has ended
            yield from _messages(comm)
    if is_on("SHMCOLL_CHECK"):
        counts = {"communicators": len(COMM.all()) - 2, "windows": len(WIN.all()), "files": len(FILE.all())}
        if any(counts.values()):
            yield f"never freed: {', '.join(f'{count} {kind}' for kind, count in counts.items() if count)}"


def _requests() -> Iterator[str]:
    """Receives without a message are not among them: shmcoll itself tells them."""
    settle()
    active = (one for one in REQUEST.all() if one.is_active and not getattr(one, "is_permanent", False))
    left = [one for one in active if not isinstance(one, ReceiveRequest) or one.test_or_failed()]
    if left:
        where = places([one.site for one in left])
        yield f"{len(left)} request{'s were' if len(left) > 1 else ' was'} never waited for{where and f': {where}'}"


def _messages(comm: Comm) -> Iterator[str]:
    found = 0
    while message := comm.messages.improbe():
        found += 1
        if found <= _MOST:
            source, tag, _, shape = message.envelope
            length = int(np.prod(shape))  # bytes
            sender = f"rank {comm.from_native(source)} with tag {tag}, {length} bytes"
            yield f"a message was never received: from {sender}, in {comm.in_words}"
    if found > _MOST:
        more = found - _MOST
        yield f"{more} more message{'s were' if more > 1 else ' was'} never received, in {comm.in_words}"
