"""MPI's chapter on messages between two ranks: sends in their modes, receives, probes.

A message is packed bytes. So a receive needs no datatype like that of the send, as in MPI. A send returns when its
buffer may be changed: what the receiver does not wait for is kept in shared memory. So the standard, the buffered and
the ready mode are one, and buffers that a program attaches are not needed.
"""

from collections.abc import Callable
from typing import Any

from shmcoll import ANY
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.objects import status as statuses
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import MESSAGE
from shmcoll.mpi.objects.matched import NO_PROC, Matched, status_of
from shmcoll.mpi.objects.requests import PersistentRequest, ReceiveRequest, Request, WorkRequest, added, truncated
from shmcoll.mpi.objects.status import Status

ANY_TAG, LARGEST_TAG = c["MPI_ANY_TAG"], (1 << 31) - 1
_MESSAGE_NO_PROC = c["MPI_MESSAGE_NO_PROC"]


def _check_tag(tag: int, *, may_be_any: bool = False) -> None:
    if not (0 <= tag <= LARGEST_TAG or (may_be_any and tag == ANY_TAG)):
        raise MPIError("MPI_ERR_TAG", f"tag {tag} is not between 0 and {LARGEST_TAG}")


# --- sends ------------------------------------------------------------------------------------------------------------


def _checked_send(buffer: Buffer, dest: int, tag: int, comm: Comm) -> int | None:
    """Return the rank in the native communicator that a message goes to; None for nobody."""
    comm.check_peer(dest)
    _check_tag(tag)
    return comm.to_native(dest)


def _sends(mode: str, *, synchronous: bool) -> None:
    """Register the three forms of a send in one mode."""

    @mpi(name=f"{mode}send".capitalize())
    def send(address: int, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> None:
        buffer = Buffer(address, count, datatype)
        to = _checked_send(buffer, dest, tag, comm)
        if to is not None:
            comm.messages.send(buffer.packed(), to, tag, synchronous=synchronous)

    @mpi(name=f"I{mode}send")
    def isend(address: int, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> Request:
        buffer = Buffer(address, count, datatype)
        to = _checked_send(buffer, dest, tag, comm)
        return added(_sending(buffer, to, tag, comm, synchronous=synchronous))

    @mpi(name=f"{mode}send_init".capitalize())
    def send_init(address: int, count: int, datatype: Datatype, dest: int, tag: int, comm: Comm) -> Request:
        buffer = Buffer(address, count, datatype)
        to = _checked_send(buffer, dest, tag, comm)
        return added(PersistentRequest(comm, lambda: _sending(buffer, to, tag, comm, synchronous=synchronous)))


def _sending(buffer: Buffer, to: int | None, tag: int, comm: Comm, *, synchronous: bool = False) -> Request:
    if to is None:
        return WorkRequest(comm, None)
    return WorkRequest(comm, comm.messages.send(buffer.packed(), to, tag, synchronous=synchronous, async_op=True))


for _mode in ("", "b", "r", "s"):
    _sends(_mode, synchronous=_mode == "s")


# --- receives ---------------------------------------------------------------------------------------------------------


def _checked_receive(source: int, tag: int, comm: Comm) -> tuple[int | None, int]:
    """Return the rank in the native communicator that a message comes from, and the tag."""
    comm.check_peer(source, may_be_any=True)
    _check_tag(tag, may_be_any=True)
    return comm.to_native(source), ANY if tag == ANY_TAG else tag


@mpi()
def Recv(address: int, count: int, datatype: Datatype, source: int, tag: int, comm: Comm, status: int) -> None:
    buffer = Buffer(address, count, datatype)
    wanted, tag = _checked_receive(source, tag, comm)
    received(buffer, wanted, tag, comm).store(status)


def received(buffer: Buffer, source: int | None, tag: int, comm: Comm) -> Status:
    """Receive a message, and return its status."""
    if source is None:
        return NO_PROC
    return _received(buffer, source, tag, comm, lambda out: comm.messages.recv(out, source, tag))


def _received(buffer: Buffer, source: int, tag: int, comm: Comm, receive: Callable[[Any], Any]) -> Status:
    """Fill a buffer with what a call of shmcoll receives into an array that it is given, and return the status."""
    target = buffer.target()
    try:
        data, sender, tag = receive(target)
    except ValueError as error:  # the message is longer: in MPI it is received, and cut
        raise truncated(buffer, comm.messages.mprobe(source, tag).envelope, comm) from error
    buffer.fill(data)
    return Status(comm.from_native(sender), tag, 0, data.size)


@mpi()
def Irecv(address: int, count: int, datatype: Datatype, source: int, tag: int, comm: Comm) -> Request:
    buffer = Buffer(address, count, datatype)
    wanted, tag = _checked_receive(source, tag, comm)
    return added(ReceiveRequest(comm, buffer, wanted, tag))


@mpi()
def Recv_init(address: int, count: int, datatype: Datatype, source: int, tag: int, comm: Comm) -> Request:
    buffer = Buffer(address, count, datatype)
    wanted, tag = _checked_receive(source, tag, comm)
    return added(PersistentRequest(comm, lambda: ReceiveRequest(comm, buffer, wanted, tag)))


# --- both -------------------------------------------------------------------------------------------------------------


@mpi()
def Sendrecv(
    address: int,
    count: int,
    datatype: Datatype,
    dest: int,
    sendtag: int,
    into: int,
    room: int,
    recvtype: Datatype,
    source: int,
    recvtag: int,
    comm: Comm,
    status: int,
) -> None:
    sent, given = Buffer(address, count, datatype), Buffer(into, room, recvtype)
    _exchange(sent, dest, sendtag, given, source, recvtag, comm).store(status)


@mpi()
def Sendrecv_replace(
    address: int,
    count: int,
    datatype: Datatype,
    dest: int,
    sendtag: int,
    source: int,
    recvtag: int,
    comm: Comm,
    status: int,
) -> None:
    buffer = Buffer(address, count, datatype)
    _exchange(buffer, dest, sendtag, buffer, source, recvtag, comm).store(status)


def _exchange(sent: Buffer, dest: int, sendtag: int, given: Buffer, source: int, recvtag: int, comm: Comm) -> Status:
    to = _checked_send(sent, dest, sendtag, comm)
    wanted, recvtag = _checked_receive(source, recvtag, comm)
    if to not in (None, comm.messages.rank) and wanted is not None and sent is not given:
        data, both = sent.packed(), comm.messages.sendrecv
        return _received(given, wanted, recvtag, comm, lambda out: both(data, to, out, wanted, sendtag, recvtag))
    receive = ReceiveRequest(comm, given, wanted, recvtag, into_own=sent is given)
    send = _sending(sent, to, sendtag, comm)
    send.wait()
    receive.wait()
    return receive.status


@mpi()
def Isendrecv(
    address: int,
    count: int,
    datatype: Datatype,
    dest: int,
    sendtag: int,
    into: int,
    room: int,
    recvtype: Datatype,
    source: int,
    recvtag: int,
    comm: Comm,
) -> Request:
    sent, given = Buffer(address, count, datatype), Buffer(into, room, recvtype)
    to = _checked_send(sent, dest, sendtag, comm)
    wanted, recvtag = _checked_receive(source, recvtag, comm)
    receive = ReceiveRequest(comm, given, wanted, recvtag)
    receive.after = _sending(sent, to, sendtag, comm)
    return added(receive)


@mpi()
def Isendrecv_replace(
    address: int, count: int, datatype: Datatype, dest: int, sendtag: int, source: int, recvtag: int, comm: Comm
) -> Request:
    buffer = Buffer(address, count, datatype)
    to = _checked_send(buffer, dest, sendtag, comm)
    wanted, recvtag = _checked_receive(source, recvtag, comm)
    receive = ReceiveRequest(comm, buffer, wanted, recvtag, into_own=True)
    receive.after = _sending(buffer, to, sendtag, comm)
    return added(receive)


# --- probes -----------------------------------------------------------------------------------------------------------


@mpi()
def Probe(source: int, tag: int, comm: Comm, status: int) -> None:
    wanted, tag = _checked_receive(source, tag, comm)
    found = NO_PROC if wanted is None else status_of(comm.messages.probe(wanted, tag), comm)
    found.store(status)


@mpi()
def Iprobe(source: int, tag: int, comm: Comm, status: int) -> bool:
    wanted, tag = _checked_receive(source, tag, comm)
    if wanted is None:
        NO_PROC.store(status)
        return True
    envelope = comm.messages.iprobe(wanted, tag)
    if envelope is not None:
        status_of(envelope, comm).store(status)
    return envelope is not None


@mpi(inout=("message",))
def Mprobe(source: int, tag: int, comm: Comm, message: Numbers, status: int) -> None:
    """Store a message of nobody until one is there: after Ctrl-C mpi4py looks at it."""
    wanted, tag = _checked_receive(source, tag, comm)
    message.value = _MESSAGE_NO_PROC
    NO_PROC.store(status)
    if wanted is not None:
        message.value = _matched(comm, comm.messages.mprobe(wanted, tag), status).handle


@mpi()
def Improbe(source: int, tag: int, comm: Comm, status: int) -> tuple[bool, Matched | None]:
    wanted, tag = _checked_receive(source, tag, comm)
    found = None if wanted is None else comm.messages.improbe(wanted, tag)
    if found is None and wanted is not None:
        return False, None
    return True, _matched(comm, found, status)


def _matched(comm: Comm, native: Any, status: int) -> Matched:
    message = Matched(comm, native)
    if native is None:
        message.handle = _MESSAGE_NO_PROC
    else:
        MESSAGE.add(message)
    message.status.store(status)
    return message


@mpi(inout=("message",))
def Mrecv(address: int, count: int, datatype: Datatype, message: Numbers, status: int) -> None:
    _take(message, lambda taken: taken.receive(Buffer(address, count, datatype))).store(status)


@mpi(inout=("message",))
def Imrecv(address: int, count: int, datatype: Datatype, message: Numbers) -> Request:
    def receive(taken: Matched) -> Request:
        request = WorkRequest(taken.comm, None)
        request.status = taken.receive(Buffer(address, count, datatype))
        return added(request)

    return _take(message, receive)


def _take(message: Numbers, receive: Callable[[Matched], Any]) -> Any:
    """Receive a message that a probe has taken. Its handle goes."""
    if message.value == _MESSAGE_NO_PROC:
        taken = Matched(_nobody(), None)
    else:
        taken = MESSAGE.find(message.value)
        MESSAGE.remove(taken)
    message.value = MESSAGE.null
    return receive(taken)


def _nobody() -> Comm:
    from shmcoll.mpi.process import PROCESS

    return PROCESS.world


@mpi()
def Test_cancelled(status: int) -> bool:
    return statuses.at(status).is_cancelled
