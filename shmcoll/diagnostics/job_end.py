"""Whether a job that is looked at from outside is over, and how it has ended.

The arena stays readable for a process that has it open. The process that starts the ranks writes last how each of them
has ended, so as long as it lives its records are waited for. Ranks of other launchers write records about themselves.
"""

from shmcoll.diagnostics.observer import ObservedJob
from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system.processes import has_ended

_OVER = (records.DEPARTED, records.FAILED)


def how_it_ended(job: ObservedJob) -> str | None:
    """Return why a job has failed; empty if it has ended well, None while it runs."""
    ends = [_of_node(arena) for arena in job.arenas]
    if None in ends:
        return None
    return next(filter(None, ends), "")


def _of_node(arena: Arena) -> str | None:
    creator = arena.load(layout.JOB_CREATOR)
    own = [records.read(arena, rank, layout.BY_RANK) for rank in range(arena.ranks)]
    told = [records.read(arena, rank, layout.BY_LAUNCHER) for rank in range(arena.ranks)]
    lives = not has_ended(creator, arena.load(layout.JOB_CREATOR_START))
    if lives and creator not in (record.pid for record in own):
        if any(record.state not in _OVER for record in told):
            return None
    elif any(
        not (a.state in _OVER or b.state in _OVER or has_ended(a.pid, a.start)) for a, b in zip(own, told, strict=True)
    ):
        return None
    failed = {
        rank
        for rank, (a, b) in enumerate(zip(own, told, strict=True))
        if (b.state or a.state) != records.DEPARTED  # killed, or never known to have ended
    }
    if not failed:
        return ""
    record = records.first_failure(Group.world(arena), failed)
    return record.text if record else f"rank {min(failed)} died"
