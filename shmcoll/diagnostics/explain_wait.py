"""The error of a wait without success, with where all ranks are now; the same is kept (`job_dump.py`)."""

from shmcoll.diagnostics import keeping
from shmcoll.diagnostics.hang_report import STACKS_PATIENCE, has_waits, stacks_of, table, verdict
from shmcoll.diagnostics.rank_status import standings
from shmcoll.diagnostics.report_lock import alone
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system.handlers import ignored


def explained(error: Exception, arena: Arena, group: Group | None = None, rank: int | None = None) -> Exception:
    """Return the error with a note: the table that shows where all ranks are now. `waits` of the error is the sentence
    below it, if there is a rank that waits.

    Only one rank at a time does this. If two asked for stacks at once, each would mistake some of them for those of
    another thread.

    Args:
        error: of the wait.
        arena: of the job.
        group: that ends by it; None: none does.
        rank: of the world, that has waited, if it is known.
    """
    with ignored(Exception), alone(arena, 2 * STACKS_PATIENCE):  # a failure here must not hide the error
        found = standings(arena)
        said, below = verdict(found, patience=0), stacks_of(found, STACKS_PATIENCE)
        error.add_note(f"{table(found, below)}\n{said}")
        error.waits = said if has_waits(found) else ""  # type: ignore[attr-defined]
        taken = keeping.take(arena, records.TIMED_OUT, str(error), rank=rank, group=group, found=found, below=below)
        keeping.keep(taken, say=error.add_note)
    return error
