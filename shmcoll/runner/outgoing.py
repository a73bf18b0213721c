"""One call on the side of its caller: its files, its way to the server and back, and its outcome."""

import contextlib
import errno
import os
import pickle
import sys
import time
from collections.abc import Iterator
from typing import Any
from typing import Protocol as TypingProtocol

from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.memory.group import names
from shmcoll.engine.system.refusals import refused
from shmcoll.errors import RankFailed, ShmcollError
from shmcoll.runner import protocol
from shmcoll.runner.client import Channel, Lost, Server, Stream
from shmcoll.runner.map_worker import Worker
from shmcoll.runner.pickling import Sending
from shmcoll.runner.protocol import Call, End, Open, Over, Stop
from shmcoll.runner.unsendable import unsendable_in_words
from shmcoll.startup import exits
from shmcoll.startup.defaults import GRACE

#: what to do, by the error of a system call
_LIMITS = {
    errno.EMFILE: "Close files, or raise the limit (ulimit -n)",
    errno.ENFILE: "Close files, or raise the limit (ulimit -n)",
    errno.EAGAIN: "End other processes, or raise the limit (ulimit -u)",
}
STOPPING = 2 * GRACE + 3.0  # seconds: how long the server may take to stop ranks: two graces, and some time to spare


class Work(Channel, TypingProtocol):
    """The items of a call."""

    def doing(self, rank: int) -> str:
        """Return what a rank was doing when the call ended, as far as the caller knows."""


class OutgoingCall:
    """The files of a request: the call, the answers, and the writing ends of stdout and stderr.

    of: the function that users call, such as "shmcoll.run". work: the items that the ranks get, of a call that has
    some. over: the server's `Over` about the call, if it has arrived.
    """

    def __init__(
        self,
        stack: contextlib.ExitStack,
        of: str,
        nprocs: int,
        sending: Sending,
        work: "Work | None" = None,
    ):
        self.over: Over | None = None
        self._work = work
        self._pid = os.getpid()
        self._of = of
        self._nprocs = nprocs
        self._sending = sending
        self._span = protocol.span(nprocs)
        with deferred_signals():  # then each descriptor has an owner
            self._call, self._answers = (
                stack.enter_context(open(protocol.new_file(f"shmcoll-{name}"), "w+b"))  # noqa: SIM115
                for name in ("call", "answers")
            )
            self.streams = [Stream(stack, sys.stdout), Stream(stack, sys.stderr)]
        for file in (self._call, self._answers):
            protocol.keep_from_forks(file)

    def write(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Write the call. Raises `TypeError` if the function or an argument cannot be pickled."""
        with protocol.in_process(self._pid):
            part = protocol.call_part(self._call, self._pid)
            pickle.dump(protocol.setting(self._span), part)
            function = fn.fn if isinstance(fn, Worker) else fn
            named = [(f"argument {at + 1}", one) for at, one in enumerate(args)] + [*kwargs.items()]
            with unsendable_in_words((repr(function), function), *named):
                self._sending.dump((fn, args, kwargs), part)
            pickle.dump(self._sending.sources, part)
            part.seal()

    def exchange(self, server: Server, message: Open | Call) -> Over:
        """Have the server run the call. If an exception comes meanwhile, the ranks are stopped before it is raised."""
        with self.sent(server, message):
            self.over = server.wait(self.streams)
        assert self.over
        return self.over

    @contextlib.contextmanager
    def sent(self, server: Server, message: Open | Call) -> Iterator[None]:
        """Send the call to the server; it is over at the end of the block. If an exception comes meanwhile, the ranks
        are stopped before it is raised."""
        server.count = message.number
        with protocol.in_process(self._pid):
            try:
                server.send(message, self._descriptors())
                self._call.close()  # only the ranks need it, and the writing ends
                for stream in self.streams:
                    stream.write.close()
                yield
            except Lost:
                raise RankFailed(
                    f"the server of {self._of} {server.fate()}, and all {self._nprocs} ranks with it; "
                    + ("the next run starts another" if self._of == "shmcoll.run" else "open other ranks")
                ) from None
            except BaseException as e:
                self._stop(server)
                if self.over and self.over.where:
                    e.add_note(self._where(self.over))
                raise

    def results(self, over: Over, timeout: float | None, on_failure: str = "stop") -> list[Any]:
        """Return the results of all ranks. Raises what `shmcoll.run` raises."""
        with protocol.in_process(self._pid):
            return self._results(over, timeout, on_failure)

    def _results(self, over: Over, timeout: float | None, on_failure: str) -> list[Any]:
        if over.refused:
            raise over.refused
        if over.late:
            late = f"{self._of}: {timeout:g} s are over; still running: {names(over.late)} of {self._nprocs}"
            error: BaseException = TimeoutError(late)
            if over.where:
                error.add_note(self._where(over))
            raise error
        errors = {rank: self.error(rank, end) for rank, end in over.failed.items()}
        if over.first is None or on_failure == "continue":
            return [
                errors[rank] if rank in errors else protocol.read_result(self._answers, rank, self._span, self._of)
                for rank in range(self._nprocs)
            ]
        first = errors.pop(over.first)
        with contextlib.suppress(Exception):  # its class may forbid new attributes
            first.others = errors  # type: ignore[attr-defined]
        raise first

    def _descriptors(self) -> list[int]:
        files = (self._call, self._answers, *(stream.write for stream in self.streams))
        return [*(file.fileno() for file in files), *self._sending.descriptors()]

    def _stop(self, server: Server) -> None:
        """Stop the ranks after an exception in the caller, such as `KeyboardInterrupt`. No rank runs any more when this
        returns."""
        try:
            server.send(Stop(server.count))
            self.over = server.wait(self.streams, time.monotonic() + STOPPING, self._work)
        except BaseException:  # a second Ctrl-C, or the server is gone: end it, and the kernel ends its ranks
            server.end()

    def error(self, rank: int, end: End) -> BaseException:
        """Return the exception of a rank that has failed."""
        if end.raised:
            return protocol.read_error(self._answers, rank, self._span, self._of)
        late = "did not end in time after that and " if end.ended_by_us else ""
        signum, code = (-end.status, None) if end.status < 0 else (None, end.status)
        text = f"rank {rank} of {self._of} {late}{exits.describe(end.status)}, without a result"
        error = RankFailed(text, rank=rank, signal=signum, exitcode=code)
        if self._work and (doing := self._work.doing(rank)):
            error.add_note(doing)
        return error

    def _where(self, over: Over) -> str:
        doing = filter(None, map(self._work.doing, range(self._nprocs))) if self._work else ()
        return "\n".join([f"{self._of}: where the ranks were:", over.where, *doing])


@contextlib.contextmanager
def limits_in_words(of: str, nprocs: int) -> Iterator[None]:
    """Add to the error which limit of this process, or refused system call, keeps ranks from being started, and what to
    do."""
    try:
        yield
    except OSError as e:
        if hasattr(e, "__notes__"):  # a rank's has a note
            raise
        if reason := refused(e):
            raise ShmcollError(f"{of} of {nprocs} ranks: {reason}") from None
        if e.errno not in _LIMITS:
            raise
        raise ShmcollError(f"{of} of {nprocs} ranks: {e.strerror}. {_LIMITS[e.errno]}.") from e
