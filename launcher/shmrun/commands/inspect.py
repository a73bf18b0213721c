"""`shmrun inspect`: where every rank of a running or hanging job stands, read from outside; the job takes no notice."""

import sys

from shmcoll.diagnostics import observer, rank_status
from shmcoll.diagnostics.flight_log import flights
from shmcoll.diagnostics.hang_report import inquest
from shmcoll.engine.system.processes import check_proc
from shmcoll.errors import ArenaError, ShmcollError

_SHOWN = 8  # of the last operations, with -v


def show(name: str | None, *, verbose: bool, stacks: bool) -> int:
    """Print what is known of the job that `name` means, or of the only one. Returns the exit code."""
    try:
        check_proc()
    except ShmcollError as e:
        print(f"shmrun: {e}", file=sys.stderr)
        return 1
    with observer.jobs() as jobs:
        meant = [job for job in jobs if name is None or job.is_meant(name)]
        if len(meant) != 1:
            print(f"shmrun: {_which(name, meant)}", file=sys.stderr)
            return 1
        job = meant[0]
        try:
            print(inquest(job.arena, stacks=stacks))
            if verbose:
                print("\n" + "\n".join(_history(job.arena)))
        except ArenaError as e:
            print(f"shmrun: cannot read job {job.creator}: {e}", file=sys.stderr)
            return 1
    return 0


def _which(name: str | None, meant: list[observer.ObservedJob]) -> str:
    if meant:
        return f"which job? {', '.join(str(job.creator) for job in meant)} (shmrun ps lists them)"
    if name is None:
        return "no jobs of this user"
    return f"no job {name} of this user; give the number that shmrun ps prints, the pid of a rank, or a nonce"


def _history(arena: observer.ObservedArena) -> list[str]:
    """The last operations of every rank of every group, the latest last."""
    lines = []
    for number, group in enumerate(rank_status.open_groups(arena)):
        if number:
            lines.append(f"group of {group.names(range(group.size))}:")
        for rank in range(group.size):
            lines.append(f"rank {group.ranks[rank]}, last operations:")
            for flight in flights(group, rank)[-_SHOWN:]:
                lines.append(f"  #{flight.sequence} {flight.words()}, {flight.outcome}, {flight.since:.1f} s ago")
    return lines
