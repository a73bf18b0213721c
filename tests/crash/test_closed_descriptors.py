"""A program that closes descriptors which it has not opened, as libraries for daemons do, and then opens its own files.

Their numbers are then what ours were. Nothing that we do may reach those files, and the job goes on: groups, shared
arrays, messages, and the news of a peer's death.
"""

import gc
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from shmcoll.errors import CollectiveMismatch, RankFailed
from tests.support.launched import shmrun

pytestmark = pytest.mark.slow

__all__ = ["shmrun"]

CONTENT = bytes(range(256)) * 4096  # 1 MiB


def close_what_is_not_ours() -> list[int]:
    """Close all descriptors but the standard ones and pipes, through which the tests get answers; their numbers."""
    closed = []
    for link in list(Path("/proc/self/fd").iterdir()):
        fd = int(link.name)
        try:
            if fd > 2 and not str(link.readlink()).startswith("pipe:"):
                os.close(fd)
                closed.append(fd)
        except OSError:
            continue  # of the listing itself
    return closed


class Files:
    """Files of the user's that take over so many numbers at least, all alike."""

    def __init__(self, numbers: list[int]):
        self.files = [tempfile.TemporaryFile()]  # noqa: SIM115 - they stay open to the end
        while not set(numbers) <= {file.fileno() for file in self.files}:
            self.files.append(tempfile.TemporaryFile())  # noqa: SIM115
        for file in self.files:
            file.write(CONTENT)
            file.flush()
        self.before = self.state()

    def state(self) -> list[tuple[int, int, bytes]]:
        found = [(os.fstat(f.fileno()), os.pread(f.fileno(), 2 * len(CONTENT), 0)) for f in self.files]
        return [(info.st_size, info.st_blocks, content) for info, content in found]

    def check(self) -> None:
        assert self.state() == self.before


def use_everything(comm) -> None:
    """Groups, shared arrays that are made and dropped, messages that need memory."""
    n, me = comm.size, comm.rank
    for _ in range(3):
        arrays = [comm.zeros(1 << 17) for _ in range(4)]
        assert not any(array.any() for array in arrays)
        arrays[0][:] = me + 1
        assert [view[0] for view in comm.views(arrays[0])] == [rank + 1 for rank in range(n)]
        arrays[1][:] = 7.0
        arrays.clear()
        gc.collect()
        group = comm.split(0, -me)
        assert group.all_reduce(1) == n
        group.close()
        long = np.full(1 << 19, me, np.int64)
        for peer in range(n):
            comm.send(long, peer, tag=me)
        for peer in range(n):
            assert (comm.recv(source=peer, tag=peer)[0] == peer).all()
        comm.barrier()


def test_files_with_our_numbers_are_left_alone(ranks):
    def use(comm) -> int:
        comm.barrier()
        closed = close_what_is_not_ours()
        files = Files(closed)
        use_everything(comm)
        files.check()
        return len(closed)

    assert min(ranks(3, use, tell=True)) >= 2  # the arena, and the file for stacks


def test_files_put_over_our_numbers_are_left_alone(ranks):
    """By dup2, so that nobody has seen a closed descriptor."""

    def use(comm) -> None:
        comm.barrier()
        own = tempfile.TemporaryFile()  # noqa: SIM115
        own.write(CONTENT)
        own.flush()
        before = os.fstat(own.fileno())
        os.dup2(own.fileno(), comm._local_rank.arena.fd)
        use_everything(comm)
        after = os.fstat(own.fileno())
        assert (after.st_size, after.st_blocks) == (before.st_size, before.st_blocks)
        assert os.pread(own.fileno(), 2 * len(CONTENT), 0) == CONTENT

    ranks(2, use)


def wait_long(comm, seconds: float) -> None:
    """All but rank 0 wait for it, longer than a slice of a wait."""
    if comm.rank == 0:
        time.sleep(seconds)
    comm.barrier()


@pytest.mark.parametrize("opens", [False, True])
def test_a_living_peer_is_not_declared_dead(ranks, opens):
    def use(comm) -> None:
        wait_long(comm, 0.1)  # whatever a wait opens has been opened
        closed = close_what_is_not_ours()
        files = [open(os.devnull) for _ in closed] if opens else []  # noqa: SIM115 - poll says at once: readable
        wait_long(comm, 0.5)
        assert len(files) == (len(closed) if opens else 0)

    ranks(3, use)


@pytest.mark.parametrize("opens", [False, True])
def test_a_death_is_noticed_all_the_same(ranks, opens):
    """Without the launcher's word, and where our numbers are pipes in which nothing ever comes."""

    def use(comm) -> str:
        wait_long(comm, 0.1)
        closed = close_what_is_not_ours()
        pipes = [os.pipe() for _ in closed] if opens else []
        comm.barrier()
        if comm.rank == 1:
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RankFailed) as told:
            comm.barrier()
        assert len(pipes) == (len(closed) if opens else 0)
        return str(told.value)

    for outcome in ranks.outcomes(3, use):
        assert outcome.status == (-9 if outcome.rank == 1 else 0), outcome.traceback
        if outcome.rank != 1:
            assert "rank 1" in outcome.value


def test_a_death_is_noticed_without_descriptors_to_be_had(ranks):
    """`ulimit -n` is reached."""

    def use(comm) -> str:
        comm.barrier()
        files = []
        try:
            while True:
                files.append(open(os.devnull))  # noqa: SIM115
        except OSError:
            pass
        comm.barrier()
        use_everything(comm)
        if comm.rank == 1:
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            comm.barrier()
        except RankFailed as error:
            return f"{len(files) > 10} {error}"
        return "nothing happened"

    for outcome in ranks.outcomes(3, use, tell=True):
        if outcome.rank != 1:
            assert outcome.error is None, outcome.traceback
            assert outcome.value.startswith("True ") and "rank 1" in outcome.value


def test_a_mismatch_is_told_on_all_ranks(ranks):
    """Without the lock by which one of them tells for all."""

    def use(comm) -> str:
        comm.barrier()
        files = Files(close_what_is_not_ours())
        with pytest.raises(CollectiveMismatch) as told:
            comm.all_reduce(comm.rank) if comm.rank else comm.barrier()
        files.check()
        return str(told.value)

    for text in ranks(3, use):
        assert "barrier" in text and "all_reduce" in text


def test_a_fork_closes_no_file_of_the_programs(ranks):
    def use(comm) -> int:
        comm.barrier()
        files = Files(close_what_is_not_ours())
        pid = os.fork()
        if pid == 0:
            try:
                files.check()  # whatever the fork has closed is not among them
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert ranks(2, use) == [0, 0]


def test_a_daemons_way_under_shmrun(shmrun):
    """All descriptors are closed at once, those of the launcher's report, too."""
    script = shmrun.write("""
        import os, tempfile
        import numpy as np, shmcoll
        comm = shmcoll.init()
        os.closerange(3, 4096)
        files = [tempfile.TemporaryFile() for _ in range(30)]
        for _ in range(3):
            x = comm.zeros(100_000)
            del x
            group = comm.split(0)
            assert group.all_reduce(1) == 2
            group.close()
        assert [os.fstat(file.fileno()).st_size for file in files] == [0] * 30
        print("fine")
    """)
    done = shmrun("-n", 2, script)
    assert (done.returncode, done.stdout) == (0, "fine\nfine\n"), done.stderr
