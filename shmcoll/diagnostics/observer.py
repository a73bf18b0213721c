"""Jobs as seen from outside, while they run or hang. The jobs are not disturbed.

An arena has no name. It is found in the maps of this user's processes (/proc/PID/maps), and opened read-only through a
descriptor of such a process (/proc/PID/fd), which ranks keep open. Words are read by pread, which takes no memory in
sparse ranges of the arena and cannot end in a SIGBUS. The contents are not trusted: owner, magic, version and sizes are
checked as by a rank, and every offset that is read is bounded.

A job over several nodes has an arena on each. Those that this machine has are one job here (`nodes_status.py`).
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shmcoll.diagnostics import hang_report, nodes_status, rank_status
from shmcoll.diagnostics.nodes_status import ObservedNode
from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import arena_file
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system.text import read_text
from shmcoll.errors import ArenaError

_File = tuple[int, int, int]  # major and minor number of the device, inode


class ObservedArena(Arena):
    """The arena behind a descriptor that is open for reading, as `records`, `flights` and others read it."""

    def __init__(self, fd: int):
        self.fd = fd
        self.size = arena_file.checked_size(fd)
        self.ranks = 0
        arenas.verify(self, None)

    def load(self, offset: int) -> int:
        return int.from_bytes(self.read(offset, layout.WORD), "little", signed=True)

    def read(self, offset: int, length: int) -> bytes:
        data = os.pread(self.fd, length, offset)
        if len(data) != length:
            raise ArenaError(f"the arena ends before {offset + length} bytes")
        return data

    def store(self, offset: int, value: int) -> None:
        raise ArenaError("this arena is only looked at")

    def write(self, offset: int, data: bytes) -> None:
        raise ArenaError("this arena is only looked at")

    def close(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True)
class ObservedJob:
    """A job of this user. processes: those that map its arenas: the ranks, and the process that started them.

    arenas: one, or those of the nodes that can be seen. nodes: what these say of the job over nodes, if it is one.
    """

    arenas: tuple[Arena, ...]
    processes: tuple[int, ...]
    nodes: tuple[ObservedNode, ...] = ()

    @property
    def creator(self) -> int:
        """The pid of the process that made the arena: shmrun, the server of `shmcoll.run`, or rank 0. Of several nodes
        that can be seen, it is that of the first one."""
        return self.arenas[0].load(layout.JOB_CREATOR)

    @property
    def created(self) -> int:
        """When the first arena was made: CLOCK_MONOTONIC in ns."""
        return min(arena.load(layout.JOB_CREATED) for arena in self.arenas)

    @property
    def nonce(self) -> str:
        """Eight digits that identify this job, on all its nodes."""
        return (self.nodes[0].facts.job if self.nodes else self.arenas[0].nonce)[:8]

    @property
    def caller(self) -> int | None:
        """The pid of the process that called `shmcoll.run`, if the job is such a call."""
        return caller_of(self.creator)

    @property
    def ranks(self) -> int:
        """The number of its ranks, on all nodes."""
        return self.nodes[0].facts.ranks if self.nodes else self.arenas[0].ranks

    def standings(self) -> list[rank_status.RankStatus]:
        """Return the status of each rank that can be seen."""
        return nodes_status.standings(self.nodes) if self.nodes else rank_status.standings(self.arenas[0])

    def verdict(self, found: list[rank_status.RankStatus], patience: float = hang_report.PATIENCE) -> str:
        """Return which ranks keep others waiting, from the status of each. Waits of up to `patience` s do not count."""
        if self.nodes:
            return nodes_status.verdict_over_nodes(self.nodes, found, patience)
        return hang_report.verdict(found, patience)

    def groups(self) -> list[Group]:
        """Return the open groups within the nodes, with the numbers of the job. The first one of each node holds all
        ranks of that node."""
        if not self.nodes:
            return rank_status.open_groups(self.arenas[0])
        return [group for node in self.nodes for group in nodes_status.groups_within(node)]

    def is_meant(self, text: str) -> bool:
        """Return whether `name` means this job: the pid of one of its processes or of its caller, or the beginning of
        its nonce."""
        nonces = [arena.nonce for arena in self.arenas] + [node.facts.job for node in self.nodes]
        return text in {str(self.creator), str(self.caller), *map(str, self.processes)} or (
            len(text) >= 4 and any(nonce.startswith(text) for nonce in nonces)
        )


def caller_of(pid: int) -> int | None:
    """Return the pid of the process that called `shmcoll.run`, if `pid` is that of its server."""
    words = command_line(pid)
    is_server = words[-4:-2] == ["-m", "shmcoll.runner"] and words[-1].isdigit()
    return int(words[-1]) if is_server else None


def command_line(pid: int) -> list[str]:
    """Return the command line of a process; empty if it has ended."""
    try:
        return read_text(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")
    except OSError:
        return []


@contextlib.contextmanager
def jobs(unreadable: dict[int, str] | None = None) -> Iterator[list[ObservedJob]]:
    """Yield the jobs of this user, the oldest first. Their arenas are closed afterwards.

    unreadable: gets the pids of the processes of jobs that cannot be read, such as those of another version, and why.
    """
    found: list[ObservedJob] = []
    try:
        for file, processes in _mapped().items():
            try:
                if arena := _opened(file, processes):
                    found.append(ObservedJob((arena,), tuple(sorted(processes))))
            except (ArenaError, OSError) as e:  # it ends just now, or its arena has another version
                if unreadable is not None:
                    unreadable.update(dict.fromkeys(processes, str(e)))
        yield sorted(_joined(found), key=lambda job: job.created)
    finally:
        for job in found:
            job.arenas[0].close()


def _joined(found: list[ObservedJob]) -> list[ObservedJob]:
    """Return the jobs, with those arenas together that are nodes of one job."""
    alone: list[ObservedJob] = []
    over: list[list[tuple[ObservedNode, ObservedJob]]] = []
    for job in found:
        node = None
        with contextlib.suppress(ArenaError):  # it has become shorter
            node = nodes_status.observed(job.arenas[0])
        if node is None:
            alone.append(job)
            continue
        for one in over:
            if nodes_status.fits(node, [other for other, _ in one]):
                one.append((node, job))
                break
        else:
            over.append([(node, job)])
    for one in over:
        one.sort(key=lambda pair: pair[0].facts.node)
        arenas = tuple(job.arenas[0] for _, job in one)
        processes = sorted({pid for _, job in one for pid in job.processes})
        alone.append(ObservedJob(arenas, tuple(processes), tuple(node for node, _ in one)))
    return alone


def _mapped() -> dict[_File, list[int]]:
    """Return the files that may be arenas, and the processes that map them."""
    found: dict[_File, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError):  # it has ended, or may not be inspected
                if folder.stat().st_uid == os.geteuid():
                    for file in set(_candidates(read_text(folder / "maps"))):
                        found.setdefault(file, []).append(int(folder.name))
    return found


def _candidates(maps: str) -> Iterator[_File]:
    for line in maps.splitlines():
        if "/dev/shm/#" in line or "/dev/shm/shmcoll" in line or "/memfd:shmcoll " in line:
            device, inode = line.split()[3:5]
            major, minor = (int(part, 16) for part in device.split(":"))
            yield major, minor, int(inode)


def _opened(file: _File, processes: list[int]) -> ObservedArena | None:
    """Return the arena through the first process that has it open; None if no process has."""
    for pid in processes:
        for link in _descriptors(pid):
            with contextlib.suppress(OSError):
                if _identity(link.stat()) == file:
                    return _observe(link)
    return None


def _observe(path: Path) -> ObservedArena:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return ObservedArena(fd)
    except BaseException:
        os.close(fd)
        raise


def _descriptors(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []


def _identity(info: os.stat_result) -> _File:
    return os.major(info.st_dev), os.minor(info.st_dev), info.st_ino
