"""Ranks that do what they are told, command by command: for tests that decide as they go."""

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tests.support.ranks import Job


class Servants:
    """`n` ranks, each of which waits for commands; `tell` gives all of them one and returns their answers."""

    def __init__(self, n: int):
        pairs = [multiprocessing.Pipe() for _ in range(n)]
        self._ends = [ours for ours, _ in pairs]
        self._job = Job(n, serve, ([theirs for _, theirs in pairs],), timeout=20)
        for _, theirs in pairs:
            theirs.close()

    def tell(self, commands: dict[int, tuple]) -> dict[int, Any]:
        """Commands by rank, carried out at the same time; answers by rank. An error comes back as its text."""
        for rank, command in commands.items():
            self._ends[rank].send(command)
        answers = {}
        for rank in commands:
            if not self._ends[rank].poll(30):
                self._job._fail(f"rank {rank} has not answered {commands[rank]}")
            answers[rank] = self._ends[rank].recv()
        return answers

    def dismiss(self) -> None:
        """End the ranks; they must all do so in order."""
        for end in self._ends:
            end.send(None)
        try:
            outcomes = self._job.finish()
            assert all(o.error is None and o.status == 0 for o in outcomes), [o.traceback for o in outcomes]
        finally:
            self._job.kill()
            for end in self._ends:
                end.close()


def serve(comm: Any, ends: list[Connection]) -> None:
    """In a rank: carry out commands until None comes. Groups have names; the world's is ''."""
    groups: dict[str, Any] = {"": comm}
    pending: dict[Any, Any] = {}
    plans: dict[Any, Any] = {}
    while (command := ends[comm.rank].recv()) is not None:
        what, name, *rest = command
        try:
            if what == "split":
                groups[rest[0]] = groups[name].split(*rest[1:])
                answer = groups[rest[0]] and groups[rest[0]].ranks
            elif what == "subgroup":
                groups[rest[0]] = groups[name].subgroup(rest[1])
                answer = groups[rest[0]].ranks
            elif what == "close":
                groups.pop(name).close()
                answer = None
            elif what == "wait":
                answer = pending.pop(name).wait()
            elif what == "start":
                pending[rest[0]] = getattr(groups[name], rest[1])(*rest[2], **rest[3], async_op=True)
                answer = None
            elif what == "plan":
                plans[rest[0]] = groups[name].plan(rest[1], rest[2], *rest[3]), rest[2]
                answer = None
            elif what == "run":
                plan, x = plans[name]
                x[...] = rest[0]
                answer = plan.start().wait() if rest[1] else plan()
            else:
                answer = getattr(groups[name], what)(*rest[0], **rest[1])
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        ends[comm.rank].send([part.copy() if isinstance(part, np.ndarray) else part for part in answer]
                             if isinstance(answer, tuple) else answer)  # fmt: skip
