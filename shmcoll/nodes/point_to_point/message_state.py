"""The memory of a group's native messages between nodes, and what Python does with it.

`message_words.py` has the protocol.
"""

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.engine.layout import WORD
from shmcoll.engine.native.entry import FAST
from shmcoll.nodes.mpi.wire import MESSAGE, PAYLOAD, READY
from shmcoll.nodes.point_to_point import message_words as m
from shmcoll.nodes.point_to_point.unexpected import Head

if TYPE_CHECKING:
    from shmcoll.nodes.mpi.wire import Channel

_CLOSED, _SENDING, _RECEIVING = (offset // WORD for offset in (m.CLOSED, m.SENDING, m.RECEIVING))

MOST_OUTGOING = 16 << 20  # bytes of the longest message that native code sends: it keeps as much memory


@dataclass
class LeftSend:
    """What native code has left of a send. memory: of the head, and perhaps of the bytes that follow. address: of these
    bytes, if they are in the array of the call; else 0. unsent: how many bytes Python has to send from there to a rank,
    `peer` as MPI knows it."""

    requests: list[Any]
    memory: np.ndarray
    address: int
    unsent: int
    peer: int


class MessageState:
    """Keeps native code out of the messages of a group, as a context manager of the thread that has the lock of these.

    take_over: called when native code is out. is_awaited: returns whether receives are posted or messages wait; called
    when Python lets native code in again. has_ended: returns whether the group has. wait: `message_receives.wait_far`.
    """

    def __init__(
        self,
        channel: "Channel",
        polls: int,
        take_over: Callable[[], None],
        is_awaited: Callable[[], bool],
        has_ended: Callable[[], bool],
        wait: Callable[[int, int], int],
    ):
        self._take_over, self._is_awaited, self._has_ended = take_over, is_awaited, has_ended
        self._wait = wait
        #: whether `wait` can find a message. If MPI goes on after a failure, it reports that to each probe for any rank
        self.can_wait = FAST and not channel.wire.survives
        self._depth = 0  # how often that thread has entered
        self._is_shut = False
        self.words = np.zeros(m.MESSAGE_WORDS, np.int64)
        self._words = self.words.data
        self._world_ranks = np.array(channel.ranks, np.int64)
        wire = channel.wire
        self._mpi = wire.mpi
        for offset, value in (
            (m.WORLD_RANKS, self._world_ranks.ctypes.data),
            (m.ISEND, wire.function("MPI_Isend")),
            (m.IRECV, wire.function("MPI_Irecv")),
            (m.PROBE, wire.function("MPI_Iprobe")),
            (m.TEST, wire.function("MPI_Test")),
            (m.CANCEL, wire.function("MPI_Cancel")),
            (m.TEST_CANCELLED, wire.function("MPI_Test_cancelled")),
            (m.BYTE, ctypes.c_int64(wire.mpi.BYTE.handle).value),
            (m.COMM, ctypes.c_int64(wire.comm.handle).value),
            (m.MESSAGE_TAG, channel.tag(MESSAGE)),
            (m.PAYLOAD_TAG, channel.tag(PAYLOAD)),
            (m.READY_TAG, channel.tag(READY)),
            (m.ANYBODY, wire.mpi.ANY_SOURCE),
            (m.SOURCE_PLACE, _source_place(wire.mpi)),
            (m.POLLS, polls),
        ):
            self._set(offset, value)
        self._forget_sends()
        self._make_outgoing(m.MOST_INCOMING)
        self._make_incoming()

    def __enter__(self) -> None:
        self._depth += 1
        words = self._words
        try:
            words[_CLOSED] = m.SHUT
            if words[_SENDING] != m.FREE or words[_RECEIVING] != m.FREE:
                while m.RUNNING in (words[_SENDING], words[_RECEIVING]) and not self._has_ended():
                    time.sleep(0)
                self._take_over()
        except BaseException:
            self._depth -= 1
            raise

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and not self._is_shut:
            self._words[_CLOSED] = m.WAITED if self._is_awaited() else m.OPEN

    def shut(self) -> None:
        """Keep native code out for good."""
        self._is_shut = True
        self._set(m.CLOSED, m.SHUT)

    # --- what Python takes over ---------------------------------------------------------------------------------------

    def take_send(self) -> "LeftSend | None":
        """Return what native code has left of a send, or None."""
        state = self._get(m.SENDING)
        if state not in (m.LEFT, m.UNSENT):
            return None
        left = LeftSend(
            requests=[self._request(offset) for offset in (m.SENT, m.SENT_PAYLOAD)],
            memory=self._outgoing,
            address=self._get(m.SENT_FROM),
            unsent=self._get(m.SENT_BYTES) if state == m.UNSENT else 0,
            peer=self._get(m.SENT_TO),
        )
        self._forget_sends()  # the next message may have one request only
        self._make_outgoing(self._outgoing.size)
        self._set(m.SENDING, m.FREE)
        return left

    def take_found(self) -> np.ndarray | None:
        """Return the message that native code has found, in memory of its own, or None."""
        if not self.has_found:
            return None
        found = self.incoming[: Head(self.head).message_bytes].copy()
        self._set(m.RECEIVING, m.FREE)
        return found

    def take_matched(self) -> tuple[Any, np.ndarray] | None:
        """Return the request of a message that MPI has found, but has not received yet, and its memory,
        or None."""
        if self._get(m.RECEIVING) != m.MATCHED:
            return None
        matched = self._request(m.RECEIVED), self.incoming
        self._make_incoming()
        self._set(m.RECEIVING, m.FREE)
        return matched

    def take_payload(self) -> tuple[Any, int] | None:
        """Return the request for the bytes of a message, which a call has left, and the tag, or None."""
        if not self.receives_array:
            return None
        payload = self._request(m.RECEIVED), m.tag_in(self.head[m.KIND // WORD])
        self._set(m.RECEIVING, m.FREE)
        return payload

    def take_ready(self) -> Any | None:
        """Return the request of the last READY that this rank has sent, or None if it has left."""
        return self._request(m.READY_REQUEST) if self._get(m.IS_TELLING) else None

    @property
    def sends_array(self) -> bool:
        """Whether a call has left bytes to send that are in its array, and nobody has taken them over."""
        return self._get(m.SENDING) in (m.LEFT, m.UNSENT) and self._get(m.SENT_FROM) != 0

    @property
    def receives_array(self) -> bool:
        """Whether a call has left a request that receives into its array, and nobody has taken it over."""
        return self._get(m.RECEIVING) == m.LEFT

    @property
    def has_asked(self) -> bool:
        """Whether a READY may come that nobody waits for."""
        return self._get(m.ASKED) > 0

    # --- what calls use -----------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether native code may receive: Python has no receive and no message that comes first."""
        return self._get(m.CLOSED) == m.OPEN

    @property
    def has_found(self) -> bool:
        """Whether native code has found a message, and no receive has got it yet."""
        return self._get(m.RECEIVING) == m.FOUND

    @property
    def found_number(self) -> int:
        """The number of the message that has been found last."""
        return self._get(m.FOUND_NUMBER)

    @property
    def source(self) -> int:
        """The rank that has sent it, as MPI knows it."""
        return self._get(m.FOUND_SOURCE)

    @property
    def error(self) -> int:
        """MPI's error, of a call that has returned UNREADABLE."""
        return self._get(m.FAILED_STATUS)

    def wait(self, patience: int) -> None:
        """Wait for the next head of any rank, for so many ns. It is FOUND then."""
        if self.can_wait:
            self._wait(self.words.ctypes.data, patience)
        else:
            os.sched_yield()

    def prepare_for(self, length: int) -> None:
        """Let native code send messages with so many bytes, if that is not too much. Called with native code out."""
        size = m.SHAPE + m.MOST_WORDS * WORD + length
        if self._outgoing.size < size <= MOST_OUTGOING and self._get(m.SENDING) == m.FREE:
            self._make_outgoing(size)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _get(self, offset: int) -> int:
        return self._words[offset // WORD]

    def _set(self, offset: int, value: int) -> None:
        self._words[offset // WORD] = value

    def _request(self, offset: int) -> Any:
        return self._mpi.Request.fromhandle(self._get(offset))

    def _forget_sends(self) -> None:
        for offset in (m.SENT, m.SENT_PAYLOAD):
            self._set(offset, self._mpi.REQUEST_NULL.handle)

    def _make_outgoing(self, size: int) -> None:
        self._outgoing = np.empty(size, np.uint8)
        self._set(m.OUTGOING, self._outgoing.ctypes.data)
        self._set(m.OUTGOING_BYTES, size)

    def _make_incoming(self) -> None:
        self.incoming = np.empty(m.MOST_INCOMING, np.uint8)
        self.head = self.incoming.data.cast("q")
        self._set(m.INCOMING, self.incoming.ctypes.data)


def _source_place(mpi: Any) -> int:
    """Return where a status of MPI has the rank of the sender, which differs between MPIs."""
    status, wanted = mpi.Status(), 0x5EED
    status.Set_source(wanted)
    ints = (ctypes.c_int * 4).from_address(mpi._addressof(status))
    return list(ints).index(wanted) * ctypes.sizeof(ctypes.c_int)
