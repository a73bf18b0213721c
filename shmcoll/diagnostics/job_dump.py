"""What is kept of a job that fails or hangs: SHMCOLL_DUMP, `shmrun --dump`. `shmrun verdict` reads it.

Each group that ends, and so the job, gets one folder, from whoever knows the reason first:

    DIR/ab12cd34/         the job: the beginning of its nonce, on this node
    DIR/ab12cd34-5e6f/    a group of some of its ranks
        job.json          everything that is known (`job_document.py`)
        rank_0, rank_1    the flight records of each rank for torch's analyser (`torch_trace.py`)

    a wait has timed out, a deadlock, a mismatch    the rank that reports it, before it ends the group
    an exception ends a rank                        that rank, before its peers learn of it
    a rank dies, the time limit of the job is over  the process that started the ranks; without one, a rank that has
                                                    lost its peer
    Ctrl-C while ranks wait                         the process that started the ranks

`take` reads what the ranks do. That changes as soon as they learn of the failure, so it comes before. `keep` writes,
which may take long, and so comes after. Making the folder decides who writes: it fails if the folder exists. job.json
gets its name last, so a folder without it is one whose writer was killed or had no room. Nothing that exists is written
to. An error here never hides the failure: it is one line.
"""

import json
import os
import platform
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

from shmcoll.diagnostics import job_document, torch_trace
from shmcoll.diagnostics.call_site import short_path
from shmcoll.diagnostics.hang_report import has_waits, stacks_of
from shmcoll.diagnostics.nodes_status import observed
from shmcoll.diagnostics.observer import ObservedJob, command_line
from shmcoll.diagnostics.rank_status import RankStatus, open_groups
from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system.handlers import ignored
from shmcoll.engine.system.text import printable, to_bytes
from shmcoll.engine.system.tracebacks import is_ours

VARIABLE = "SHMCOLL_DUMP"
FILE = "job.json"
TIME_LIMIT, INTERRUPT = "time limit", "interrupt"  # what ends a job besides the failures of ranks
_MOST = 16  # folders of one job
_LONGEST_COMMAND = 500
_DEEPEST = 12  # frames of a stack
_LAST = layout.FLIGHT_ENTRIES
_PACKAGES = ("shmcoll", "numpy", "numba", "llvmlite", "torch", "mpi4py")
_PRIVATE = ("SHMCOLL_ARENA",)  # variables that are no settings

#: what causes of records are called in the document
KINDS = {
    records.RAISED: "exception",
    records.EXITED: "exit",
    records.KILLED: "killed",
    records.TIMED_OUT: "timeout",
    records.MISMATCHED: "mismatch",
    records.INTERRUPTED: "interrupted",
    records.ABORTED: "aborted",
    records.BROKEN: "damaged",
    records.DEADLOCKED: "deadlock",
    records.VANISHED: "rank gone",
    records.RAISED_BECAUSE: "exception",
    records.EXITED_BECAUSE: "exit",
    records.ENDED_BECAUSE: "ended",
}
#: kinds whose text says everything; the waits of such ranks have ended
_WHOLE = (KINDS[records.MISMATCHED], KINDS[records.DEADLOCKED])


@dataclass(frozen=True)
class Taken:
    """What is known of a job, and where it is to be kept."""

    folder: Path
    document: dict[str, Any]
    traces: dict[int, bytes]


def take(
    arena: Arena,
    cause: str,
    text: str,
    *,
    rank: int | None = None,
    subject: bool = False,
    group: Group | None = None,
    found: list[RankStatus] | None = None,
    below: dict[int, list[str]] | None = None,
    patience: float = 0.0,
    trace: TracebackType | None = None,
    pids: Mapping[int, int] | None = None,
) -> Taken | None:
    """Return what ranks do now; None if nothing is to be kept, or is known, or if another process has kept it.

    Args:
        arena: of the job.
        cause: the kind of failure, one of the values of KINDS, TIME_LIMIT or INTERRUPT.
        text: what has happened, as a sentence without a full stop.
        rank: that of the world to which it has happened.
        subject: the text follows the name of that rank, as 'raised ValueError' does.
        group: that has ended by it; None: the whole job has.
        found: the status of the ranks, and
        below: their stacks, if these are known.
        patience: how many seconds the ranks have to give their stacks, if these are not known.
        trace: the traceback of the exception that ends `rank`: its stack.
        pids: those of ranks that have not joined, as far as they are known.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    with ignored(Exception):
        if not any(records.read(arena, one, layout.BY_RANK).state for one in range(arena.ranks)):
            return None  # no rank has joined
        folder = Path(given).absolute() / _name(arena, group)
        if folder.exists() or len(list(folder.parent.glob(f"{arena.nonce[:8]}*"))) >= _MOST:
            return None
        node = observed(arena)
        job = ObservedJob((arena,), (), (node,) if node else ())
        if found is None:
            found = job.standings()
        found = [replace(s, pid=s.pid or (pids or {}).get(s.rank, 0)) for s in found]
        if below is None:
            below = stacks_of(found, patience) if patience else {}
        if trace is not None and rank is not None:
            below[rank] = _frames(trace)
        if node and rank is not None:
            rank = node.numbers[rank]
        if subject:
            text = f"rank {rank} {text}"
        about = {
            "cause": {"kind": cause, "rank": rank, "text": printable(text)},
            "failures": _failures(arena),
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": platform.node(),
            "node": node.facts.name if node else None,
            "command": _command(job),
            "age": (time.monotonic_ns() - job.created) / 1e9,
            "groups": [list(one.ranks) for one in job.groups()],
            "settings": _settings(arena),
        }
        document = job_document.document(job, found, below, last=_LAST, patience=0) | about
        document["waits"] = has_waits(found) and cause not in _WHOLE
        traced = [_traced(number, one) for number, one in enumerate(job.groups())]
        return Taken(folder, document, torch_trace.traces([s.rank for s in found], traced, below))
    return None


def keep(taken: Taken | None, text: str = "") -> str:
    """Write it. Returns why it cannot be written, in one line; empty if it has been written, or if another process has
    done so. text: what is known by now of what has happened."""
    if taken is None:
        return ""
    taken.document["versions"] = _versions()
    document, words = taken.document, printable(text) or taken.document["cause"]["text"]
    document["cause"]["text"] = words
    begin = words[:1].upper() if words.startswith(("rank", "the ", "interrupted")) else words[:1]  # or a call
    verdict = f"{begin}{words[1:].rstrip('.')}."
    document["verdict"] = f"{verdict} {document['verdict']}" if document.pop("waits") else verdict
    try:
        taken.folder.parent.mkdir(parents=True, exist_ok=True)
        taken.folder.mkdir()
    except OSError as e:
        return "" if isinstance(e, FileExistsError) and taken.folder.is_dir() else _cannot(taken, e)
    try:
        inside = os.open(taken.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as e:
        return _cannot(taken, e)
    made: list[str] = []
    try:
        for rank, contents in taken.traces.items():
            _write(inside, f"rank_{rank}", contents, made)
        _write(inside, f".{FILE}", to_bytes(json.dumps(document, indent=1) + "\n"), made)
        os.rename(f".{FILE}", FILE, src_dir_fd=inside, dst_dir_fd=inside)
    except OSError as e:
        with ignored(OSError):  # room for the files of another process, which may try, too
            for name in made:
                os.unlink(name, dir_fd=inside)
            taken.folder.rmdir()
        return _cannot(taken, e)
    finally:
        os.close(inside)
    return ""


def kept(arena: Arena) -> list[Path]:
    """Return the folders that have been written about a job, in the order of their names."""
    given = os.environ.get(VARIABLE)
    if not given:
        return []
    with ignored(OSError):
        return sorted(path.parent for path in Path(given).absolute().glob(f"{arena.nonce[:8]}*/{FILE}"))
    return []


def _name(arena: Arena, group: Group | None) -> str:
    job = arena.nonce[:8]
    if group is None or group == Group.world(arena):
        return job
    return f"{job}-{arena.load(group.offset + layout.IDENTITY) & 0xFFFFFFFF:08x}"


def _write(folder: int, name: str, data: bytes, made: list[str]) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
    made.append(name)
    with open(fd, "wb") as file:
        file.write(data)


def _cannot(taken: Taken, error: OSError) -> str:
    return f"cannot keep what the ranks did in {str(taken.folder)!r} ({VARIABLE}): {error.strerror or error}"


def _frames(trace: TracebackType | None) -> list[str]:
    """Return the frames of a traceback as lines, the innermost first, without ours."""
    lines = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_ours(code.co_filename):
            lines.append(f"{short_path(code.co_filename)}:{trace.tb_lineno} in {printable(code.co_name)}")
        trace = trace.tb_next
    return lines[::-1][:_DEEPEST]


def _failures(arena: Arena) -> list[dict[str, Any]]:
    """Return the failures on record, the first one first (`records.first_failure`)."""
    found: dict[tuple[int, int, str], tuple[records.Record, list[int]]] = {}
    for group in open_groups(arena):
        for rank, world in enumerate(group.ranks):
            lives = (records.read(arena, world, by) for by in (layout.BY_RANK, layout.BY_LAUNCHER))
            for record in (*lives, records.ending(group, rank)):
                if record.state == records.FAILED:
                    found.setdefault((world, record.cause, record.text), (record, list(group.ranks)))
    ordered = sorted(found.values(), key=lambda one: (one[0].is_consequence, one[0].time))
    return [
        {
            "rank": record.rank,
            "kind": KINDS.get(record.cause, "unknown"),
            "text": printable(record.text),
            "group": group,
            "is_consequence": record.is_consequence,
            "since": max(time.monotonic_ns() - record.time, 0) / 1e9,
        }
        for record, group in ordered
    ]


def _traced(number: int, group: Group) -> torch_trace.Traced:
    return str(number), "default_pg" if number == 0 else f"group {number}", group.ranks, group


def _command(job: ObservedJob) -> str:
    words = command_line(job.caller or job.creator)
    return printable(shlex.join(words))[:_LONGEST_COMMAND]


def _settings(arena: Arena) -> dict[str, Any]:
    """Return the variables of ours that are set, and what the job has been made with."""
    variables = {name: value for name, value in os.environ.items() if name.startswith("SHMCOLL_")}
    return {
        "variables": {name: printable(value) for name, value in variables.items() if name not in _PRIVATE},
        "timeout": arena.load(layout.JOB_TIMEOUT) / 1e9,
        "cores": arena.load(layout.JOB_CORES),
        "heap_bytes": arena.load(layout.JOB_HEAP),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "kernel": platform.release(), "machine": platform.machine()}
    for name in _PACKAGES:
        with ignored(PackageNotFoundError):
            found[name] = version(name)
    return found
