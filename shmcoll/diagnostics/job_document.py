"""A job as a document for programs: `shmrun inspect --json`, and what is kept when it fails (`job_dump.py`).

Keys are described in docs/guide/shmrun.md. Keys may be added; a change of their meaning changes FORMAT.
"""

from typing import Any

from shmcoll.diagnostics.flight_log import flights
from shmcoll.diagnostics.hang_report import PATIENCE, culprits
from shmcoll.diagnostics.nodes_status import unseen
from shmcoll.diagnostics.observer import ObservedJob
from shmcoll.diagnostics.rank_status import RankStatus

FORMAT = 1
SHOWN = 8  # number of last operations


def document(
    job: ObservedJob,
    found: list[RankStatus],
    below: dict[int, list[str]] | None = None,
    *,
    last: int = 0,
    patience: float = PATIENCE,
) -> dict[str, Any]:
    """Return what is known of a job.

    Args:
        job: the job.
        found: the status of each rank.
        below: the stacks of ranks; None: these have not been asked.
        last: how many of the last operations of each rank and group are in it.
        patience: waits of up to so many seconds do not count.
    """
    operations = _operations(job, last) if last else {}
    blamed = culprits(found, patience)
    ranks: list[dict[str, Any]] = []
    for s in found:
        one = {
            "rank": s.rank,
            "node": s.node or None,
            "pid": s.pid or None,
            "state": s.state,
            "since": s.since if s.flight or s.message else None,
            "place": s.place,
            "call": s.call or None,
            "sequence": (s.flight.sequence or None) if s.flight else None,
            "group": list(s.group.ranks) if s.group else None,
            "waits_for": list(s.blames),
        }
        stack = {} if below is None else {"stack": below.get(s.rank, [])}
        ranks.append(one | stack | ({"last": operations.get(s.rank, [])} if last else {}))
    return {
        "format": FORMAT,
        "pid": job.creator,
        "nonce": job.nonce,
        "caller": job.caller,
        "ranks": ranks,
        "unseen": [{"node": name or None, "ranks": count} for name, count in unseen(job.nodes)] if job.nodes else [],
        "culprits": [{"rank": rank, "keeps_waiting": sorted(others)} for rank, others in blamed.items()],
        "verdict": job.verdict(found, patience),
    }


def _operations(job: ObservedJob, most: int) -> dict[int, list[dict[str, Any]]]:
    """Return the last operations of each rank."""
    told: dict[int, list[dict[str, Any]]] = {}
    for group in job.groups():
        for rank, world_rank in enumerate(group.ranks):
            told.setdefault(world_rank, []).extend(
                {
                    "call": flight.words(),
                    "sequence": flight.sequence,
                    "group": list(group.ranks),
                    "outcome": flight.outcome,
                    "since": flight.since,
                }
                for flight in flights(group, rank)[-most:]
            )
    return told
