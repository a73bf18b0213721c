"""`shmrun inspect`: where every rank of a running or hanging job is, read from outside. The job is not disturbed."""

import json
from typing import Any

from shmcoll.diagnostics import observer
from shmcoll.diagnostics.flight_log import flights
from shmcoll.diagnostics.hang_report import culprits, stacks_of, table
from shmcoll.diagnostics.nodes_status import unseen
from shmcoll.engine.system.processes import check_proc
from shmcoll.errors import ArenaError, ShmcollError
from shmrun.cli.printing import tell

_SHOWN = 8  # number of last operations, with -v


def show(name: str | None, *, verbose: bool, stacks: bool, as_json: bool = False) -> int:
    """Print what is known of the job that `name` means, or of the only job. Returns the exit code."""
    try:
        check_proc()
    except ShmcollError as e:
        tell(f"shmrun: {e}")
        return 1
    with observer.jobs() as jobs:
        meant = [job for job in jobs if name is None or job.is_meant(name)]
        if len(meant) != 1:
            tell(f"shmrun: {_which(name, meant)}")
            return 1
        job = meant[0]
        try:
            if as_json:
                print(json.dumps(_document(job, verbose=verbose, stacks=stacks), indent=1))
                return 0
            found = job.standings()
            print(table(found, stacks_of(found) if stacks else {}))
            print(job.verdict(found))
            if verbose:
                print("\n" + "\n".join(_history(job)))
        except ArenaError as e:
            tell(f"shmrun: cannot read job {job.creator}: {e}")
            return 1
    return 0


def _document(job: observer.ObservedJob, *, verbose: bool, stacks: bool) -> dict[str, Any]:
    """Return the table as JSON. call, sequence: those of the last operation. since: seconds since it began, or since it
    ended if the rank is outside."""
    found = job.standings()
    below = stacks_of(found) if stacks else {}
    last = _operations(job) if verbose else {}
    ranks: list[dict[str, Any]] = []
    for s in found:
        one = {
            "rank": s.rank,
            "node": s.node or None,
            "pid": s.pid or None,
            "state": s.state,
            "since": s.since if s.flight or s.message else None,
            "call": s.call or None,
            "sequence": (s.flight.sequence or None) if s.flight else None,
            "group": list(s.group.ranks) if s.group else None,
            "waits_for": list(s.blames),
        }
        ranks.append(
            one | ({"stack": below.get(s.rank, [])} if stacks else {}) | ({"last": last[s.rank]} if verbose else {})
        )
    culprits_found = [{"rank": rank, "keeps_waiting": sorted(others)} for rank, others in culprits(found).items()]
    return {
        "format": 1,
        "pid": job.creator,
        "nonce": job.nonce,
        "caller": job.caller,
        "ranks": ranks,
        "unseen": [{"node": name or None, "ranks": count} for name, count in unseen(job.nodes)] if job.nodes else [],
        "culprits": culprits_found,
        "verdict": job.verdict(found),
    }


def _which(name: str | None, meant: list[observer.ObservedJob]) -> str:
    if meant:
        return f"which job? {', '.join(str(job.creator) for job in meant)} (shmrun ps lists them)"
    if name is None:
        return "no jobs of this user"
    names = "the number that shmrun ps prints, the pid of a rank or of the caller of shmcoll.run, or a nonce"
    return f"no job {name} of this user; give {names}"


def _history(job: observer.ObservedJob) -> list[str]:
    """Return the last operations of every rank of every group, the latest last. Over nodes, it is every group within a
    node."""
    lines = []
    for number, group in enumerate(job.groups()):
        if number or job.nodes:
            lines.append(f"group of {group.names(range(group.size))}:")
        for rank in range(group.size):
            lines.append(f"rank {group.ranks[rank]}, last operations:")
            for flight in flights(group, rank)[-_SHOWN:]:
                lines.append(f"  #{flight.sequence} {flight.words()}, {flight.outcome}, {flight.since:.1f} s ago")
    return lines


def _operations(job: observer.ObservedJob) -> dict[int, list[dict[str, Any]]]:
    """Return the last operations of each rank as JSON."""
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
                for flight in flights(group, rank)[-_SHOWN:]
            )
    return told
