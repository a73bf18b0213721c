"""MPI as the other files use it: sends and receives of bytes between two ranks of a group.

One duplicate of the user's MPI communicator carries everything that a job sends. Groups share it: a message of group g
has the tag `KINDS * g + kind`. MPI keeps messages of one sender and one tag in order, and all ranks of a group post
their sends and receives in the order of the group's operations, so a tag needs no number of the operation.

No call of this file waits for messages; `progress.py` has the only loop that does. But MPICH's first send to a rank
waits for a connection, and tries forever if the rank has died; over TCP it tries forever whenever the process has
ended. So `tell`, which may meet such a rank, sends in a thread, and not to ranks that have left.

Who uses the control channel: every rank has one receive posted, from any rank. A rank that ends a group, or has found
another rank dead, sends a text there (`failures.py`). The receive is posted again before the text is handled.

Messages longer than LONGEST bytes are sent in parts, because MPI counts in 32 bits.
"""

import contextlib
import ctypes
import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ArenaError, CallNotAllowed, ShmcollError
from shmcoll.nodes.mpi import waiting

LONGEST = 1 << 30
CONTROL_BYTES = 16384
LONGEST_TEXT = 2000  # characters of a text on the control channel; JSON writes each in 6 bytes at most

OPENING, DATA, MESSAGE, PAYLOAD, READY, RECEIPT, SUBGROUP = range(7)  # the kinds of messages of a group
KINDS = 8
CONTROL = 0  # the tag of the control channel; groups are numbered from 1


class Wire:
    """The MPI side of a job. mpi: the module `mpi4py.MPI`. comm: an intracommunicator of its own."""

    def __init__(self, mpi: Any, comm: Any):
        self.mpi = mpi
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        #: returns whether all requests of a list are complete, and moves what can be moved
        self.tests: Callable[..., bool] = mpi.Request.Testall
        comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.survives = survives()
        self._has_failed = False  # whether a receive from any rank has found a rank dead since `found_dead`
        self._told_dead = 0  # how many ranks that has returned
        self.most_groups = int(comm.Get_attr(mpi.TAG_UB)) // KINDS - 1
        self._control = np.empty(CONTROL_BYTES, np.uint8)
        self._status = mpi.Status()  # of the control channel; its users hold a lock (`progress.py`)
        self._posted: Any = self._post()
        self._sending: list[tuple[Any, Any]] = []  # control messages on their way, with their memory
        self._lock = threading.Lock()  # of that list
        self.dead: set[int] = set()  # the ranks of the job that are known to have died
        self.left_at: dict[int, float] = {}  # when others have told that they leave: they may have ended since
        self.is_stuck = False  # a send does not return: it holds MPI's lock, so no other call may be made
        self.when_stuck: Callable[[], None] = lambda: None  # is called then

    def among(self, comm: Any, ranks: Sequence[int], number: int) -> Any:
        """Return an MPI communicator of some ranks of one, by which they can shrink their group (`survivors.py`). All
        of them call it. No rank of `comm` may have died. number: that of the group."""
        everybody = comm.Get_group()
        members = everybody.Incl(list(ranks))
        try:
            made = comm.Create_group(members, number)
        finally:
            members.Free()
            everybody.Free()
        made.Set_errhandler(self.mpi.ERRORS_RETURN)
        return made

    def function(self, name: str) -> int:
        """Return the address of a function of MPI."""
        try:
            found = getattr(ctypes.CDLL(self.mpi.__file__), name)
        except AttributeError:
            library = self.mpi.Get_library_version().splitlines()[0]
            raise ShmcollError(
                f"{name} cannot be found in {self.mpi.__file__} or a library that it loads ({library}); "
                f"mpi4py must use an MPI in a shared library"
            ) from None
        return ctypes.cast(found, ctypes.c_void_p).value or 0

    def check_open(self) -> None:
        """Raise if MPI has been finalised, or this wire has been closed."""
        if self.mpi.Is_finalized():
            raise CallNotAllowed("MPI has been finalised; make the last call of a communicator before MPI.Finalize()")
        if self._posted is None:
            raise CallNotAllowed("the communicator is closed: the program, or MPI, is ending")

    def isend(self, array: np.ndarray, peer: int, tag: int) -> list[Any]:
        """Begin to send bytes to a rank of the job, and return the requests."""
        return [self.comm.Isend([part, self.mpi.BYTE], peer, tag) for part in _parts(array)]

    def irecv(self, array: np.ndarray, peer: int, tag: int) -> list[Any]:
        """Begin to receive exactly as many bytes from a rank of the job, and return the requests."""
        return [self.comm.Irecv([part, self.mpi.BYTE], peer, tag) for part in _parts(array)]

    def probe(self, tag: int, source: int | None = None) -> tuple[int, int] | None:
        """Return source and bytes of the first message with this tag that has come, from any rank of the job or from
        one; None if none has."""
        status = self.mpi.Status()
        if not self.comm.Iprobe(self.mpi.ANY_SOURCE if source is None else source, tag, status):
            return None
        return status.Get_source(), status.Get_count(self.mpi.BYTE)

    # --- the control channel ------------------------------------------------------------------------------------------

    def tell(self, peers: Sequence[int], message: dict[str, Any]) -> None:
        """Send a control message to those of some ranks of the job that live and have not left. It never raises. It
        waits for TELLING seconds at most; if MPI `is_stuck` then, no more calls of MPI return in this process."""
        data = np.frombuffer(to_bytes(json.dumps(message | {"text": message["text"][:LONGEST_TEXT]})), np.uint8)

        def send() -> None:
            for peer in peers:
                if peer not in self.dead and peer not in self.left_at:
                    with contextlib.suppress(self.mpi.Exception):
                        request = self.comm.Isend([data, self.mpi.BYTE], peer, CONTROL)
                        with self._lock:
                            self._sending.append((request, data))

        if self.is_stuck or (self.dead | self.left_at.keys()).issuperset(peers):
            return
        sender = threading.Thread(target=send, name="shmcoll-nodes-tell", daemon=True)
        try:
            sender.start()
        except RuntimeError:  # Python starts no threads any more
            send()
            return
        for _ in range(waiting.TELLING_LOOKS):
            sender.join(waiting.TELLING / waiting.TELLING_LOOKS)
            if not sender.is_alive():
                return
        if not self.is_stuck:
            self.is_stuck = True
            self.when_stuck()

    def heard(self) -> dict[str, Any] | None:
        """Return the next control message; None if none has come."""
        if self._posted is None or self.is_stuck:
            return None
        self.has_sent()
        try:
            # A signal handler may have raised after it was complete, and before the next one was posted
            if self._posted != self.mpi.REQUEST_NULL and not self._posted.Test(self._status):
                return None
        except self.mpi.Exception:
            if not self.survives:
                raise
            self._has_failed = True  # the receive stays posted
            return None
        found: dict[str, Any] = json.loads(self._control[: self._status.Get_count(self.mpi.BYTE)].tobytes())
        self._posted = self._post()
        return found

    def found_dead(self) -> list[int]:
        """Return the ranks that MPI has found dead since the last time, if it goes on after that. Receives from any
        rank can be complete again from then on."""
        if not self._has_failed:
            return []
        self._has_failed = False
        failed, everybody = self.comm.Get_failed(), self.comm.Get_group()
        dead: list[int] = failed.Translate_ranks(list(range(failed.Get_size())), everybody)
        for group in (failed, everybody):
            group.Free()
        self.comm.Ack_failed()
        found, self._told_dead = dead[self._told_dead :], len(dead)
        return found

    def has_sent(self) -> bool:
        """Return whether all control messages have left."""
        with self._lock:
            self._sending = [one for one in self._sending if not _is_done(self.mpi, one[0])]
            return not self._sending

    def close(self) -> None:
        """Withdraw the receive of the control channel and free the communicator, before MPI ends: MPICH aborts if a
        request is left."""
        if self._posted is None or self.mpi.Is_finalized():
            return
        posted, self._posted = self._posted, None
        with contextlib.suppress(self.mpi.Exception):
            posted.Cancel()
            posted.Wait()  # returns at once: the receive has been cancelled, or was complete

    def _post(self) -> Any:
        return self.comm.Irecv([self._control, self.mpi.BYTE], self.mpi.ANY_SOURCE, CONTROL)


class Pending:
    """Sends and receives of one operation that have begun, with their peers, so that messages can name those that are
    missing. MPI reads and writes their memory until they are complete."""

    def __init__(self, channel: "Channel"):
        self._channel = channel
        self.requests: list[Any] = []
        self._peers: list[tuple[bool, int]] = []  # of each request: whether it receives, and its peer
        self.bytes = 0

    def send(self, array: np.ndarray, peer: int, kind: int = DATA) -> None:
        """Begin to send bytes to a rank of the group."""
        if array.nbytes:
            self.bytes += array.nbytes
            self._add(self._channel.isend(array, peer, kind), False, peer)

    def recv(self, array: np.ndarray, peer: int, kind: int = DATA) -> None:
        """Begin to receive bytes from a rank of the group."""
        if array.nbytes:
            self.bytes += array.nbytes
            self._add(self._channel.irecv(array, peer, kind), True, peer)

    @property
    def begun(self) -> list[tuple[Any, bool]]:
        """The requests, each with whether it receives."""
        return [(request, receives) for request, (receives, _) in zip(self.requests, self._peers, strict=True)]

    def missing(self) -> list[int]:
        """Return the ranks from which bytes are missing; if all have come, those that have not taken their bytes."""
        null = self._channel.wire.mpi.REQUEST_NULL
        waits = [who for who, request in zip(self._peers, self.requests, strict=True) if request != null]
        return awaited(waits)

    def _add(self, requests: list[Any], receives: bool, peer: int) -> None:
        self.requests += requests
        self._peers += [(receives, peer)] * len(requests)


class Channel:
    """What one group sends: the wire, with ranks of the group. number: that of the group, equal on all its ranks."""

    def __init__(self, wire: Wire, number: int, ranks: Sequence[int]):
        if number > wire.most_groups:
            raise ArenaError(
                f"there are too many groups at once: this MPI has tags for {wire.most_groups}; close some of them"
            )
        self.wire = wire
        self.number = number
        self.ranks = tuple(ranks)

    def isend(self, array: np.ndarray, peer: int, kind: int = DATA) -> list[Any]:
        """Begin to send bytes to a rank of the group."""
        return self.wire.isend(array, self.ranks[peer], self.tag(kind))

    def irecv(self, array: np.ndarray, peer: int, kind: int = DATA) -> list[Any]:
        """Begin to receive bytes from a rank of the group."""
        return self.wire.irecv(array, self.ranks[peer], self.tag(kind))

    def tag(self, kind: int) -> int:
        return KINDS * self.number + kind


def awaited(waits: Sequence[tuple[bool, int]]) -> list[int]:
    """Return whom requests wait for: the ranks from which they receive, or else those to which they send.

    waits: of each request that is not complete, whether it receives, and its peer.
    """
    some_receive = any(receives for receives, _ in waits)
    return sorted({peer for receives, peer in waits if receives == some_receive})


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return the bytes of a C-contiguous array, on the same memory."""
    return array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)


def at_address(address: int, length: int) -> np.ndarray:
    """Return the bytes at an address, which the caller keeps alive."""
    if length == 0:
        return np.empty(0, np.uint8)
    memory = (ctypes.c_uint8 * length).from_address(address)
    return np.frombuffer(memoryview(memory), np.uint8)


def table_at(address: int, words: int) -> np.ndarray:
    """Return words at an address, which the caller keeps alive."""
    return at_address(address, 8 * words).view(np.int64)


def check_thread_level(mpi: Any) -> str:
    """Return what is wrong with how MPI was started; empty if nothing is."""
    if mpi.Query_thread() < mpi.THREAD_MULTIPLE:
        return "MPI was started without THREAD_MULTIPLE; import mpi4py.MPI before anything else starts MPI"
    return ""


def import_mpi(why: str) -> Any:
    """Return the module `mpi4py.MPI`. Raises `ShmcollError` if it is not installed, or finds no MPI."""
    try:
        import mpi4py
    except ImportError as error:
        raise ShmcollError(
            f"{why}; between machines shmcoll uses MPI through mpi4py, which cannot be imported here ({error}). "
            f"Install it on every machine: pip install 'shmcoll[nodes]'"
        ) from error
    if survives():  # MPI_Finalize could wait for the dead: https://github.com/open-mpi/ompi/issues/11404
        mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ShmcollError(
            f"{why}; between machines shmcoll uses MPI, and mpi4py cannot load the library of one ({error}). Set "
            f"MPI4PY_LIBMPI to the library (libmpi.so) of the MPI whose mpiexec starts the job; if that is not enough, "
            f"build mpi4py for it: pip install --no-binary mpi4py mpi4py"
        ) from error
    return MPI


def survives() -> bool:
    """Return whether MPI goes on when a rank has died: Open MPI's mpiexec sets this variable for --with-ft ulfm."""
    return os.environ.get("OMPI_MCA_mpi_ft_enable", "0") not in ("0", "false")  # noqa: SIM112


def _parts(array: np.ndarray) -> list[np.ndarray]:
    if array.nbytes <= LONGEST:
        return [array]
    return [array[i : i + LONGEST] for i in range(0, array.nbytes, LONGEST)]


def _is_done(mpi: Any, request: Any) -> bool:
    try:
        return bool(request.Test())
    except mpi.Exception:
        return True  # the peer has gone
