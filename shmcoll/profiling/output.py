"""What becomes of the profiles at the end of a job: a file with the timeline, and statistics as text or as a file.

Who writes. The launcher, if it is shmrun or the server of `shmcoll.run`, when all ranks have ended: it maps the arena.
Under other launchers the last rank to leave. Each rank notes first that it leaves; then ranks look one after the other,
by a lock on the arena's file. The first that finds that all others have left or died notes that it writes. Nobody waits
for a rank with this lock for more than a second.

A file that cannot be written is reported in a line, and changes nothing else: a job that has computed for hours does
not fail because of its timeline.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from shmcoll.diagnostics.report_lock import alone
from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.node_words import read_facts
from shmcoll.engine.system.processes import has_ended
from shmcoll.engine.system.text import show
from shmcoll.profiling import asked, timeline
from shmcoll.profiling.reading import profiles
from shmcoll.profiling.statistics import statistics

_WRITERS = ("shmrun", "shmcoll.run")  # launchers that write by themselves
_PATIENCE = 1.0  # seconds
_WRITES = 2  # in the word by which a rank notes that it leaves, which is 1 in ranks that do not write


def publish(arena: Arena, trace: str | None, stats: bool | str) -> Iterator[str]:
    """Write what the ranks of a job have recorded.

    Args:
        arena: of the job.
        trace: the file for the timeline, or None.
        stats: the file for the statistics as JSON; True: as text.

    Yields:
        What to tell the user: the statistics, where the timeline is, what could not be written.
    """
    if not (trace or stats):
        return
    found = profiles(arena)
    if (facts := read_facts(arena)) and facts.node:
        trace = trace and _of_node(trace, facts.node)
        stats = _of_node(stats, facts.node) if isinstance(stats, str) else stats
    if stats is True:
        yield str(statistics(found))
    elif stats:
        try:
            statistics(found).write_json(stats)
        except OSError as e:
            yield f"cannot write the statistics {stats!r} (--stats): {e.strerror or e}"
    if trace:
        try:
            timeline.write(trace, found)
        except OSError as e:
            yield f"cannot write the timeline {trace!r} (--trace): {e.strerror or e}"
        else:
            dropped = sum(one.dropped for one in found)
            lost = f"; there was no room for {dropped:,} earlier calls" if dropped else ""
            yield f"the timeline is in {trace!r}: open it at ui.perfetto.dev or chrome://tracing{lost}"


def _of_node(file: str, node: int) -> str:
    """Return the name of a file for another node than the first: each node has an arena of its own."""
    path = Path(file)
    name, _, suffixes = path.name.partition(".")
    return str(path.with_name(f"{name}.node{node}" + f".{suffixes}" * bool(suffixes)))


def tell(name: str, said: Iterable[str]) -> None:
    """Print on standard error what `publish` has yielded. name: of the program that says it."""
    for text in said:
        if sys.stderr:
            show(sys.stderr, f"{text}\n" if "\n" in text else f"{name}: {text}\n")


def publish_if_last(arena: Arena, rank: int, launcher: str) -> None:
    """Write what all ranks have recorded, if this one, which has noted that it leaves, is the last. launcher: its
    name."""
    trace, stats = asked.take()
    if launcher in _WRITERS or not (trace or stats):
        return
    with alone(arena, _PATIENCE):
        left = [arena.load(_left(arena, other)) for other in range(arena.ranks)]
        if _WRITES in left or not all(has_left or _has_ended(arena, other) for other, has_left in enumerate(left)):
            return
        arena.store(_left(arena, rank), _WRITES)
    tell("shmcoll", publish(arena, trace, stats))


def _left(arena: Arena, rank: int) -> int:
    """Return the offset of the word by which a rank notes that it leaves."""
    return Group.world(arena).mailbox(rank) + layout.STATISTICS_LEFT


def _has_ended(arena: Arena, rank: int) -> bool:
    record = records.read(arena, rank, layout.BY_RANK)
    return has_ended(record.pid, record.start)
