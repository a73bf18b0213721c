"""`shmrun ps`: the jobs of this user, one line each, whoever started them."""

import os
import sys
import time
from pathlib import Path

from shmcoll.diagnostics import hang_report, observer, rank_status
from shmcoll.diagnostics.text_table import aligned
from shmcoll.engine import layout
from shmcoll.engine.memory.group import names
from shmcoll.engine.system.processes import check_proc
from shmcoll.errors import ArenaError, ShmcollError

_LONGEST_COMMAND = 60


def show() -> int:
    """Print the table; the exit code is 0, with or without jobs, and 1 when they cannot be looked for."""
    try:
        check_proc()
    except ShmcollError as e:
        print(f"shmrun: {e}", file=sys.stderr)
        return 1
    with observer.jobs() as jobs:
        rows = [row for job in jobs if (row := _row(job))]
    if not rows:
        print("no jobs of this user")
        return 0
    print("\n".join(aligned([("job", "nonce", "ranks", "age", "state", "command"), *rows], right=(0, 2, 3))))
    return 0


def _row(job: observer.ObservedJob) -> tuple[str, ...] | None:
    try:
        found = rank_status.standings(job.arena)
        age = (time.monotonic_ns() - job.arena.load(layout.JOB_CREATED)) / 1e9
    except (ArenaError, OSError):
        return None  # it has ended while we looked
    command = command_of(job.creator) or next(filter(None, map(command_of, job.processes)), "?")
    return str(job.creator), job.nonce, str(job.arena.ranks), _duration(age), _state(found), command


def _state(found: list[rank_status.RankStatus]) -> str:
    waiting = [s for s in found if s.blames and s.since >= hang_report.PATIENCE]
    if waiting:
        ranks = sorted(hang_report.culprits(found))
        whom = f" for {names(ranks)}" if ranks else ""
        return f"waits {_duration(max(s.since for s in waiting))}{whom}"
    if all(s.state == rank_status.ABSENT for s in found):
        return "starts"
    gone = [s.rank for s in found if s.state in (rank_status.ENDED, rank_status.GONE)]
    return f"{names(gone)} ended" if gone else "runs"


def command_of(pid: int) -> str:
    """The command line of a process, without the interpreter and the path of what it runs; empty if it has no command.

    For the server of `shmcoll.run`, that of its caller.
    """
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return ""
    if words[-4:-2] == ["-m", "shmcoll.runner"] and words[-1].isdigit() and int(words[-1]) != pid:
        return f"shmcoll.run: {command_of(int(words[-1])) or 'its caller has ended'}"
    if "ipykernel_launcher" in words:
        return "notebook"
    if len(words) > 1 and os.path.basename(words[0]).startswith("python") and not words[1].startswith("-"):  # noqa: PTH119
        words = words[1:]
    words[0] = os.path.basename(words[0])  # noqa: PTH119
    text = " ".join(words)
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 3]}..."


def _duration(seconds: float) -> str:
    """'7 s', '3:05 min', '2:03 h'."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"
