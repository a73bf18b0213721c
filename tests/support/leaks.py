"""What a test may leave behind: nothing. Names in /dev/shm, processes, descriptors, threads.

Orphans are found because the test process adopts them: as a "child subreaper" it becomes the parent of every descendant
whose own parent has died.
"""

import contextlib
import ctypes
import gc
import os
import stat
import threading
import time
from pathlib import Path

from shmcoll.engine import layout
from shmcoll.engine.system.processes import process_start

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 5.0  # seconds: how long processes that have been told to go may take

Snapshot = dict[str, set[str]]


def adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def snapshot() -> Snapshot:
    return {"name in /dev/shm": _names(), "process": _processes(), "descriptor": _descriptors(), "thread": _threads()}


def left_since(before: Snapshot) -> list[str]:
    """What is there now and was not before, in words; given a moment to vanish."""
    end = time.monotonic() + PATIENCE
    while True:
        left = _difference(before)
        if not left or time.monotonic() > end:
            return left
        gc.collect()
        _reap_zombies(before["process"])
        time.sleep(0.005)


def _difference(before: Snapshot) -> list[str]:
    return [f"{kind} {one}" for kind, now in snapshot().items() for one in sorted(now - before[kind])]


def _names() -> set[str]:
    """Only ours: jobs that others run on this machine meanwhile have names of their own."""
    return {p.name for p in Path("/dev/shm").iterdir() if "shmcoll" in p.name and not _belongs_to_others(p)}


def _belongs_to_others(path: Path) -> bool:
    """Whether another user made the file, or it is not a file (a test beside us may have made a FIFO), or the arena
    was made by a living process that is neither this one nor below it."""
    try:
        found = path.lstat()
        if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
            return True
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # it may be something else by now
        try:
            page = os.read(fd, layout.JOB_CREATED)
        finally:
            os.close(fd)
    except OSError:
        return True  # gone meanwhile
    creator = int.from_bytes(page[layout.JOB_CREATOR :], "little")
    return process_start(creator) > 0 and creator not in {os.getpid(), *_descendants()}


def _descriptors() -> set[str]:
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that listed the directory
            found.add(f"{link.name} -> {link.readlink()}")
    return found


def _threads() -> set[str]:
    return {f"{t.name} ({t.ident})" for t in threading.enumerate()}


def _processes() -> set[str]:
    return {_process(pid, *told) for pid, told in _descendants().items()}


def _process(pid: int, name: str, state: str) -> str:
    """In words. Whether one that lives runs or sleeps at this moment makes no difference."""
    return f"{pid} ({name}{', a zombie' * (state == 'Z')})"


def _descendants() -> dict[int, tuple[str, str]]:
    """All processes below this one: {pid: (name, state)}. Cost: the whole of /proc, if there are any."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # no children: then nothing is below them, because this process adopts orphans
        return {}
    table: dict[int, tuple[int, str, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                head, _, tail = (entry / "stat").read_text().rpartition(")")
                state, parent_pid = tail.split()[:2]
                table[int(entry.name)] = int(parent_pid), head.partition("(")[2], state
    below: dict[int, tuple[str, str]] = {}
    grown = True
    while grown:
        grown = False
        for pid, (parent, name, state) in table.items():
            if pid not in below and (parent == os.getpid() or parent in below):
                below[pid] = name, state
                grown = True
    return below


def _reap_zombies(before: set[str]) -> None:
    """Those whose parent died are ours to wait for; whoever made them cannot."""
    for pid, (name, state) in _descendants().items():
        if state == "Z" and _process(pid, name, state) not in before:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
