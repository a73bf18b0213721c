"""The caller's side of the server: it starts the server when it is needed, sends requests, and ends it.

Each request has a number, which its `Over` repeats.

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
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Protocol, TextIO

from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.system import interpreter, log
from shmcoll.engine.system.descriptors import File, file_of
from shmcoll.engine.system.handlers import LONGEST_SLEEP
from shmcoll.engine.system.text import decoder, show, to_text
from shmcoll.errors import ShmcollError
from shmcoll.runner import passing, protocol
from shmcoll.runner.protocol import Ended, Over, Request
from shmcoll.startup import exits

#: variables that numpy reads once, when it is imported
_READ_ONCE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_LIMITS = sorted(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))

_server: "Server | None" = None  # of `shmcoll.run`
_all: "weakref.WeakSet[Server]" = weakref.WeakSet()


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
        """Write the bytes that have arrived: at most the contents of a pipe."""
        data = self.read.read(1 << 16)
        if data and self._target is not None:
            show(self._target, self._decode(data))
        if data == b"":
            self.read.close()


class Channel(Protocol):
    """What the caller reads besides while a request is served."""

    def fileno(self) -> int: ...

    def arrived(self) -> None:
        """Read what has arrived."""

    def ended(self, rank: Ended) -> None:
        """Note that a rank has failed."""


class Server:
    """A server, which `launch` starts. count: the number of the latest request.

    It can be used while `is_idle`: it has answered the latest request, and we know it. This is unset before a request
    is sent. So after an exception at any instant, such as a second Ctrl-C, a server of unknown state is not used again.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_idle = False
        self.process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        self._file: File | None = None
        _all.add(self)

    def launch(self) -> None:
        """Start it, and wait until it is ready."""
        self.start = _at_start()
        try:
            with protocol.in_process(self._pid), contextlib.ExitStack() as stack:
                with deferred_signals():  # then each descriptor, and the process, has an owner
                    errors = stack.enter_context(open(protocol.new_file("shmcoll-errors"), "w+b"))
                    self._start(errors)
                try:
                    while (message := self._receive()) != protocol.READY:
                        log.info(message)
                except Lost:
                    how = self.fate()
                    errors.seek(0)
                    text = to_text(errors.read()).rstrip()
                    text = text if text.count("\n") == 0 else f"\n{text}"
                    raise ShmcollError(f"the server of shmcoll.run {how} while it started: {text}") from None
            self.is_idle = True
        except BaseException:
            self.end()
            raise

    def _start(self, errors: BinaryIO) -> None:
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._file = file_of(self.sock.fileno())
        with theirs:  # closed here so that its end is noticed
            number = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 3)  # if 0 to 2 are closed, it would be one of them
            try:
                self.process = subprocess.Popen(
                    interpreter.command("shmcoll.runner", number, os.getpid()),
                    env=interpreter.environment({"OMP_NUM_THREADS": "1", **os.environ}, sys.path),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=[number],
                    start_new_session=True,
                )
            finally:
                os.close(number)

    def is_usable(self) -> bool:
        """Return whether it waits for a request, and the socket is still ours: the program may have closed it, and
        opened another file."""
        return self.is_idle and self.is_running() and self._has_socket()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, message: Request, descriptors: Sequence[int] = ()) -> None:
        self.is_idle = False
        with self._checked():
            passing.send(self.sock, [pickle.dumps(message)], descriptors)

    def wait(self, streams: list[Stream], deadline: float | None = None, channel: Channel | None = None) -> Over:
        """Wait for the latest request and return its `Over`. Forwards the output of ranks meanwhile, and what comes
        through `channel`. Raises `Lost` at the deadline."""
        while not (over := self.step(streams, deadline, channel)):
            if deadline is not None and time.monotonic() >= deadline:
                raise Lost
        return over

    def step(self, streams: list[Stream], deadline: float | None = None, channel: Channel | None = None) -> Over | None:
        """Wait for an event, but not beyond the deadline, and see to it. Returns the `Over` of the latest request if it
        has come."""
        poll = select.poll()
        reading = {stream.read.fileno(): stream for stream in streams if not stream.read.closed}
        for fd in reading:
            poll.register(fd, select.POLLIN)
        if channel:
            poll.register(channel, select.POLLIN)
        with self._checked():
            poll.register(self.sock, select.POLLIN)
            left = LONGEST_SLEEP if deadline is None else deadline - time.monotonic()
            ready = {fd for fd, _ in poll.poll(1000 * min(max(left, 0.0), LONGEST_SLEEP))}
            message = self._receive() if self.sock.fileno() in ready else None
        over = message if isinstance(message, Over) and message.number == self.count else None
        for fd, stream in reading.items():
            if over or fd in ready:
                stream.forward()
        if channel:
            if over or channel.fileno() in ready:
                channel.arrived()
            if isinstance(message, Ended) and message.number == self.count:
                channel.ended(message)
        if over:
            self.is_idle = True
            if over.said:
                from shmcoll.profiling import output

                output.tell("shmcoll", over.said)
        return over

    def fate(self) -> str:
        """Return a text that says how it ended, if it has."""
        if self.process is None:
            return "was not started"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        self.end()
        return exits.describe(self.process.returncode)

    def kill(self) -> None:
        """End it, and with it its ranks. A thread that waits for it notices."""
        if self.process is not None:
            with contextlib.suppress(OSError):  # a sandbox may forbid it: the server ends with this process
                self.process.kill()
                self.process.wait()

    def end(self) -> None:
        """Kill it, and close the socket. Calling it again has no effect, except after an exception of a signal handler
        that came before the work: other handlers run after it."""
        self.is_idle = False
        with deferred_signals():
            self.kill()
            self._close_socket()

    def forget(self) -> None:
        """Forget the server in a fork of the caller, which does not own it."""
        self.is_idle = False
        self._close_socket()
        if self.process is not None:
            self.process.returncode = 0  # otherwise it would warn about a child that has not been waited for

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        """Use the socket. Raises `Lost` if it is not ours any more."""
        with protocol.in_process(self._pid):
            if not self._has_socket():
                raise Lost
            try:
                yield
            except ConnectionError:
                raise Lost from None

    def _has_socket(self) -> bool:
        return self._file is not None and file_of(self.sock.fileno()) == self._file

    def _close_socket(self) -> None:
        if self._has_socket():
            self.sock.close()
        elif self._file is not None:
            self.sock.detach()

    def _receive(self) -> Any:
        with self._checked():
            if data := self.sock.recv(protocol.LONGEST_MESSAGE):
                return pickle.loads(data)
        raise Lost


def running_server() -> Server:
    """Return the server. Starts one if none can be used."""
    global _server
    server = _server  # in a fork that a signal handler makes meanwhile, it is forgotten
    if server and server.is_usable() and server.start == _at_start():
        return server
    if server:
        server.end()
    _server = server = Server()
    server.launch()
    return server


def take() -> Server:
    """Return a server that nobody else uses until it is given back."""
    global _server
    server = running_server()
    _server = None
    return server


def give_back(server: Server) -> None:
    """Let later calls use a server again, if it can be used. Otherwise it is ended."""
    global _server
    if _server is None and server.is_usable():
        _server = server
    else:
        server.end()


def kill() -> None:
    """End only the server: a thread that waits for it notices its end."""
    if server := _server:
        server.kill()


def at_exit() -> None:
    """End the server at the end of the process, and close its socket unless a thread still uses it."""
    if server := _server:
        (server.end if server.is_idle else server.kill)()


def end() -> None:
    """End the server while no thread waits for it."""
    global _server
    if server := _server:
        server.end()
    _server = None


def _at_start() -> tuple[object, ...]:
    """Return what a server inherits when it starts and cannot change later. If it differs, a new server is needed."""
    return (*map(os.environ.get, _READ_ONCE), *map(resource.getrlimit, _LIMITS))


def _forget() -> None:
    """Forget all servers in a fork of this process."""
    global _server
    for server in list(_all):
        server.forget()
    _server = None


os.register_at_fork(after_in_child=_forget)
