"""The caller of ranks that work on items: it sends chunks of them, and takes the results.

The steps (`map_worker.py` has those of a rank):

    caller    makes two pairs of sockets and the state, and has the ranks run a `Worker`. Keeps at most two chunks for
              each rank on their way: one that the rank works on, and one that waits in the socket for a rank that is
              free. Reads results as they come; a chunk is over when all its items have one
    the end   when all results are there, it shuts its end of the sockets down, and each rank returns
    a stop    after the exception of an item, of an iterable or of a rank: the caller takes the chunks that wait out of
              the socket, sets the last word of the state, and shuts its end down. Ranks end with the items that they
              have. After GRACE seconds, the server stops them (`Stop`). All results that come meanwhile are kept

The death of a rank ends the call, unless exceptions are to be returned. Then the item that the rank had gets the
`RankFailed`, and the caller sends the other items of its chunk again. Its state says which item it had. If the rank had
been killed between receiving a chunk and writing the state, nobody has this chunk: it is in no socket, and no state
names it. The caller finds this when a second look, LONGEST_SLEEP later, shows the same, and sends the chunk again.

Nobody waits forever. The caller waits for the server's socket, too, which says when all ranks have ended. It sends
without waiting, and reads results whenever it waits. A rank waits for the caller only, and ends with it
(`protocol.py`).
"""

import contextlib
import os
import pickle
import socket
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from shmcoll.engine.system.handlers import LONGEST_SLEEP, reraise_of_handler
from shmcoll.errors import InternalError
from shmcoll.runner import packets, protocol, shared_memory
from shmcoll.runner.chunks import Chunk
from shmcoll.runner.client import Server
from shmcoll.runner.map_worker import CHUNK, FAILED, FREE, RESULTS, Worker
from shmcoll.runner.namespaces import VersionedGlobals
from shmcoll.runner.outgoing import OutgoingCall
from shmcoll.runner.packets import HAS_ERRORS, LAST, LET_GO, File, Packet
from shmcoll.runner.pickling import Sending, pickled
from shmcoll.runner.protocol import Call, Ended, Open, Stop, Told, error_of
from shmcoll.runner.shared_memory import Passed
from shmcoll.runner.unsendable import unsendable_in_words
from shmcoll.startup.defaults import GRACE


class Source(Protocol):
    """Where the items come from. length: their number, if it is known. count: how many have been read."""

    length: int | None
    count: int

    @property
    def is_over(self) -> bool:
        """Whether there will never be a next chunk."""

    def next(self) -> Chunk | None:
        """Return the next chunk; None if there is none now."""

    def note(self, items: int, seconds: float) -> None:
        """Note how long a rank has needed for a chunk."""

    def described(self, item: tuple[Any, ...]) -> str:
        """Return an item in short, for a message."""

    def function(self, item: tuple[Any, ...]) -> Any:
        """Return the user's function, if it is in the item."""


class MapCall:
    """The items of one call, in the role of `outgoing.Work`.

    of: the function that users call, such as "shmcoll.map". source: the chunks. returns_errors: whether an exception is
    the result of its item; otherwise it ends the call. goes_on: whether the ranks go on when one of them has died.
    ahead: how many items may have been read whose results the caller has not taken; None: any number.

    begin: what each rank calls first. depth: how many chunks are on their way; by default two for each rank.

    results: those that are there, by the numbers of their items. errors: the numbers of those that are exceptions.
    """

    def __init__(
        self,
        stack: contextlib.ExitStack,
        of: str,
        fn: Callable[..., Any],
        source: Source,
        nprocs: int,
        *,
        begin: Callable[[], object] | None = None,
        depth: int | None = None,
        returns_errors: bool = False,
        goes_on: bool = False,
        ahead: bool = False,
    ):
        self._pid = os.getpid()  # before there is anything that a fork would share
        self.known = VersionedGlobals(pickled)
        self.results: dict[int, Any] = {}
        self.errors: set[int] = set()
        self._news: list[int] = []
        self.taken = 0  # results that the caller has taken
        self._of, self._fn, self._source, self._nprocs = of, fn, source, nprocs
        self._sendings: dict[str, Sending] = {}  # by the module of the function
        self._returns_errors, self._goes_on, self._is_bounded = returns_errors, goes_on, ahead
        self._tasks, self._queue, self._answers, self._theirs = (
            stack.enter_context(one)
            for _ in range(2)
            for one in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        )
        for sock in (self._tasks, self._queue, self._answers, self._theirs):
            protocol.keep_from_forks(sock)
        self._state = shared_memory.shared(np.full(nprocs + 1, FREE, np.int64))
        self._state[-1] = 0
        ends = Passed(self._queue.fileno()), Passed(self._theirs.fileno())
        self.worker = Worker(of, fn, *ends, self._state, begin, stops=not returns_errors)
        self._depth = depth or 2 * nprocs
        self._flying: dict[int, Chunk] = {}  # chunks on their way, by their first number
        self._again: list[Chunk] = []  # chunks to be sent before others
        self._files: list[File] = []  # to be used again
        self._is_done = False  # whether all items have been read
        self._is_shut = False
        self._dead: set[int] = set()
        self._lost: tuple[set[int], float] = set(), 0.0  # chunks that nobody seems to have, and since when
        self._failure: BaseException | None = None
        self._stops_at: float | None = None
        self._call: weakref.ref[OutgoingCall] | None = None  # it refers to this object
        stack.callback(self._close)

    # --- the call -----------------------------------------------------------------------------------------------------

    def run(
        self, call: OutgoingCall, server: Server, message: Open | Call, timeout: float | None
    ) -> Iterator[list[int]]:
        """Have the ranks work. Yields the numbers of the results that have come. If it raises, the exception has the
        results so far as its attribute `results`."""
        self._call = weakref.ref(call)
        try:
            with protocol.in_process(self._pid), call.sent(server, message):
                while call.over is None:
                    self._feed()
                    call.over = server.step(call.streams, self._stops_at, self)
                    if self._stops_at and time.monotonic() >= self._stops_at and call.over is None:
                        self._stops_at = None
                        server.send(Stop(server.count))
                    self._find_lost()
                    if self._news:
                        news, self._news = self._news, []
                        yield news
            if self._failure:
                raise self._failure
            is_whole = self._is_done and not self._flying and not self._again
            call.results(call.over, timeout, "continue" if is_whole and self._goes_on else "stop")
            if not is_whole:
                raise InternalError(f"{self._of}: all ranks have ended, and items have no result")
        except BaseException as e:
            with contextlib.suppress(Exception):  # its class may forbid new attributes
                e.results = dict(sorted(self.results.items()))  # type: ignore[attr-defined]
            raise

    def doing(self, rank: int) -> str:
        """Return which item a rank has, or had when it ended."""
        number = int(self._state[rank])
        return "" if number == FREE else f"rank {rank} had {self._item(number)}"

    def fileno(self) -> int:
        return self._answers.fileno()

    def wake(self) -> None:
        """Wake the thread that waits in `run`: there are more items. Another thread may call it."""
        with contextlib.suppress(BlockingIOError):  # there is something to read
            self._theirs.send(b"wake", socket.MSG_DONTWAIT)

    def arrived(self) -> None:
        """Read the answers that have come."""
        with contextlib.suppress(BlockingIOError):
            while packet := packets.receive(self._answers, socket.MSG_DONTWAIT):
                self._take(packet)

    def ended(self, rank: Ended) -> None:
        """Give up the item of a rank that has died."""
        self._dead.add(rank.rank)
        self.arrived()  # it has sent these before
        number = int(self._state[rank.rank])
        if not self._goes_on:
            self.stop()
        elif chunk := self._chunk_of(number):
            call = self._call and self._call()
            assert call
            error = call.error(rank.rank, rank.end)
            del self._flying[chunk.first]
            self._let_go(chunk)
            for one in chunk.rest():
                if one.first == number:
                    self._put_error(number, error)
                else:
                    self._again.append(one)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Send chunks while ranks need them; after the last one, shut our end down."""
        try:
            while len(self._flying) < self._depth and not self._is_shut and (chunk := self._next()):
                if not self._send(chunk):
                    break
        except BaseException as e:
            reraise_of_handler(e)
            if not isinstance(e, Exception):
                raise
            self._fail(e)
        if self._is_done and not self._flying and not self._again:
            self._shut()

    def _next(self) -> Chunk | None:
        if self._again:
            return self._again.pop(0)
        if self._is_done or (self._is_bounded and self._source.count - self.taken > self._most_ahead()):
            return None
        before = self._source.count
        try:
            chunk = self._source.next()
        except Exception as e:
            with contextlib.suppress(Exception):
                e.add_note(f"raised by an iterable of {self._of} that had given {before} items")
            raise
        self._is_done = chunk is None and self._source.is_over
        return chunk

    def _most_ahead(self) -> int:
        return 8 * self._nprocs * max([len(one.items) for one in self._flying.values()], default=1)

    def _send(self, chunk: Chunk) -> bool:
        """Send a chunk. Returns whether there was room in the socket."""
        large: list[memoryview] = []
        sending = self._sending(self._source.function(chunk.items[0]) or self._fn)
        sending.begin()
        self.known.discard()
        try:
            items = sending.dumps((chunk.items, sending.sources), large)
            protocol.check_process(self._pid)  # an item may have forked this process
        except Exception as e:
            protocol.check_process(self._pid)
            reraise_of_handler(e)
            if len(chunk.items) > 1:
                self._again[:0] = chunk.rest()
                return True
            self._cannot_be_sent(chunk, e)
            return True
        file = chunk.file = self._file(packets.length_of(items, large))
        packet = Packet(CHUNK, -1, chunk.first, body=items, descriptors=sending.descriptors())
        try:
            packets.send(self._tasks, packet, large, file, waits=False)
        except BlockingIOError:
            self._let_go(chunk)
            self._again.insert(0, chunk)
            return False
        self._flying[chunk.first] = chunk
        return True

    def _sending(self, fn: Any) -> Sending:
        module = getattr(fn, "__module__", None) or ""
        if module not in self._sendings:
            self._sendings[module] = Sending(fn, self.known)
        return self._sendings[module]

    def _cannot_be_sent(self, chunk: Chunk, error: Exception) -> None:
        what = self._item(chunk.first, chunk, f" of {self._of}")
        try:
            with unsendable_in_words((f"item {chunk.first}", chunk.items[0])):
                raise error
        except Exception as e:
            if not self._returns_errors:
                raise
            with contextlib.suppress(Exception):
                e.add_note(what)
            self._put_error(chunk.first, e)

    def _file(self, length: int) -> File | None:
        """Return a file of this length, if it is not 0: one that no rank has mapped any more, or a new one."""
        if not length:
            return None
        for at, one in enumerate(self._files):
            if length <= one.length <= 4 * length:
                return self._files.pop(at)
        return File(length)

    def _let_go(self, chunk: Chunk, *, again: bool = True) -> None:
        """Keep the file of a chunk for another one, if no rank has it mapped."""
        file, chunk.file = chunk.file, None
        if file and again and len(self._files) < 2 * self._nprocs:
            self._files.append(file)
        elif file:
            file.close()

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _take(self, packet: Packet) -> None:
        chunk = self._chunk_of(packet.first)
        values: list[Any] = []
        cause: Exception | None = None
        try:
            values = pickle.loads(packet.body, buffers=packet.buffers)
        except Exception as e:
            reraise_of_handler(e)
            cause = e
        finally:
            packets.close(packet.descriptors)

        def error_at(at: int) -> BaseException:
            return _unloadable(packet, cause) if cause else error_of(values[at], packet.rank, self._of)

        if packet.kind == FAILED:
            self._fail(error_at(0))
        if chunk is None or packet.first != chunk.first + chunk.done:
            return  # the chunk was sent again meanwhile
        if packet.kind == RESULTS:
            numbers = range(packet.first, packet.first + packet.count)
            if not cause and not packet.flags & HAS_ERRORS:
                self.results.update(zip(numbers, values, strict=True))
                self._news += numbers
            for at, number in enumerate(numbers) if cause or packet.flags & HAS_ERRORS else ():
                if cause or type(values[at]) is Told:
                    self._put_error(number, self._noted(error_at(at), number))
                else:
                    self.results[number] = values[at]
                    self._news.append(number)
            chunk.done += packet.count
            if packet.flags & LAST:
                self._source.note(max(chunk.done, 1), packet.seconds)
                self._flying.pop(chunk.first, None)
                self._let_go(chunk, again=bool(packet.flags & LET_GO))
        else:  # it cannot be unpickled
            del self._flying[chunk.first]
            self._let_go(chunk, again=False)
            if len(chunk.items) > 1:
                self._again[:0] = chunk.rest()
            else:
                self._put_error(chunk.first, self._noted(error_at(0), chunk.first, chunk))

    def _noted(self, error: BaseException, number: int, chunk: Chunk | None = None) -> BaseException:
        with contextlib.suppress(Exception):  # its class may forbid new attributes
            notes = getattr(error, "__notes__", [])
            notes.insert(max(len(notes) - 1, 0), self._item(number, chunk, f" of {self._of}"))
            error.__notes__ = notes
        return error

    def _put_error(self, number: int, error: BaseException) -> None:
        if self._returns_errors:
            self.results[number] = error
            self.errors.add(number)
            self._news.append(number)
        else:
            self._fail(error)

    def _chunk_of(self, number: int) -> Chunk | None:
        found = self._flying.get(number)
        if found is None:
            found = next((c for c in self._flying.values() if c.first <= number < c.first + len(c.items)), None)
        return found

    def _item(self, number: int, chunk: Chunk | None = None, of: str = "") -> str:
        chunk = chunk or self._chunk_of(number)
        if chunk is None:
            return f"item {number}{of}"
        return f"item {number}{of}: {self._source.described(chunk.items[number - chunk.first])}"

    # --- the end ------------------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, StopIteration):  # no generator can raise it, and no loop would see it
            stopped, error = error, RuntimeError(f"fn raised {error!r}")
            error.__cause__, error.__notes__ = stopped.__cause__, getattr(stopped, "__notes__", [])
        self._failure = self._failure or error
        self.stop()

    def stop(self) -> None:
        """Have the ranks end when the items that they have are done."""
        protocol.check_process(self._pid)  # they read this state
        self._state[-1] = 1
        self._take_back()
        self._is_done, self._again = True, []
        self._shut()
        self._stops_at = self._stops_at or time.monotonic() + GRACE

    def _shut(self) -> None:
        if not self._is_shut:
            self._is_shut = True
            self._tasks.shutdown(socket.SHUT_WR)

    def _take_back(self) -> list[Chunk]:
        """Take the chunks that no rank has begun out of the socket, and return them."""
        back: list[Chunk] = []
        with contextlib.suppress(BlockingIOError):
            while packet := packets.receive(self._queue, socket.MSG_DONTWAIT):
                packets.close(packet.descriptors)
                if chunk := self._flying.pop(packet.first, None):
                    self._let_go(chunk, again=False)
                    back.append(chunk)
        return back

    def _find_lost(self) -> None:
        """Send a chunk again that a rank seems to have had which has died."""
        before, since = self._lost
        if not (self._dead and self._goes_on) or self._is_shut or time.monotonic() < since + LONGEST_SLEEP:
            return
        self._again += self._take_back()
        living = (int(number) for rank, number in enumerate(self._state[:-1]) if rank not in self._dead)
        held = {chunk.first for number in living if (chunk := self._chunk_of(number))}
        lost = set(self._flying) - held
        for first in lost & before:
            self._again += self._flying.pop(first).rest()
        self._lost = lost - before, time.monotonic()

    def _close(self) -> None:
        for one in [*self._files, *(chunk.file for chunk in self._flying.values() if chunk.file)]:
            one.close()
        self._files, self._failure = [], None  # the latter refers to this object


def _unloadable(packet: Packet, cause: Exception) -> TypeError:
    """Return the error of results that came together, of which one cannot be unpickled."""
    last = packet.first + packet.count - 1
    which = "the result of an item" if packet.count == 1 else f"a result of the items {packet.first} to {last}"
    error = TypeError(f"{which} cannot be unpickled here: {type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error
