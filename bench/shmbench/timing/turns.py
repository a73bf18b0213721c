"""Jobs of several libraries that measure in turn, though no process can hold two of them: one works, and the ranks of
all others sleep.

Every rank of a job connects to a socket of the command. It may work from when it reads a byte until it writes a line.
The command gives a job its turn by a byte for each rank, reads a line of each, and goes on with the next job. All jobs
make the same steps, so that they measure the same thing one after the other. At the end of a turn rank 0 writes what it
has found. A connection that ends means that the job has ended or failed, which its exit code tells. No read takes
longer than the timeout.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import IO, Any

from shmbench.timing.launch import END_SECONDS, Command, Failed, reason, started

STARTED = "started"  # what a rank says first


class Turns:
    """A rank's side. found: what the command gets at the end of this turn."""

    def __init__(self, address: str):
        self.found: Any = STARTED
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(address)

    def pause(self) -> None:
        """End this turn, and return when the next one begins."""
        self._connection.sendall(json.dumps(self.found).encode() + b"\n")
        self.found = None
        if not self._connection.recv(1):
            sys.exit("the command has ended")


class _Job:
    """A job on the side of the command."""

    def __init__(self, command: Command, told: IO[bytes], stack: ExitStack):
        self._stack = stack  # of what is closed at the end
        self._told = told
        (self._process,) = stack.enter_context(started([command], self._told))
        self._ranks: list[tuple[socket.socket, IO[bytes]]] = []

    def accept(self, listening: socket.socket, ranks: int, timeout: float) -> None:
        """Wait for all ranks. Raises what `read` does."""
        listening.settimeout(0.1)
        deadline = time.monotonic() + timeout
        while len(self._ranks) < ranks:
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise EOFError from None
                continue
            connection.settimeout(timeout)
            self._ranks.append((self._stack.enter_context(connection), connection.makefile("rb")))
            self._stack.enter_context(self._ranks[-1][1])
        self.read()

    def read(self) -> Any:
        """Return what a rank has found when all have ended their turns; None if they found nothing. Raises `OSError` if
        one has not, and `EOFError` if it has gone."""
        lines = [file.readline() for _, file in self._ranks]
        if not all(lines):
            raise EOFError
        return next((found for line in lines if (found := json.loads(line)) is not None), None)

    def turn(self) -> Any:
        for connection, _ in self._ranks:
            connection.sendall(b"\n")
        return self.read()

    def failure(self, timeout: float) -> Failed | None:
        """Return why it has ended, or has not made its turn; None if it has ended well."""
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return Failed(f"not done after {timeout:g} s: {reason(self._told)}")
        return Failed(f"exit code {code}: {reason(self._told)}") if code else None


def in_turn(commands: Mapping[str, Command], ranks: int, timeout: float) -> Iterator[tuple[str, Any]]:
    """Start a job of each library, and yield what they find: the library, and what it has found, or `Failed`.

    Args:
        commands: how the job of each library is started; the address of the socket is added to its arguments.
        ranks: of each job.
        timeout: seconds that a start or a turn may take.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack, socket.socket(socket.AF_UNIX) as listening:
        address = f"{folder}/turns"
        listening.bind(address)
        listening.listen(ranks)
        jobs = {}
        for library, (command, environment) in commands.items():
            told = stack.enter_context(tempfile.TemporaryFile())
            job = jobs[library] = _Job(([*command, address], environment), told, stack)
            try:
                job.accept(listening, ranks, timeout)
            except (OSError, EOFError):
                yield library, jobs.pop(library).failure(timeout)
        while jobs:
            for library, job in list(jobs.items()):
                try:
                    found = job.turn()
                except (OSError, EOFError):
                    found = jobs.pop(library).failure(timeout)
                if found is not None:
                    yield library, found
