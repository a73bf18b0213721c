"""`shmrun ps`: the jobs of this user, one line each, of all launchers."""

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Any

from shmcoll.diagnostics import hang_report, observer, rank_status
from shmcoll.diagnostics.nodes_status import unseen
from shmcoll.engine.memory.group import names
from shmcoll.engine.system.processes import check_proc
from shmcoll.engine.system.text import aligned
from shmcoll.errors import ArenaError, ShmcollError
from shmrun.cli.printing import one_line, tell

_LONGEST_COMMAND = 60
_MOST_NODES = 4  # that are named in a line


@dataclass(frozen=True)
class Listed:
    """A line of the table. The names are the keys of the JSON. Times are in seconds.

    state: starts, runs, waits or ended. waiting: for how long a rank has waited. waits_for: the ranks that keep it
    waiting. caller: the pid of the process that called `shmcoll.run`. nodes: of a job over nodes, those that can be
    seen, each with its name and its ranks. unseen: the others, each with its name and how many ranks it has.
    """

    pid: int
    nonce: str
    ranks: int
    age: float
    state: str
    waiting: float | None
    waits_for: list[int]
    ranks_ended: list[int]
    command: str
    caller: int | None
    pids: list[int]
    nodes: list[dict[str, Any]]
    unseen: list[dict[str, Any]]


def show(*, as_json: bool = False) -> int:
    """Print the table. Returns the exit code: 0, with or without jobs, and 1 if jobs cannot be listed."""
    try:
        check_proc()
    except ShmcollError as e:
        tell(f"shmrun: {e}")
        return 1
    with observer.jobs() as jobs:
        listed = [one for job in jobs if (one := _listed(job))]
    if as_json:
        print(json.dumps({"format": 1, "jobs": [asdict(one) for one in listed]}, indent=1))
    elif listed:
        rows = [("job", "nonce", "ranks", "age", "state", "command"), *map(_row, listed)]
        print("\n".join(aligned(rows, right=(0, 2, 3))))
    else:
        print("no jobs of this user")
    return 0


def _listed(job: observer.ObservedJob) -> Listed | None:
    try:
        found = job.standings()
        age = (time.monotonic_ns() - job.created) / 1e9
    except (ArenaError, OSError):
        return None  # it has just ended
    waiting = max((s.since for s in found if s.blames and s.since >= hang_report.PATIENCE), default=None)
    ended = [s.rank for s in found if s.state in (rank_status.ENDED, rank_status.GONE)]
    state = "ended" if ended else "runs"
    if waiting is not None:
        state = "waits"
    elif all(s.state == rank_status.ABSENT for s in found):
        state = "starts"
    return Listed(
        pid=job.creator,
        nonce=job.nonce,
        ranks=job.ranks,
        age=age,
        state=state,
        waiting=waiting,
        waits_for=sorted(hang_report.culprits(found)) if waiting is not None else [],
        ranks_ended=ended,
        command=command_of(job.creator) or next(filter(None, map(command_of, job.processes)), "?"),
        caller=job.caller,
        pids=list(job.processes),
        nodes=[{"node": one.facts.name, "ranks": sorted(one.numbers)} for one in job.nodes],
        unseen=[{"node": name or None, "ranks": count} for name, count in unseen(job.nodes)] if job.nodes else [],
    )


def _row(one: Listed) -> tuple[str, ...]:
    state = one.state
    if one.waiting is not None:
        whom = f" for {names(one.waits_for)}" if one.waits_for else ""
        state = f"waits {_duration(one.waiting)}{whom}"
    elif state == "ended":
        state = f"{names(one.ranks_ended)} ended"
    if one.nodes:
        hidden = sum(other["ranks"] for other in one.unseen)
        state += f" on {_nodes(one)}" + (f"; {hidden} of {one.ranks} ranks not seen" if hidden else "")
    return str(one.pid), one.nonce, str(one.ranks), _duration(one.age), state, one_line(one.command)


def _nodes(one: Listed) -> str:
    """Return 'node a' or 'nodes a, b', for the nodes that can be seen; of many, how many there are."""
    found = [node["node"] for node in one.nodes]
    if len(found) > _MOST_NODES:
        return f"{len(found)} nodes"
    return f"node{'s' * (len(found) > 1)} {', '.join(found)}"


def command_of(pid: int) -> str:
    """Return the command line of a process, without the interpreter and the path of what it runs; empty if it has no
    command.

    For the server of `shmcoll.run` it is the command line of the caller.
    """
    caller = observer.caller_of(pid)
    if caller is not None and caller != pid:
        return f"shmcoll.run: {command_of(caller) or 'its caller has ended'}"
    words = observer.command_line(pid)
    if "ipykernel_launcher" in words:
        return "notebook"
    if len(words) > 1 and os.path.basename(words[0]).startswith("python") and not words[1].startswith("-"):  # noqa: PTH119
        words = words[1:]
    text = " ".join([os.path.basename(word) for word in words[:1]] + words[1:])  # noqa: PTH119
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 3]}..."


def _duration(seconds: float) -> str:
    """Return a duration as '7 s', '3:05 min' or '2:03 h'."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"
