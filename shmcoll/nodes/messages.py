"""The methods of a communicator over nodes for messages. Arguments are checked as on one machine.

The way of a message follows from the two ranks. If both are on one node, the communicator for messages within the node
(`within.py`) makes the call. Otherwise `far_sends.py` sends, and `far_messages.py` receives. So each pair of ranks has
one way, and the order of its messages is that of this way. The native entry has the first try of a call, on either way
(`native/message_entries.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from shmcoll import calls
from shmcoll.calls import arguments as given
from shmcoll.calls.delivery import check_other_rank
from shmcoll.calls.probe import Message
from shmcoll.calls.recv import can_receive, make, received, wanted
from shmcoll.calls.recv import go_on as read_message
from shmcoll.calls.recv_object import made as object_in
from shmcoll.calls.recv_object import make_object
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.calls.send_object import check_address, check_object
from shmcoll.calls.sendrecv import SHORT_BYTES, begin, beside_others, check_addresses, check_arguments
from shmcoll.communicator.batch import batch
from shmcoll.communicator.communicator import Communicator
from shmcoll.communicator.messages import ANY
from shmcoll.communicator.native_call import native_call
from shmcoll.engine import context as c
from shmcoll.engine.layout import LARGEST_TAG
from shmcoll.engine.messages.recv import DATA
from shmcoll.engine.messages.ring_buffers import ARRAY, SEGMENTS, WHOLE
from shmcoll.engine.messages.send import BEGIN, BESIDE
from shmcoll.errors import CallNotAllowed
from shmcoll.nodes.point_to_point.within import Within
from shmcoll.runtime.work import Work


class NodesMessages(Communicator):
    """Messages in shared memory within a node, and by MPI between nodes."""

    _dispatcher: Any  # `NodesDispatcher`
    _within: Within
    _send: Any  # the native entries; see `NativeCalls._open`
    _recv: Any

    @native_call(
        "x, None, 0, dest, tag, None if synchronous else 0",
        result="None",
        second="send_on(self._within._dispatcher, x, self._dispatcher.index_here(dest), tag)",
        rest="self._dispatcher.far_messages.sends.finish('send', x, dest)",
        otherwise="self._send_again(status, x, dest, tag, synchronous)",
        answer="result.raise_refusal() if result else None",
        later="self._start(x, dest, tag, synchronous)",
    )
    def send(self, x: Any, dest: int | None, tag: int = 0, *, synchronous: bool = False, async_op: bool = False) -> Any:
        """Send an array; see `Communicator.send`."""

    @native_call(
        "None, out, 0, source, tag, 0",
        result="out",
        second="self._read_on(entry, out, source, tag)",
        rest="self._dispatcher.far_messages.await_bytes(out, source)",
        refused="status >= 0",
        answer="result, source, -1 - status & LARGEST_TAG",
        otherwise="self._recv_again(status, out, source, tag)",
        later="self._post(out, source, tag)",
    )
    def recv(self, out: Any = None, source: int | None = ANY, tag: int = ANY, *, async_op: bool = False) -> Any:
        """Receive a message; see `Communicator.recv`."""

    def send_object(
        self, value: Any, dest: int | None, tag: int = 0, *, synchronous: bool = False, async_op: bool = False
    ) -> Any:
        """Send an object; see `Communicator.send_object`. For another node it is pickled now, also with `async_op`."""
        if dest is not None:
            dest, tag = check_address(self._dispatcher, dest, tag)
            index = self._dispatcher.index_here(dest)
            if index is not None:
                return self._within.send_object(value, index, tag, synchronous=synchronous, async_op=async_op)  # type: ignore[call-overload]
        array, to, tag, form, _kept = check_object(
            self._dispatcher, "send_object", value, self._rank if dest is None else dest, tag
        )
        if dest is None:
            return self._now_or_ended(None, async_op)
        return self._put("send_object", array, to, tag, form, synchronous, async_op)

    def sendrecv(
        self,
        x: Any,
        dest: int | None,
        out: Any = None,
        source: int | None = ANY,
        sendtag: int = 0,
        recvtag: int = ANY,
        *,
        async_op: bool = False,
    ) -> Any:
        """Send a message and receive another one; see `Communicator.sendrecv`."""
        if async_op:
            return self._start_both(x, dest, out, source, sendtag, recvtag)
        d = self._dispatcher
        is_plain = self._is_far(dest) and self._is_far(source) and can_receive(d, out, source, recvtag)
        if is_plain and self._send_natively("sendrecv", x, dest, sendtag, ARRAY, BESIDE) == c.OK:
            return self.recv(out, source, recvtag)
        view = given.as_memory(out)
        array, to, tag, _, wanted_source, _ = check_arguments(d, x, dest, view, source, sendtag, recvtag)
        index, other = (
            None if rank is None else d.index_here(one) for rank, one in ((dest, to), (source, wanted_source))
        )
        if index is not None and other is not None:
            array, _, tag = self._within.sendrecv(x, index, out, other, sendtag, recvtag)
            return array, wanted_source, tag
        is_first = view is not None and given.overlap(array, view)  # then all of x is sent before
        if index is not None and other is None and source is not None and array.nbytes > SHORT_BYTES and not is_first:
            return beside_others(d, make(d, out, source, recvtag), partial(self.send, x, to, tag))
        if dest is not None and index is not None:
            self.send(array, to, tag)
        elif dest is not None:
            self._put("send", array, to, tag, ARRAY, synchronous=False, later=True)  # it is sent when this returns
        return self.recv(out, source, recvtag)

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
        """Send an object and receive another one; see `Communicator.sendrecv_object`."""
        to, other = check_addresses(self._dispatcher, value, dest, source, sendtag, recvtag)
        if dest is not None and source is not None and not async_op:
            index, other_index = map(self._dispatcher.index_here, (to, other))
            if index is not None and other_index is not None:
                found, _, tag = self._within.sendrecv_object(value, index, other_index, sendtag, recvtag)
                return found, other, tag
        if not async_op:
            self.send_object(value, dest, sendtag, async_op=True).wait()
            return self.recv_object(source, recvtag)
        d = self._dispatcher
        receive = d.worker.ended((None, None, None)) if source is None else make_object(d, source, recvtag)
        return begin(d, receive, lambda: self.send_object(value, dest, sendtag, async_op=True))

    def probe(self, source: int = ANY, tag: int = ANY) -> Any:
        """Wait for a message and say what it is; see `Communicator.probe`."""
        return self._probe("probe", source, tag, waits=True, takes=False)

    def iprobe(self, source: int = ANY, tag: int = ANY) -> Any:
        """Say what the next message is, if one has come; see `Communicator.iprobe`."""
        return self._probe("iprobe", source, tag, waits=False, takes=False)

    def mprobe(self, source: int = ANY, tag: int = ANY) -> Any:
        """Wait for a message and take it; see `Communicator.mprobe`."""
        return self._probe("mprobe", source, tag, waits=True, takes=True)

    def improbe(self, source: int = ANY, tag: int = ANY) -> Any:
        """Take the next message, if one has come; see `Communicator.improbe`."""
        return self._probe("improbe", source, tag, waits=False, takes=True)

    def batch(self, messages: Sequence[Any]) -> list[Work[Any]]:
        """Start many messages at once; see `Communicator.batch`."""

        def submit(call: Callable[..., Any], value: Any, dest: int, tag: int) -> Work[Any]:
            assert call is calls.send_object
            work: Work[Any]
            try:
                work = self.send_object(value, dest, tag, async_op=True)
            except TypeError as error:  # an object that cannot be pickled fails alone
                work = self._dispatcher.worker.ended(error)
            return work

        return batch(self._dispatcher, messages, self._start, submit)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _start(self, x: Any, dest: int | None, tag: int, synchronous: bool = False) -> Work[None]:
        index = self._dispatcher.index_here(dest) if type(dest) is int else None
        if index is not None:
            return self._within._start(x, index, tag, synchronous)
        array, to, tag = check_send(self._dispatcher, x, self._rank if dest is None else dest, tag)
        if dest is None:
            return self._dispatcher.worker.ended(None)
        work: Work[None] = self._put("send", array, to, tag, ARRAY, synchronous, True)
        return work

    def _send_again(self, status: int, x: Any, dest: int | None, tag: int, synchronous: bool) -> Any:
        if dest is None:
            return super()._send_again(status, x, dest, tag, synchronous)
        index = self._dispatcher.index_here(dest) if type(dest) is int else None
        if index is not None:
            return self._within._send_again(status, x, index, tag, synchronous)
        if status == c.UNREADABLE:
            return self._dispatcher.far_messages.failed("send", dest)
        array, to, tag = check_send(self._dispatcher, x, dest, tag)
        return self._put("send", array, to, tag, ARRAY, synchronous, False)

    def _recv_again(self, status: int, out: Any, source: int | None, tag: int) -> Any:
        index = self._dispatcher.index_here(source) if type(source) is int else None
        if index is not None:
            array, _, found_tag = self._within._recv_again(status, out, index, tag)
            return array, source, found_tag
        if status == c.UNREADABLE:
            return self._dispatcher.far_messages.failed("recv", source)
        if source == ANY and status == c.NEEDS_PYTHON and (rank := self._soon("recv", tag)) != ANY:
            status, array = self._take("recv", out, rank, tag)
            if status < 0:
                return received(array, status)
        return super()._recv_again(status, out, source, tag)

    def _read_on(self, entry: Callable[..., int], out: Any, source: int, tag: int) -> tuple[int, Any]:
        index = self._dispatcher.index_here(source)
        if index is not None:
            return read_message(self._within._dispatcher, entry, out, source, tag)
        found: tuple[int, Any] = self._dispatcher.far_messages.go_on(entry, out, source, tag)
        return found

    def _receive_object(self, source: int | None, tag: int, *, later: bool) -> Any:
        if type(source) is not int or later:
            return super()._receive_object(source, tag, later=later)
        rank = self._soon("recv_object", tag) if source == ANY else source
        index = self._dispatcher.index_here(rank)
        if index is not None:
            found, _, found_tag = self._within.recv_object(index, tag)
            return found, source, found_tag
        if rank != ANY:
            status, memory = self._take("recv_object", None, rank, tag, is_found=source == ANY)
            if status < 0:
                return object_in(memory, status)
        return super()._receive_object(source, tag, later=later)

    def _soon(self, operation: str, tag: Any) -> int:
        """Return the rank whose message a receive from ANY gets from native code; ANY if it has to be posted."""
        if type(tag) is not int or not ANY <= tag <= LARGEST_TAG:
            return ANY
        try:
            return int(self._dispatcher.far_messages.soon(tag, is_object=operation == "recv_object"))
        except CallNotAllowed:
            raise
        except BaseException:
            self._dispatcher.left(operation)
            raise

    def _take(self, operation: str, out: Any, source: int, tag: int, *, is_found: bool = True) -> tuple[int, Any]:
        """Receive a message from a rank of another node by native code, which has found it or waits for it. Return the
        status, and where the message is."""
        entry, far = self._recv or self._load("recv"), self._dispatcher.far_messages
        phase, number = (DATA, far.native.found_number) if is_found else (0, WHOLE)
        try:
            status, place = entry(None, out, phase, source, tag, number), out
            if status == c.HALFWAY:
                status, place = far.go_on(entry, out, source, tag, is_object=operation == "recv_object")
            elif status == c.UNDER_WAY:
                status = far.await_bytes(out, source)
        except BaseException:
            self._dispatcher.left(operation)
            raise
        return (far.failed(operation, source) if status == c.UNREADABLE else status), place

    def _put(self, operation: str, array: Any, dest: int, tag: int, form: int, synchronous: bool, later: bool) -> Any:
        """Send a checked message. later: the call is asynchronous, or receives afterwards. Then it sends a long array
        without asking whether the receiver waits, because it must not wait itself."""
        d = self._dispatcher
        index = d.index_here(dest)
        if index is not None:  # then it is an array
            return self._within.send(array, index, tag, synchronous=synchronous, async_op=later)  # type: ignore[call-overload]
        if synchronous:
            if not later:
                check_other_rank(d, operation, dest, tag)
            work = d.far_messages.sends.send_synchronously(operation, array, dest, tag, form)
            return work if later else work.wait()
        phase = BESIDE if later else BEGIN
        if form == SEGMENTS or self._send_natively(operation, array, dest, tag, form, phase) != c.OK:
            d.far_messages.sends.send(array, dest, tag, form)
        return self._now_or_ended(None, later)

    def _send_natively(self, operation: str, array: Any, dest: int | None, tag: int, form: int, phase: int) -> int:
        """Send a message to a rank of another node by the native entry. Return its status; if that is not OK, nothing
        has been sent."""
        entry, far = self._send or self._load("send"), self._dispatcher.far_messages
        try:
            status: int = entry(array, None, phase, dest, tag, form)
            if status == c.UNDER_WAY:
                status = far.sends.finish(operation, array, dest)
        except BaseException:
            self._dispatcher.left(operation)
            raise
        if status == c.UNREADABLE:
            far.failed(operation, dest)
        return status

    def _is_far(self, rank: Any) -> bool:
        """Return whether this is the number of a rank of another node."""
        d = self._dispatcher
        return type(rank) is int and 0 <= rank < d.size and d.index_here(rank) is None

    def _probe(self, operation: str, source: Any, tag: Any, *, waits: bool, takes: bool) -> Any:
        d = self._dispatcher
        with d.checking(operation) as check:
            source, tag = wanted(d, source, tag, *check)
        index = d.index_here(source)
        if index is not None:
            return self._in_group(
                calls.probe(self._within._dispatcher, operation, index, tag, waits=waits, takes=takes)
            )

        def look_within() -> Any:
            return self._in_group(calls.probe(self._within._dispatcher, operation, ANY, tag, waits=False, takes=takes))

        look = look_within if source == ANY else None
        return d.far_messages.probe(operation, source, tag, waits=waits, takes=takes, look_within=look)

    def _in_group(self, found: Any) -> Any:
        """Replace the source, which is a rank within the node, by its number in this group."""
        ranks = self._dispatcher.topology.local
        if isinstance(found, Message):
            found.envelope = self._in_group(found.envelope)
        elif found is not None:
            found = found._replace(source=ranks[found.source])
        return found
