"""The methods of a communicator over nodes for messages. Arguments are checked as on one machine; `mail.py` sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmcoll import calls
from shmcoll.calls import arguments as given
from shmcoll.calls.delivery import check_other_rank
from shmcoll.calls.recv import check_arguments as check_recv
from shmcoll.calls.recv import wanted
from shmcoll.calls.recv_object import make_object
from shmcoll.calls.send import check_arguments as check_send
from shmcoll.calls.send_object import check_object
from shmcoll.calls.sendrecv import begin
from shmcoll.communicator.batch import batch
from shmcoll.communicator.communicator import Communicator
from shmcoll.communicator.messages import ANY
from shmcoll.engine import context as c
from shmcoll.engine.messages.ring_buffers import ARRAY
from shmcoll.runtime.work import Work


class NodesMessages(Communicator):
    """Messages by MPI."""

    _dispatcher: Any  # `NodesDispatcher`

    def send_object(
        self, value: Any, dest: int | None, tag: int = 0, *, synchronous: bool = False, async_op: bool = False
    ) -> Any:
        """Send an object; see `Communicator.send_object`. It is pickled now, also with `async_op`."""
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
        array, _, tag = check_send(self._dispatcher, x, self._rank if dest is None else dest, sendtag)
        check_recv(self._dispatcher, given.as_memory(out), ANY if source is None else source, recvtag)
        if dest is not None:
            self._put("send", array, dest, tag, ARRAY, False, False)
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
        with self._dispatcher.checking("sendrecv_object") as check:
            wanted(self._dispatcher, ANY if source is None else source, recvtag, *check)
        if not async_op:
            self.send_object(value, dest, sendtag)
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
        array, to, tag = check_send(self._dispatcher, x, self._rank if dest is None else dest, tag)
        if dest is None:
            work: Work[None] = self._dispatcher.worker.ended(None)
        else:
            work = self._put("send", array, to, tag, ARRAY, synchronous, True)
        return work

    def _send_again(self, status: int, x: Any, dest: int | None, tag: int, synchronous: bool) -> Any:
        if status not in (c.NEEDS_PYTHON, c.BUSY) or dest is None:
            return super()._send_again(status, x, dest, tag, synchronous)
        array, to, tag = check_send(self._dispatcher, x, dest, tag)
        return self._put("send", array, to, tag, ARRAY, synchronous, False)

    def _put(self, operation: str, array: Any, dest: int, tag: int, form: int, synchronous: bool, later: bool) -> Any:
        d = self._dispatcher
        if not synchronous:
            d.mail.send(array, dest, tag, form)
            return self._now_or_ended(None, later)
        if not later:
            check_other_rank(d, operation, dest, tag)
        work = d.mail.send_synchronously(operation, array, dest, tag, form)
        return work if later else work.wait()

    def _probe(self, operation: str, source: Any, tag: Any, *, waits: bool, takes: bool) -> Any:
        d = self._dispatcher
        with d.checking(operation) as check:
            source, tag = wanted(d, source, tag, *check)
        return d.mail.probe(operation, source, tag, waits=waits, takes=takes)
