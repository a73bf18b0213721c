"""The mark of a rank in its environment, by which the processes that it starts know that they are not ranks.

They inherit the variables of the rank's launcher, which stay in the environment because other libraries of the rank
read them. So a process that has joined adds the mark: which process it is, the name of its job if it gave one, and what
the variables of each launcher said. A process that finds the mark of another process is a descendant of it. It has a
launcher of its own only if that launcher's variables say something else by now.

A process that executes another program is still the process of the mark, and a rank.
"""

import hashlib
import json
import os
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from shmcoll.engine.system.processes import process_start
from shmcoll.engine.system.text import to_bytes

NAME = "SHMCOLL_STARTED_BY"


class Trace(NamedTuple):
    """What the variables of one launcher say, and where that launcher is, as hashes. where: empty if not known."""

    variables: str
    where: str

    @classmethod
    def of(cls, variables: list[str | None], where: str) -> "Trace":
        return cls(_hash(json.dumps(variables)), _hash(where) if where else "")


class Mark(NamedTuple):
    """pid: the process that has joined. job: a hash of the name that it gave. traces: by the launcher's name."""

    pid: int
    job: str
    traces: dict[str, Trace]

    def is_in(self, job: str) -> bool:
        """Return whether the process has joined the job of this name."""
        return self.job == _hash(job)


def write(environment: MutableMapping[str, str], job: str | None, traces: dict[str, Trace]) -> None:
    """Mark this process as one that has joined. job: the name that it gave."""
    told = [*_this_process(), _hash(job) if job else "", {name: [t.variables, t.where] for name, t in traces.items()}]
    environment[NAME] = json.dumps(told, separators=(",", ":"))


def of_other(environment: Mapping[str, str]) -> Mark | None:
    """Return the mark of another process; None if no readable mark is there."""
    try:
        pid, start, job, traces = json.loads(environment.get(NAME, ""))
        mark = Mark(int(pid), str(job), {name: Trace(*map(str, told)) for name, told in traces.items()})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return None if (pid, start) == _this_process() else mark


def _this_process() -> tuple[int, int]:
    return os.getpid(), process_start(os.getpid())


def _hash(text: str) -> str:
    return hashlib.sha256(to_bytes(text)).hexdigest()[:16]
