"""The client that asks ranks for their Python stacks (`stack_server.py`).

The client finds the file among the rank's descriptors, sends the signal to one thread after the other, and reads what
each has added. It never sends the signal to a process that does not catch it: a program that is not Python, or that has
not joined yet, would be killed.

A stack is written in many pieces, and a busy machine may keep the rank from its core between any two of them. It is
complete when the handler has returned: while the handler runs, the signal is blocked for the thread, and before that it
is pending. Between the two is a moment in which the thread has taken the signal and not entered the handler. Then it
looks as if the handler had returned. So the client checks whether a stack has begun, and *then* whether the signal is
neither pending nor blocked. A thread that runs no Python writes none: it is sent the signal once more, which it cannot
take before the first handler has returned. If it has written nothing by then, it never will; if it has, two stacks are
waited for. More are there if somebody else has sent the signal, too.

Only one client at a time asks a rank: it holds the lock of the file (`flock`), which it releases, and which ends with
its process. A client that is interrupted, or out of patience, leaves a stack behind that a thread has yet to write.
Nothing in a stack says for whom it is. So the next client first waits until no thread is about to write: SETTLING looks
at most, because a thread may block the signal.
"""

import ctypes
import fcntl
import os
import re
import time
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from shmcoll.diagnostics import stack_server
from shmcoll.diagnostics.call_site import short_path
from shmcoll.engine.system.handlers import ignored, reraise_of_handler
from shmcoll.engine.system.processes import has_ended
from shmcoll.engine.system.text import read_text, to_text
from shmcoll.engine.system.tracebacks import is_of_program, is_ours

_LIBC = ctypes.CDLL(None, use_errno=True)
_NAP = 0.002
_SETTLING = 25  # looks
_LONGEST = 1 << 20  # bytes of stacks read at once
_DEEPEST = 12  # frames shown

_HEADER = "Stack (most recent call first):\n"  # faulthandler writes it at once, before the first frame
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_INTERNAL = re.compile(r"<frozen |.*/(runpy\.py|contextlib\.py|shmrun/(\w+/)?\w+\.py|bin/shmrun)$")


@dataclass
class _Asked:
    """A rank that is being asked. waiting: the threads that have not been asked, the main thread last."""

    pid: int
    file: FileIO  # where the rank writes
    waiting: list[int]
    begin: int = 0  # size of the file before the thread that is asked now
    now: int = 0  # that thread; 0: no thread has been asked
    sent: int = 0  # signals sent to it
    settling: int = _SETTLING  # looks left for answers to an earlier client
    told: list[str] = field(default_factory=list)  # what threads have written, the main thread first

    def is_complete(self) -> bool:
        """Return whether all threads have been asked and have answered. If one has answered, asks the next one."""
        if not self.now:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self.settling and any(_holds(self.pid, thread) for thread in self.waiting):
                self.settling -= 1
                return False
            if not self._next_thread():
                return True
        while (answer := self._answer()) is not None:
            self.told.append(answer)
            if not self._next_thread():
                return True
        return False

    def close(self) -> None:
        if not self.file.closed:
            fcntl.flock(self.file, fcntl.LOCK_UN)  # a process that was forked meanwhile has the descriptor, too
            self.file.close()

    def _answer(self) -> str | None:
        """Return what the thread that is asked now has written; None: try again later."""
        begun = len(self._written())
        if _holds(self.pid, self.now):
            return None
        written = self._written()
        if self._has_ended() or begun >= self.sent or (not written and self.sent > 1):
            return written[0] if written else ""
        if not written:
            self._send()
        return None

    def _written(self) -> list[str]:
        """Return the stacks that have begun since the thread that is asked now was asked first."""
        return to_text(os.pread(self.file.fileno(), _LONGEST, self.begin)).split(_HEADER)[1:]

    def _next_thread(self) -> bool:
        """Ask the next thread that does not block the signal. Returns whether there was one."""
        self.begin = os.fstat(self.file.fileno()).st_size
        self.sent = 0
        while self.waiting:
            self.now = self.waiting.pop()
            if not _holds(self.pid, self.now) and self._send():
                return True
        return False

    def _has_ended(self) -> bool:
        """Return whether the thread that is asked now has ended."""
        return _LIBC.tgkill(self.pid, self.now, 0) != 0

    def _send(self) -> bool:
        """Send the signal to the thread that is asked now. Returns whether it is still there."""
        self.sent += 1
        return not _LIBC.tgkill(self.pid, self.now, stack_server.SIGNAL)


def ask(processes: dict[int, tuple[int, int]], patience: float) -> dict[int, list[str]]:
    """Return the stacks of ranks, as lines to print. For a rank that does not write them within `patience` seconds, the
    line is the reason.

    processes: the pid and the start time in the record of each rank.
    """
    told: dict[int, list[str]] = {}
    asked: dict[int, _Asked] = {}
    try:
        for rank, (pid, start) in processes.items():
            one = _ask_one(pid, start)
            if isinstance(one, str):
                told[rank] = [f"({one})"]
            else:
                asked[rank] = one
        end = time.monotonic() + patience
        while len(told) < len(processes) and time.monotonic() < end:
            for rank, one in asked.items():
                if rank not in told and one.is_complete():
                    told[rank] = _shown(one.told) if one.told else ["(it blocks the signal that asks for its stack)"]
                    one.close()
            time.sleep(_NAP)
        for rank, one in asked.items():
            told.setdefault(rank, _shown(one.told) if one.told else [f"(no stack within {patience:g} s)"])
    finally:
        for one in asked.values():
            one.close()
    return told


def _ask_one(pid: int, start: int) -> _Asked | str:
    """Return a rank that can be asked, or the reason why it cannot."""
    if pid == os.getpid():
        stack_server.offer()
    try:
        status = read_text(f"/proc/{pid}/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    except (OSError, ValueError) as e:
        reraise_of_handler(e)
        return "its process has ended"
    try:
        if has_ended(pid, start):
            return "its process has ended"
        if fields["State"][0] in "Tt":
            return "stopped, so it cannot say where it is"
        if not int(fields["SigCgt"], 16) >> (stack_server.SIGNAL - 1) & 1:
            return "no Python program that has joined the job, so it cannot say where it is"
        threads = sorted((int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()), reverse=True)
        file = _file_of(pid)
        if file is None:
            return "it has closed the file that it would write its stack to"
        return _Asked(pid, file, [*(thread for thread in threads if thread != pid), pid])
    except (OSError, KeyError, ValueError) as e:
        reraise_of_handler(e)
        return f"cannot be asked: {e}"


def _file_of(pid: int) -> FileIO | None:
    """Return the rank's file, opened for reading."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with ignored(OSError):
            if str(link.readlink()).startswith(f"/memfd:{stack_server.FILE} "):
                return FileIO(link)
    return None


def _holds(pid: int, thread: int) -> bool:
    """Return whether the signal is pending for a thread, or blocked by it; False if the thread has ended."""
    try:
        status = read_text(f"/proc/{pid}/task/{thread}/status")
    except OSError:
        return False
    masks = re.findall(r"^Sig(?:Pnd|Blk):\t(.*)", status, re.MULTILINE)
    return any(int(mask, 16) >> (stack_server.SIGNAL - 1) & 1 for mask in masks)


def _shown(threads: list[str]) -> list[str]:
    """Return the text of faulthandler, shortened: innermost frame first, without frames of shmcoll and the launcher."""
    shown: list[list[str]] = []
    for thread in threads:
        frames = [match.groups() for line in thread.splitlines() if (match := _FRAME.fullmatch(line))]
        inside = any(is_ours(path) for path, _, _ in frames)
        lines = [
            f"{short_path(path)}:{line} in {function}"
            for path, line, function in _of_program(frames)
            if not _INTERNAL.match(path)
        ]
        if lines and not (inside and all("/threading.py:" in line for line in lines)):
            shown.append(lines[:_DEEPEST] + (["..."] if len(lines) > _DEEPEST else []))
    if len(shown) > 1:
        named = [[f"thread {i}:", *lines] for i, lines in enumerate(shown)]
        named[0][0] = "main thread:"
        return [line for lines in named for line in lines]
    return shown[0] if shown else ["(no Python code of the program's own)"]


def _of_program(frames: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the frames, innermost first, without ours, and without those of libraries through which the program has
    called us."""
    kept = []
    above_ours = False
    for frame in frames:
        above_ours = is_ours(frame[0]) or (above_ours and not is_of_program(frame[0]))
        if not above_ours:
            kept.append(frame)
    return kept or [frame for frame in frames if not is_ours(frame[0])]  # a thread of a library
