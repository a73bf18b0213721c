"""The methods of a communicator that send and receive in one call. `calls/sendrecv.py` moves the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from shmcoll import calls
from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.recv import can_receive, make
from shmcoll.calls.recv_object import make_object
from shmcoll.calls.send import Sending
from shmcoll.calls.send_object import check_object
from shmcoll.calls.sendrecv import SHORT_BYTES, begin, check_addresses, check_arguments, exchange_objects
from shmcoll.communicator.messages import Messages
from shmcoll.engine.layout import ANY, LARGEST_TAG
from shmcoll.engine.system.tracebacks import shorten
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.communicator.types import ArrayLike, Out, Received


class TwoWayMessages(Messages):
    """Messages between two ranks, or between a rank and two others, without the rest of the group."""

    @overload
    def sendrecv(
        self,
        x: ArrayLike,
        dest: int | None,
        out: Out | None = ...,
        source: int | None = ...,
        sendtag: int = ...,
        recvtag: int = ...,
        *,
        async_op: Literal[False] = ...,
    ) -> Received: ...
    @overload
    def sendrecv(
        self,
        x: ArrayLike,
        dest: int | None,
        out: Out | None = ...,
        source: int | None = ...,
        sendtag: int = ...,
        recvtag: int = ...,
        *,
        async_op: Literal[True],
    ) -> Work[Received]: ...
    def sendrecv(
        self,
        x: ArrayLike,
        dest: int | None,
        out: Out | None = None,
        source: int | None = ANY,
        sendtag: int = 0,
        recvtag: int = ANY,
        *,
        async_op: bool = False,
    ) -> Any:
        """Send a message and receive another one. Not a collective.

        Does `send(x, dest, sendtag)` and `recv(out, source, recvtag)`. Arrays of more than 2 MiB travel both ways at
        once, and need no memory in the heap. So do shorter ones, unless the heap has plenty of room to store them.

        Args:
            x: the array to send.
            dest: the rank that receives it; None to send nothing.
            out: as for `recv`. It may be `x` or part of it: then all of `x` is sent first, and a long one is copied
                once more.
            source: the rank that sends, or `shmcoll.ANY`; None to receive nothing.
            sendtag: 0 to 2**31 - 1.
            recvtag: 0 to 2**31 - 1, or `shmcoll.ANY`.
            async_op: post the receive, start the send, and return a `Work` at once. It ends when both have ended.

        Returns:
            (array, source, tag) of the message received, as from `recv`.

        Raises:
            TypeError: as for `recv`.
            ValueError: as for `send` and `recv`.
            ArenaError: as for `send`.
            RankFailed: as for `send` and `recv`.
            CollectiveTimeout: as for `recv`.

        Example:
            >>> after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            >>> received, source, tag = comm.sendrecv(np.array([comm.rank]), after, source=before)
            >>> int(received[0]) == source == before
            True
        """
        try:
            if async_op:
                return self._start_both(x, dest, out, source, sendtag, recvtag)
            if (
                type(x) is np.ndarray
                and x.nbytes <= SHORT_BYTES
                and type(dest) is type(sendtag) is int
                and 0 <= dest < self._size
                and 0 <= sendtag <= LARGEST_TAG
                and can_receive(self._dispatcher, out, source, recvtag)
            ):
                self.send(x, dest, sendtag)
                return self.recv(out, source, recvtag)
            arguments = x, dest, out, source, sendtag, recvtag
            if dest is not None and source is not None:
                return calls.perform(calls.sendrecv, self._dispatcher, arguments)
            check_arguments(self._dispatcher, *arguments)
            self.send(x, dest, sendtag)
            return self.recv(out, source, recvtag)
        except BaseException as error:
            shorten(error)
            raise

    @overload
    def sendrecv_object(
        self,
        value: Any,
        dest: int | None,
        source: int | None = ...,
        sendtag: int = ...,
        recvtag: int = ...,
        *,
        async_op: Literal[False] = ...,
    ) -> tuple[Any, int, int]: ...
    @overload
    def sendrecv_object(
        self,
        value: Any,
        dest: int | None,
        source: int | None = ...,
        sendtag: int = ...,
        recvtag: int = ...,
        *,
        async_op: Literal[True],
    ) -> Work[tuple[Any, int, int]]: ...
    def sendrecv_object(
        self,
        value: Any,
        dest: int | None,
        source: int | None = ANY,
        sendtag: int = 0,
        recvtag: int = ANY,
        *,
        async_op: bool = False,
    ) -> Any:
        """Send an object and receive another one. Not a collective.

        Does `send_object(value, dest, sendtag)` and `recv_object(source, recvtag)`. Large arrays within the objects
        travel both ways at once, and need no memory in the heap.

        Args:
            value: anything that can be pickled, of any size.
            dest: the rank that receives it; None to send nothing.
            source: the rank that sends, or `shmcoll.ANY`; None to receive nothing.
            sendtag: 0 to 2**31 - 1.
            recvtag: 0 to 2**31 - 1, or `shmcoll.ANY`.
            async_op: post the receive, start the send, and return a `Work` at once. It ends when both have ended. Leave
                the object alone until then.

        Returns:
            (object, source, tag) of the message received, as from `recv_object`.

        Raises:
            TypeError: as for `send_object` and `recv_object`.
            ValueError: as for `send` and `recv`.
            ArenaError: as for `send`.
            RankFailed: as for `send` and `recv`.
            CollectiveTimeout: as for `recv`.

        Example:
            >>> comm.sendrecv_object({"from": comm.rank}, comm.rank, comm.rank)[0] == {"from": comm.rank}
            True
        """
        dispatcher = self._dispatcher
        check_addresses(dispatcher, value, dest, source, sendtag, recvtag)
        message = check_object(dispatcher, "sendrecv_object", value, self._rank if dest is None else dest, sendtag)
        if dest is None:
            return self._receive_object(source, recvtag, later=async_op)
        if not async_op and source is not None:
            return exchange_objects(dispatcher, message, source, recvtag)
        receive: Work[Any] = make_object(dispatcher, ANY if source is None else source, recvtag)
        if source is None:
            receive = dispatcher.worker.ended((None, None, None))
        send = Sending(dispatcher, *message).send
        if not async_op:
            send()
            return receive.wait()
        watched = buffer_check.around(send, dispatcher, "sendrecv_object", {"the object": value})
        return begin(dispatcher, receive, lambda: dispatcher.worker.submit(watched))

    # --- how ----------------------------------------------------------------------------------------------------------

    def _start_both(self, x: Any, dest: Any, out: Any, source: Any, sendtag: Any, recvtag: Any) -> Work[Any]:
        dispatcher = self._dispatcher
        array, _, sendtag, *_ = check_arguments(dispatcher, x, dest, out, source, sendtag, recvtag)
        if dest is None:
            return self._post(out, source, recvtag)
        receive: Work[Any]
        if source is None:
            receive = dispatcher.worker.ended(self._nothing(out, recvtag))
        else:
            receive = make(dispatcher, out, source, recvtag)
            view = given.as_memory(out)
            if view is not None and given.overlap(array, view):
                array = array.copy()  # the other rank's message may come before ours has been sent
        return begin(dispatcher, receive, lambda: self._start(array, dest, sendtag))
