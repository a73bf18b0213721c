"""The caller's side of the server: it starts the server when it is needed, sends requests, and ends it.

A process forked by the caller does not use the caller's server. It starts its own.
"""

import contextlib
import fcntl
import os
import pickle
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from shmcoll.engine.system import interpreter
from shmcoll.engine.system.descriptors import file_of
from shmcoll.engine.system.text import decoder, show, to_text
from shmcoll.errors import ShmcollError
from shmcoll.runner import protocol
from shmcoll.runner.protocol import CallRanks, CloseRanks, OpenRanks, Over, Request, Stop
from shmcoll.startup import exits

#: variables that numpy reads once, when it is imported
_READ_ONCE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_LIMITS = sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))

_server: "Server | None" = None


class Lost(Exception):
    """The server has ended."""


class Stream:
    """A pipe from the ranks, and the stream here to which its contents are written."""

    def __init__(self, stack: contextlib.ExitStack, target: TextIO | None):
        read, write = os.pipe()
        self.read = stack.enter_context(open(read, "rb", buffering=0))  # noqa: SIM115
        self.write = stack.enter_context(open(write, "wb", buffering=0))  # noqa: SIM115
        os.set_blocking(read, False)
        self._target = target
        self._decode = decoder()

    def forward(self) -> None:
        """Write what has come: at most the contents of a pipe."""
        data = self.read.read(1 << 16)
        if data and self._target is not None:
            show(self._target, self._decode(data))
        if data == b"":
            self.read.close()


class Server:
    """The server of this process, started and ready. count: the number of the latest request."""

    def __init__(self) -> None:
        self.count = 0
        self.start = _at_start()
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        failed = contextlib.ExitStack()
        failed.enter_context(self.sock)
        with failed, theirs, open(protocol.new_file("shmcoll-errors"), "w+b") as errors:
            number = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 3)  # if 0 to 2 are closed, it would be one of them
            failed.callback(os.close, number)
            self.process = subprocess.Popen(
                interpreter.command("shmcoll.runner", number, os.getpid()),
                env=interpreter.environment({"OMP_NUM_THREADS": "1", **os.environ}, sys.path),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[number],
                start_new_session=True,
            )
            failed.pop_all()
            os.close(number)
            theirs.close()  # so that its end is noticed
            self._file = file_of(self.sock.fileno())
            try:
                while (message := self._receive()) != protocol.READY:
                    print(f"shmcoll: {message}", file=sys.stderr, flush=True)
            except Lost:
                how = self.fate()
                errors.seek(0)
                text = to_text(errors.read())
                raise ShmcollError(f"the server of shmcoll.run {how} while it started:\n{text}") from None
            except BaseException:
                self.end()
                raise

    def is_usable(self) -> bool:
        """Return whether it runs, and the socket is still ours: the program may have closed it, and opened another
        file."""
        return self.process.poll() is None and self._has_socket()

    def send(
        self, message: Request | OpenRanks | CallRanks | Stop | CloseRanks, descriptors: Sequence[int] = ()
    ) -> None:
        if not self._has_socket():
            raise Lost
        try:
            socket.send_fds(self.sock, [pickle.dumps(message)], descriptors, socket.MSG_NOSIGNAL)
        except ConnectionError:
            raise Lost from None

    def wait(self, streams: list[Stream], deadline: float | None = None) -> Over:
        """Wait for the latest request and return its `Over`. Forwards the output of ranks meanwhile."""
        while True:
            if not self._has_socket():
                raise Lost
            poll = select.poll()
            poll.register(self.sock, select.POLLIN)
            reading = {stream.read.fileno(): stream for stream in streams if not stream.read.closed}
            for fd in reading:
                poll.register(fd, select.POLLIN)
            ready = {fd for fd, _ in poll.poll(deadline and max(0.0, deadline - time.monotonic()) * 1000)}
            if not ready:
                raise Lost
            message = self._receive() if self.sock.fileno() in ready else None
            over = message if isinstance(message, Over) and message.number == self.count else None
            for fd, stream in reading.items():
                if over or fd in ready:
                    stream.forward()
            if over:
                return over

    def fate(self) -> str:
        """Return a text that says how it ended, if it has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        self.end()
        return exits.describe(self.process.returncode)

    def end(self) -> None:
        """End it, and with it its ranks. Calling it again has no effect."""
        self.process.kill()
        self.process.wait()
        self._close_socket()

    def forget(self) -> None:
        """Forget the server in a fork of the caller, which does not own it."""
        self._close_socket()
        self.process.returncode = 0  # otherwise it would warn about a child that has not been waited for

    def _has_socket(self) -> bool:
        return file_of(self.sock.fileno()) == self._file

    def _close_socket(self) -> None:
        if self._has_socket():
            self.sock.close()
        else:
            self.sock.detach()

    def _receive(self) -> Any:
        with contextlib.suppress(ConnectionError):
            if data := self.sock.recv(protocol.LONGEST_MESSAGE):
                return pickle.loads(data)
        raise Lost


def running_server() -> Server:
    """Return the server. Starts one if none can be used."""
    global _server
    if _server and _server.is_usable() and _server.start == _at_start():
        return _server
    if _server:
        _server.end()
    _server = Server()
    return _server


def kill() -> None:
    """End only the server: a thread that waits for it notices its end."""
    if _server:
        _server.process.kill()


def end() -> None:
    """End the server while no thread waits for it."""
    global _server
    if _server:
        _server.end()
    _server = None


def _at_start() -> tuple[object, ...]:
    """Return what a server inherits when it starts and cannot change later. If it differs, a new server is needed."""
    return (*map(os.environ.get, _READ_ONCE), *map(resource.getrlimit, _LIMITS))


def _forget() -> None:
    """Forget the server in a fork of this process."""
    global _server
    if _server:
        _server.forget()
    _server = None


os.register_at_fork(after_in_child=_forget)
