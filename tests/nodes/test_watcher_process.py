"""The watcher of a node by itself, without MPI."""

import errno
import os
import signal
import socket

from shmcoll.engine.system.processes import process_start
from shmcoll.nodes.mpi import watcher_process


class Listener(socket.socket):
    """Accepts nothing at first, as if there were no descriptors. Then the rank may die."""

    failures = 3
    end: int

    def accept(self):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        os.write(self.end, b"x")
        return super().accept()


def test_it_goes_on_when_it_cannot_accept_a_connection():
    arena = os.memfd_create("test")
    os.pwrite(arena, (2).to_bytes(8, "little"), 0)
    address = f"shmcoll-test-watcher-{os.getpid()}"
    canary_read, canary = os.pipe()
    ended, end = os.pipe()
    with Listener(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{address}")
        listener.listen(1)
        rank = os.fork()
        if rank == 0:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
                line.connect(f"\0{address}")
                os.read(ended, 1)
                os.kill(os.getpid(), signal.SIGKILL)
        given = {
            "ranks": [[0, rank, process_start(rank), 0]],
            "arena": arena,
            "joined": 2,
            "survivors_speak": False,
        }
        listener.end = end
        watcher = os.fork()
        if watcher == 0:
            os._exit(0 if watcher_process._watch(given, listener, canary) == (0, signal.SIGKILL) else 1)
    assert os.waitpid(watcher, 0)[1] == 0
    os.waitpid(rank, 0)
    for fd in (arena, canary_read, canary, ended, end):
        os.close(fd)
