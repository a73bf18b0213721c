"""Messages between two ranks as methods of a communicator. How they travel: `engine/messages/ring_buffers.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from shmcoll import calls
from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.delivery import begin
from shmcoll.calls.probe import Envelope, Message
from shmcoll.calls.recv import check_arguments as check_recv
from shmcoll.calls.recv import post
from shmcoll.calls.recv_object import make_object, post_object
from shmcoll.calls.send import Sending, of_array, send_at_once, send_synchronously
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.calls.send_object import check_object, of_object, send_object_synchronously
from shmcoll.communicator.batch import Recv, RecvObject, Send, SendObject, batch
from shmcoll.communicator.native_call import NativeCalls, native_call
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.ring_buffers import SYNCHRONOUS
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.communicator.types import ArrayLike, Out, Received


class Messages(NativeCalls):
    """What two ranks can do without the others."""

    @overload
    def send(
        self,
        x: ArrayLike,
        dest: int | None,
        tag: int = 0,
        *,
        synchronous: bool = False,
        async_op: Literal[False] = False,
    ) -> None: ...
    @overload
    def send(
        self, x: ArrayLike, dest: int | None, tag: int = ..., *, synchronous: bool = ..., async_op: Literal[True]
    ) -> Work[None]: ...
    @native_call(
        "x, None, 0, dest, tag, None if synchronous else 0",
        result="None",
        second="send_on(self._dispatcher, x, dest, tag)",
        otherwise="self._send_again(status, x, dest, tag, synchronous)",
        answer="result.raise_refusal() if result else None",
        later="self._start(x, dest, tag, synchronous)",
    )
    def send(self, *args: Any, **kwargs: Any) -> Any:
        """Send an array to rank `dest` of this group. Not a collective.

        Returns as soon as `x` may be changed, without waiting for the receiver: a message that the receiver does not
        wait for is kept in shared memory. So both sides may send first, and a rank may send to itself. Messages from
        one rank to another arrive in the order in which they were sent; the receiver may choose among them by tag.

        Args:
            x: array of any shape, of any dtype of fixed size.
            dest: the rank that receives it; None to send nothing.
            tag: 0 to 2**31 - 1.
            synchronous: return (or end the `Work`) only when the receiver has begun to receive this message: by any
                receive, posted or not, or by `mprobe`. Meanwhile other threads and asynchronous calls go on. An
                interrupt leaves the message in place, and the group stays usable.
            async_op: return a `Work` at once.

        Raises:
            TypeError: `x` is not an array, its elements have no fixed size, or its dtype has many hundred fields.
            ArenaError: the heap (`shmrun --heap`, SHMCOLL_HEAP) has no room for the message. It has not been sent;
                earlier messages stay, and the group stays usable.
            RankFailed: the receiver has left.
            ValueError: there is no rank `dest`, or the tag is out of range. Or a synchronous send to this rank itself
                would wait forever, because no receive that fits is posted, and the rank has no other thread; nothing
                has been sent.
            CollectiveTimeout: the receiver has not begun to receive a synchronous message within `timeout`.
        """

    @overload
    def recv(
        self, out: Out | None = None, source: int | None = ANY, tag: int = ANY, *, async_op: Literal[False] = False
    ) -> Received: ...
    @overload
    def recv(
        self, out: Out | None = ..., source: int | None = ..., tag: int = ..., *, async_op: Literal[True]
    ) -> Work[Received]: ...
    @native_call(
        "None, out, 0, source, tag, 0",
        result="out",
        second="read_message(self._dispatcher, entry, out, source, tag)",
        refused="status >= 0",
        answer="result, -1 - status >> SOURCE_SHIFT, -1 - status & LARGEST_TAG",
        otherwise="self._recv_again(status, out, source, tag)",
        later="self._post(out, source, tag)",
    )
    def recv(self, *args: Any, **kwargs: Any) -> Any:
        """Receive a message; wait for it up to `timeout`. Not a collective.

        Of the messages of one rank that match, the one that was sent first is received.

        Args:
            out: array of the message's dtype and at least as many elements, of any shape, which is filled in C order.
                By default an array of the dtype and shape that were sent is made.
            source: the rank that sends, or `shmcoll.ANY`; None to receive nothing.
            tag: 0 to 2**31 - 1, or `shmcoll.ANY`.
            async_op: post the receive, and return a `Work` at once, which has the same result. A posted receive keeps
                no other operation waiting. Posted receives take the messages that fit them in the order in which they
                were posted. `Work.cancel` withdraws one whose message has not arrived.

        Returns:
            (array, source, tag). If the message is shorter than `out`, the array is a 1-D view of the elements that it
            fills. From nobody, (`out` as it was, None, None).

        Raises:
            TypeError: the message has another dtype than `out`. It stays, and can be received again.
            ValueError: the message has more elements than `out`; it stays, and can be received again. Or `source` is
                this rank itself, which has sent nothing that fits, and has no other thread that could.
            RankFailed: `source` has left; with `ANY`, a rank has failed or all others have left.
            CollectiveTimeout: no message has arrived within `timeout`.
            Deadlock: this rank and others wait for one another's messages (a `CollectiveTimeout`, after a second), and
                they have no other threads.
        """

    @overload
    def send_object(
        self,
        value: Any,
        dest: int | None,
        tag: int = ...,
        *,
        synchronous: bool = ...,
        async_op: Literal[False] = ...,
    ) -> None: ...
    @overload
    def send_object(
        self, value: Any, dest: int | None, tag: int = ..., *, synchronous: bool = ..., async_op: Literal[True]
    ) -> Work[None]: ...
    def send_object(
        self, value: Any, dest: int | None, tag: int = 0, *, synchronous: bool = False, async_op: bool = False
    ) -> Any:
        """Send an object to rank `dest`, which calls `recv_object`. Not a collective.

        Arrays of 16 KiB and more within the object are moved from where they are, without being pickled.

        Args:
            value: anything that can be pickled, of any size.
            dest: the rank that receives it; None to send nothing.
            tag: 0 to 2**31 - 1.
            synchronous: as for `send`.
            async_op: return a `Work` at once. The object is pickled later: leave it alone until the work is done.

        Raises:
            TypeError: the object cannot be pickled. Nothing has been sent.
            ArenaError: as for `send`.
            RankFailed: as for `send`.
            ValueError: as for `send`.
            CollectiveTimeout: as for `send`.
        """
        if dest is None:
            check_object(self._dispatcher, "send_object", value, self._rank, tag)
            return self._now_or_ended(None, async_op)
        if synchronous and async_op:
            return self._deliver("send_object", of_object, value, dest, tag)
        if synchronous:
            return send_object_synchronously(self._dispatcher, value, dest, tag)
        if async_op:
            return self._submit(calls.send_object, value, dest, tag)
        return calls.send_object(self._dispatcher, value, dest, tag)

    @overload
    def recv_object(
        self, source: int | None = ..., tag: int = ..., *, async_op: Literal[False] = ...
    ) -> tuple[Any, int, int]: ...
    @overload
    def recv_object(
        self, source: int | None = ..., tag: int = ..., *, async_op: Literal[True]
    ) -> Work[tuple[Any, int, int]]: ...
    def recv_object(self, source: int | None = ANY, tag: int = ANY, *, async_op: bool = False) -> Any:
        """Receive an object that `send_object` has sent; wait for it up to `timeout`. Not a collective.

        Of the messages of one rank that match, objects and arrays alike, the one that was sent first is received.

        Args:
            source: the rank that sends, or `shmcoll.ANY`; None to receive nothing.
            tag: 0 to 2**31 - 1, or `shmcoll.ANY`.
            async_op: post the receive, as for `recv`.

        Returns:
            (object, source, tag). The object and what it holds are this rank's own. Arrays that were not pickled share
            one piece of memory, which each of them keeps alive. From nobody, (None, None, None).

        Raises:
            TypeError: the message is an array. It stays, and `recv` can receive it. (Likewise `recv` raises `TypeError`
                for an object.)
            RankFailed: as for `recv`.
            CollectiveTimeout: as for `recv`.
            ValueError: as for `recv`.
        """
        return self._receive_object(source, tag, later=async_op)

    def _receive_object(self, source: int | None, tag: int, *, later: bool) -> Any:
        if source is None:
            make_object(self._dispatcher, ANY, tag)
            return self._now_or_ended((None, None, None), later)
        if later:
            return post_object(self._dispatcher, source, tag)
        return calls.recv_object(self._dispatcher, source, tag)

    def probe(self, source: int = ANY, tag: int = ANY) -> Envelope:
        """Wait for a message, up to `timeout`, and return its envelope. Not a collective.

        The message is not received. Messages that match a posted receive are ignored: they belong to that receive.

        Args:
            source: the rank that sends, or `shmcoll.ANY`.
            tag: 0 to 2**31 - 1, or `shmcoll.ANY`.

        Returns:
            The envelope (source, tag, dtype, shape) of the message that `recv(source=source, tag=tag)` of its own
            source and tag would receive. The dtype of an object is None: `recv_object` receives it.

        Raises:
            ValueError: as for `recv`.
            RankFailed: as for `recv`.
            CollectiveTimeout: as for `recv`.

        Example:
            >>> comm.send(np.zeros((2, 3)), comm.rank, 5)
            >>> comm.probe(comm.rank, 5).shape
            (2, 3)
            >>> comm.recv(source=comm.rank, tag=5)[0].shape
            (2, 3)
        """
        found: Envelope = calls.probe(self._dispatcher, "probe", source, tag, waits=True, takes=False)
        return found

    def iprobe(self, source: int = ANY, tag: int = ANY) -> Envelope | None:
        """Return the envelope of the next message, if one has arrived. It is not received. Not a collective.

        Args:
            source: as for `probe`.
            tag: as for `probe`.

        Returns:
            The envelope, as from `probe`, or None if no message that matches has arrived.

        Raises:
            ValueError: as for `recv`.
        """
        found: Envelope | None = calls.probe(self._dispatcher, "iprobe", source, tag, waits=False, takes=False)
        return found

    def mprobe(self, source: int = ANY, tag: int = ANY) -> Message:
        """Wait for a message, up to `timeout`, and take it: only the object returned has it. Not a collective.

        So several threads can look for messages at once, each of an unknown shape. The message is read at once, into
        memory of its own.

        Args:
            source: as for `probe`.
            tag: as for `probe`.

        Returns:
            A `Message`. Its `envelope` is what `probe` returns; its method `recv` returns the array or the object.

        Raises:
            ValueError: as for `recv`.
            RankFailed: as for `recv`.
            CollectiveTimeout: as for `recv`.

        Example:
            >>> comm.send(np.arange(3), comm.rank, 6)
            >>> comm.mprobe(comm.rank, 6).recv()
            array([0, 1, 2])
        """
        found: Message = calls.probe(self._dispatcher, "mprobe", source, tag, waits=True, takes=True)
        return found

    def improbe(self, source: int = ANY, tag: int = ANY) -> Message | None:
        """Take the next message, if one has arrived, as `mprobe` does. Not a collective.

        Args:
            source: as for `probe`.
            tag: as for `probe`.

        Returns:
            The message, as from `mprobe`, or None if no message that matches has arrived.

        Raises:
            ValueError: as for `recv`.
        """
        found: Message | None = calls.probe(self._dispatcher, "improbe", source, tag, waits=False, takes=True)
        return found

    def batch(self, messages: Sequence[Send | Recv | SendObject | RecvObject]) -> list[Work[Any]]:
        """Start many messages at once. Not a collective.

        The order in the list says which of two messages to the same rank comes first, and which of two receives takes
        a message that fits both. Otherwise it does not matter: no message waits for a receive of the same batch, and
        long ones travel both ways at once.

        Args:
            messages: `shmcoll.Send(x, dest, tag)`, `shmcoll.Recv(out, source, tag)`,
                `shmcoll.SendObject(value, dest, tag)`, `shmcoll.RecvObject(source, tag)`. `dest` and `source` may be
                None, as in `send` and `recv`.

        Returns:
            A `Work` for each message, in the order given. Its result is that of `send`, `recv`, `send_object` or
            `recv_object`.

        Raises:
            TypeError: as for `send` and `recv`, or one of `messages` is of another type. Nothing of the batch has
                begun. An object that cannot be pickled does not raise here: its own `Work` fails.
            ValueError: as for `send` and `recv`. Nothing of the batch has begun.

        Example:
            >>> after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            >>> works = comm.batch([shmcoll.Recv(source=before), shmcoll.Send(np.array([comm.rank]), after)])
            >>> received, source, tag = works[0].wait()
            >>> int(received[0]) == before
            True
            >>> works[1].wait()
        """
        return batch(self._dispatcher, messages, self._start, self._submit)

    # --- nobody -------------------------------------------------------------------------------------------------------

    def _start(self, x: Any, dest: int | None, tag: int, synchronous: bool = False) -> Work[None]:
        """Send an array asynchronously, in this thread if it takes no time."""
        if dest is None:
            self._check_send(x, tag)
            return self._dispatcher.worker.ended(None)
        if synchronous:
            return self._deliver("send", of_array, x, dest, tag)
        return send_at_once(self._dispatcher, x, dest, tag) or self._submit(calls.send, x, dest, tag)

    def _post(self, out: Any, source: int | None, tag: int) -> Work[Any]:
        if source is None:
            return self._dispatcher.worker.ended(self._nothing(out, tag))
        return post(self._dispatcher, out, source, tag)

    def _send_again(self, status: int, x: Any, dest: int | None, tag: int, synchronous: bool) -> Any:
        """Send in Python what the native entry has not sent. It never sends a synchronous message."""
        if dest is None and status in (c.NEEDS_PYTHON, c.BUSY):
            return self._check_send(x, tag)
        return self._again("send", status, send_synchronously if synchronous else calls.send, x, dest, tag)

    def _deliver(self, operation: str, make: Callable[..., Sending], value: Any, dest: int, tag: int) -> Work[None]:
        """Have the worker send a synchronous message."""

        def send() -> Any:
            return make(self._dispatcher, value, dest, tag, SYNCHRONOUS).begin()

        return begin(self._dispatcher, buffer_check.around(send, self._dispatcher, operation, {"x": value}))

    def _recv_again(self, status: int, out: Any, source: int | None, tag: int) -> Any:
        """Receive in Python what the native entry has not received."""
        if source is None and status in (c.NEEDS_PYTHON, c.BUSY):
            return self._nothing(out, tag)
        if status == c.GIVES_WAY:
            return calls.perform(calls.recv, self._dispatcher, (out, source, tag, status))
        return self._again("recv", status, calls.recv, out, source, tag)

    def _check_send(self, x: Any, tag: int) -> None:
        """Refuse arguments that would be wrong for any rank, also at the edge of a grid, where nothing is sent."""
        check_send(self._dispatcher, x, self._rank, tag)

    def _nothing(self, out: Any, tag: int) -> tuple[Any, None, None]:
        """Return the result of a receive from no rank. Refuse arguments that would be wrong for any rank."""
        check_recv(self._dispatcher, given.as_memory(out), ANY, tag)
        return out, None, None

    def _now_or_ended(self, result: Any, later: bool) -> Any:
        """Return the result of a call that has nothing to do, or a handle that has it."""
        return self._dispatcher.worker.ended(result) if later else result


__all__ = ["ANY", "Envelope", "Message", "Messages", "Recv", "RecvObject", "Send", "SendObject"]
