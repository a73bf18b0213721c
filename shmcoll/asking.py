"""Asking ranks for their Python stacks, which they offer (`stacks.py`).

Who asks finds the file among the rank's descriptors, sends the signal, and reads what has been added. Nobody sends the
signal to a process that does not catch it: a program that is no Python, or that has not joined yet, would be killed.

The stacks are written in many pieces, and a busy machine may keep the rank from its core between any two of them. They
are complete when the handler has returned: until then the thread that it runs in has the signal blocked.
"""

import contextlib
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from shmcoll import stacks
from shmcoll.call_sites import short_path
from shmcoll.engine.processes import process_start

_NAP = 0.002
_LONGEST = 1 << 20  # bytes of stacks read at once
_DEEPEST = 12  # frames shown

_PACKAGE = str(Path(__file__).parent) + os.sep
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_INTERNAL = re.compile(r"<frozen |.*/(runpy\.py|contextlib\.py|shmrun/\w+\.py|bin/shmrun)$")


@dataclass
class _Asked:
    pid: int
    fd: int
    begin: int  # size of the file before
    deaf: set[str]  # threads that have the signal blocked all the time


def ask(processes: dict[int, tuple[int, int]], patience: float) -> dict[int, list[str]]:
    """The stacks of ranks, as lines to print; of those that do not give them within `patience` seconds, why not.

    processes: of each rank the pid and the start time that its record holds.
    """
    told: dict[int, list[str]] = {}
    asked: dict[int, _Asked] = {}
    for rank, (pid, start) in processes.items():
        one = _ask_one(pid, start)
        if isinstance(one, str):
            told[rank] = [f"({one})"]
        else:
            asked[rank] = one
    end = time.monotonic() + patience
    while asked and time.monotonic() < end:
        for rank, one in list(asked.items()):
            if _is_complete(one):
                told[rank] = _shown(os.pread(one.fd, _LONGEST, one.begin).decode(errors="replace"))
                os.close(asked.pop(rank).fd)
        time.sleep(_NAP)
    for rank, one in asked.items():
        told[rank] = [f"(no stack within {patience:g} s)"]
        os.close(one.fd)
    return told


def _ask_one(pid: int, start: int) -> _Asked | str:
    """Send the signal; or why not."""
    if pid == os.getpid():
        stacks.offer()
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        pidfd = os.pidfd_open(pid)
    except (OSError, ValueError):
        return "its process has ended"
    try:
        if start and process_start(pid) != start:
            return "its process has ended"
        if fields["State"][0] in "Tt":
            return "stopped, so it cannot say where it is"
        if not int(fields["SigCgt"], 16) >> (stacks.SIGNAL - 1) & 1:
            return "no Python program that has joined the job, so it cannot say where it is"
        if int(fields["SigBlk"], 16) >> (stacks.SIGNAL - 1) & 1:
            return "it blocks the signal that asks for its stack"
        fd = _file_of(pid)
        if fd is None:
            return "it has closed the file that it would write its stack to"
        asked = _Asked(pid, fd, os.fstat(fd).st_size, _threads_blocking(pid))
        signal.pidfd_send_signal(pidfd, stacks.SIGNAL)
        return asked
    except (OSError, KeyError, ValueError) as e:
        return f"cannot be asked: {e}"
    finally:
        os.close(pidfd)


def _file_of(pid: int) -> int | None:
    """The rank's file, opened for reading."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith(f"/memfd:{stacks.FILE} "):
                return os.open(link, os.O_RDONLY | os.O_CLOEXEC)
    return None


def _is_complete(one: _Asked) -> bool:
    return os.fstat(one.fd).st_size > one.begin and _threads_blocking(one.pid) <= one.deaf


def _threads_blocking(pid: int) -> set[str]:
    """The threads of a process that have the signal blocked; none when it has ended."""
    found = set()
    for file in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):  # the thread has ended
            blocked = re.search(r"^SigBlk:\t(.*)", file.read_text(), re.MULTILINE)
            if blocked and int(blocked[1], 16) >> (stacks.SIGNAL - 1) & 1:
                found.add(file.parent.name)
    return found


def _shown(text: str) -> list[str]:
    """What faulthandler has written, shorter: innermost frame first, without frames of shmcoll and the launcher."""
    threads = re.split(r"^(?:Current t|T)hread 0x[^\n]*\n", text, flags=re.MULTILINE)
    shown: list[list[str]] = []
    for thread in threads:
        frames = [match.groups() for line in thread.splitlines() if (match := _FRAME.fullmatch(line))]
        inside = any(path.startswith(_PACKAGE) for path, _, _ in frames)
        lines = [
            f"{short_path(path)}:{line} in {function}"
            for path, line, function in frames
            if not path.startswith(_PACKAGE) and not _INTERNAL.match(path)
        ]
        if lines and not (inside and all("/threading.py:" in line for line in lines)):
            shown.append(lines[:_DEEPEST] + (["..."] if len(lines) > _DEEPEST else []))
    if len(shown) > 1:
        # The main thread was there first, and faulthandler begins with the latest
        named = [[f"thread {i}:", *lines] for i, lines in enumerate(reversed(shown))]
        named[0][0] = "main thread:"
        return [line for lines in named for line in lines]
    return shown[0] if shown else ["(no Python code of the program's own)"]
