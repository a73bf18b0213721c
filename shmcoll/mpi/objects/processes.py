"""The processes that this one knows, by number: those of its job by their ranks, and then others as it meets them.

The numbers of others are this process's own. Between processes, a process is named by `greeting.Process`.
"""

from weakref import WeakKeyDictionary

from shmcoll.communicator import Communicator
from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.runtime.local_rank import LocalRank
from shmcoll.startup.beside import Joined, this_process
from shmcoll.startup.greeting import Process


class Processes:
    """The processes. job: the communicator of this process's job."""

    def __init__(self, job: Communicator):
        self._job, self._nonce = job, this_process(job).job
        self._others: list[Process] = []
        self._joined: WeakKeyDictionary[LocalRank, list[int]] = WeakKeyDictionary()

    def number(self, process: Process) -> int:
        """Return the number of a process. One that is not known gets the next."""
        if process.job == self._nonce:
            return process.rank
        if process not in self._others:
            self._others.append(process)
        return self._job.size + self._others.index(process)

    def process(self, number: int) -> Process:
        """Return the process of a number."""
        if number >= self._job.size:
            return self._others[number - self._job.size]
        record = records.read(self._job._local_rank.arena, number, layout.BY_RANK)
        return Process(self._nonce, number, record.pid, record.start)

    def enter(self, joined: Joined) -> None:
        """Know the processes of a job that this one has joined beside its own."""
        self._joined[joined.world._local_rank] = [self.number(one) for one in joined.members]

    def of(self, comm: Communicator) -> list[int]:
        """Return the numbers of the ranks of a communicator."""
        numbers = self._joined.get(comm._local_rank)
        return [numbers[rank] for rank in comm.ranks] if numbers else list(map(self._job.ranks.index, comm.ranks))
