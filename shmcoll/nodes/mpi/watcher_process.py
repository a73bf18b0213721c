"""The watcher of a node: a program of its own, which says how a rank has died where no rank can.

MPICH's mpiexec kills all ranks within a millisecond of the first death, so no rank has the time to report it. Under
Open MPI's, nobody reports the deaths of all ranks of a node. The watcher is not a process of mpiexec, and outlives
them. `watcher.py` starts this program, on the lowest rank of each node, and waits until it has made two processes and
ended:

    watcher    in a session of its own, so mpiexec does not kill it. It holds the arena, the standard error of the rank,
               and a socket to which each rank of the node connects. It sleeps until a connection or a process ends
    canary     in the process group of the rank that has started it. mpiexec signals that group when it kills the ranks.
               It holds one end of a pipe until the other end is closed, and does nothing else

Which rank has died by itself. mpiexec learns of a death when the kernel closes what the process had opened, and then
kills the other ranks, and the canary. The kernel closes the last descriptors of a process first, and the connection is
one of the last. So the watcher's socket learns of the death before mpiexec, and so before the canary is killed. An
epoll keeps the order of its events, however late the watcher gets a core. On the other nodes the canary ends first: the
kernel clears the memory of a process before it closes its files, which takes milliseconds for a rank. So a rank whose
connection ends before the canary has died by itself. The watcher prints one line, about the first such rank whose
record in the arena is still that of a joined rank. It never prints for a rank that has raised, or has left the job.

On a busy machine the canary may wait for a core on which to end for longer than a rank takes. Then the watcher of
another node speaks, too, of a rank that mpiexec has killed. With two programs beside 4 ranks on 2 cores, that happened
after 4 of 25 deaths, and after 9 of 40 with a canary of less memory.

A program may close the connection, as libraries for daemons do, or it may never have been made. Then the end of the
process itself counts, which mpiexec may notice first.

Under Open MPI the other ranks of the node live on for a moment, or for long, and one that is in a call ends its groups
and raises. So the watcher waits until all ranks of the node have ended, and then speaks unless one of them has ended a
group of the rank that has died. That is so if all have been killed, and if none was in a call or came into one.

How a rank has ended is in /proc until its parent waits for it, and in its pidfd afterwards (Linux 6.15). If neither
says it, or it is exit code 0, the watcher waits until the canary has been killed: then the job has failed.

Why it ends by itself: it waits for the ends of processes, and then at most CONFIRMATION for what follows. The canary
waits for the end of a pipe that only the watcher holds.

Trust. The address of the socket is random. Only a process of this user whose pid is in the arena is listened to, and
nothing is read from a connection.

Nothing of shmcoll is imported before a rank has died: the watcher takes little memory, and no time.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

CONFIRMATION = 2.0  # seconds
_PAUSE = 0.02  # seconds
_INFO_PATIENCE = 0.5  # seconds until the parent of a process has waited for it

_STAT_STATE, _STAT_START, _STAT_STATUS = 0, 19, 49  # fields of /proc/PID/stat, behind the name
_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, struct pidfd_info), of 64 bytes
_WANTS_EXIT = 1 << 3  # PIDFD_INFO_EXIT
_INFO = struct.Struct("=QQ11Ii")  # mask, cgroup, ids, exit code
_PEER = struct.Struct("=3i")  # pid, uid, gid


def main() -> None:
    """Make the two processes, and end. Standard input is JSON:

    arena: its descriptor. address: where to listen. ranks: of each rank of the node its number, its pid, its start
    time, and where in the arena the state of its record is. joined: the state of a joined rank. survivors_speak: other
    ranks of the node have the time to report a death. path: to import shmcoll from.
    """
    given = json.load(sys.stdin)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{given['address']}")
    listener.listen(len(given["ranks"]))
    reading, writing = os.pipe()
    if os.fork() == 0:
        listener.close()
        os.close(writing)
        os.close(given["arena"])
        _be_quiet(0, 1, 2)
        os.read(reading, 1)
        os._exit(0)
    if os.fork() == 0:
        os.setsid()
        os.close(reading)
        _be_quiet(0, 1)
        found = _watch(given, listener, writing)
        if found is not None:
            sys.path[:] = given["path"]
            _tell(given["arena"], *found, unless_known=given["survivors_speak"])


def _watch(given: dict[str, Any], listener: socket.socket, canary: int) -> tuple[int, int | None] | None:
    """Wait until a rank has died by itself. Returns its rank in the arena, and its wait status if that is known; None
    if all ranks have ended in another way. canary: the pipe whose other end the canary holds."""
    events = select.epoll()
    events.register(canary, select.EPOLLERR)
    events.register(listener, select.EPOLLIN)
    ranks = {pid: (rank, start, record) for rank, pid, start, record in given["ranks"]}
    processes = {pid: os.pidfd_open(pid) for pid in ranks}
    if any(_stat(pid)[_STAT_START : _STAT_START + 1] != [b"%d" % start] for pid, (_, start, _) in ranks.items()):
        return None
    connections: dict[int, socket.socket] = {}
    watched = {pidfd: pid for pid, pidfd in processes.items()}
    for pidfd in watched:
        events.register(pidfd, select.EPOLLIN)
    while processes:
        [(ready, _)] = events.poll(maxevents=1)  # the first thing that has happened
        if ready == canary:
            return None
        if ready == listener.fileno():
            try:
                made, _ = listener.accept()
            except OSError:  # no descriptors now: it is tried again
                time.sleep(_PAUSE)
                continue
            pid, uid, _ = _PEER.unpack(made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if uid == os.geteuid() and pid in processes and pid not in connections:
                connections[pid] = made
                watched[made.fileno()] = pid
                events.register(made, select.EPOLLIN)
            continue
        pid = watched.pop(ready)
        events.unregister(ready)
        if pid not in processes:
            continue
        rank, start, record = ranks[pid]
        if int.from_bytes(os.pread(given["arena"], 8, record), "little") != given["joined"]:
            del processes[pid]  # it has left, or has raised
        elif _ends(processes[pid], select.POLLIN):
            status = _status(processes.pop(pid), pid, start)
            if given["survivors_speak"]:
                for one in processes.values():
                    _ends(one, select.POLLIN, None)
            return (rank, status) if status or _ends(canary, select.POLLERR) else None
    return None


def _ends(descriptor: int, event: int, seconds: float | None = CONFIRMATION) -> bool:
    """Return whether something ends within some seconds; None for as long as it takes."""
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _status(pidfd: int, pid: int, start: int) -> int | None:
    """Return the wait status of a process that has ended; None if it is not known."""
    fields = _stat(pid)
    if fields[_STAT_START : _STAT_START + 1] == [b"%d" % start] and fields[_STAT_STATE] == b"Z":
        return int(fields[_STAT_STATUS])
    end = time.monotonic() + _INFO_PATIENCE
    while time.monotonic() < end:
        try:
            answer = fcntl.ioctl(pidfd, _GET_INFO, _INFO.pack(_WANTS_EXIT, 0, *[0] * 11, 0))
        except OSError:
            return None
        mask, *_, status = _INFO.unpack(answer)
        if mask & _WANTS_EXIT:
            return int(status)
        time.sleep(0.002)
    return None


def _stat(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _be_quiet(*descriptors: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


def _tell(arena: int, rank: int, status: int | None, *, unless_known: bool) -> None:
    """Print which rank of the job has died. unless_known: not if a rank of its node has ended a group because of it."""
    from shmcoll.diagnostics.nodes_status import has_ended_a_group, last_operation, observed
    from shmcoll.diagnostics.observer import ObservedArena
    from shmcoll.engine.system.text import to_bytes

    node = observed(ObservedArena(arena))
    if node is None or (unless_known and has_ended_a_group(node, rank)):
        return
    number = node.numbers[rank]
    last = last_operation(node, number)
    line = f"shmcoll: rank {number} (node {node.facts.name}) died: {_how(status)}{'; ' * bool(last)}{last}\n"
    os.write(2, to_bytes(line))


def _how(status: int | None) -> str:
    if status is None:
        return "its process has ended"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        known = number in set(signal.Signals)
        return f"killed by {signal.Signals(number).name if known else f'signal {number}'}"
    return f"its process has ended with exit code {os.WEXITSTATUS(status)}"


if __name__ == "__main__":
    try:
        with contextlib.suppress(Exception):  # nobody can help a watcher that fails, and the job does not need it
            main()
    finally:
        os._exit(0)
