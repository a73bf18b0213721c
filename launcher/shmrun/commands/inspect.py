"""`shmrun inspect`: where every rank of a running or hanging job is, read from outside. The job is not disturbed."""

import json
from pathlib import Path

from shmcoll.diagnostics import observer
from shmcoll.diagnostics.flight_log import flights
from shmcoll.diagnostics.hang_report import stacks_of, table
from shmcoll.diagnostics.job_document import SHOWN, document
from shmcoll.engine.system.processes import check_proc
from shmcoll.errors import ArenaError, ShmcollError
from shmrun.cli.printing import interruptible, tell


def show(name: str | None, *, verbose: bool, stacks: bool, as_json: bool = False, seconds: float | None = None) -> int:
    """Print what is known of the job that `name` means, or of the only job. Returns the exit code.

    seconds: how often it is printed again, until the job ends; None: it is printed once.
    """
    try:
        check_proc()
    except ShmcollError as e:
        tell(f"shmrun: {e}")
        return 1
    unreadable: dict[int, str] = {}
    with interruptible(), observer.jobs(unreadable) as jobs:
        meant = [job for job in jobs if name is None or job.is_meant(name)]
        if len(meant) != 1:
            tell(f"shmrun: {_which(name, meant)}{_not_read(unreadable)}")
            return 1
        job = meant[0]
        try:
            if seconds is not None:
                from shmrun.commands import watch

                return watch.watch(job, seconds, verbose=verbose, stacks=stacks, as_json=as_json)
            found = job.standings()
            below = stacks_of(found) if stacks else None
            if as_json:
                print(json.dumps(document(job, found, below, last=SHOWN if verbose else 0), indent=1))
                return 0
            print(table(found, below))
            print(job.verdict(found))
            if verbose:
                print("\n" + "\n".join(history(job)))
        except ArenaError as e:
            tell(f"shmrun: cannot read job {job.creator}: {e}")
            return 1
    return 0


def _which(name: str | None, meant: list[observer.ObservedJob]) -> str:
    if meant:
        return f"which job? {', '.join(str(job.creator) for job in meant)} (shmrun ps lists them)"
    if name is None:
        return "no jobs of this user"
    names = "the number that shmrun ps prints, the pid of a rank or of the caller of shmcoll.run, or a nonce"
    return f"no job {name} of this user; give {names}"


def _not_read(unreadable: dict[int, str]) -> str:
    """Return which processes belong to jobs that cannot be read, to follow that no job is meant."""
    living = [pid for pid in sorted(unreadable) if Path(f"/proc/{pid}").exists()]
    return f". The job of process {living[0]} cannot be read: {unreadable[living[0]]}" if living else ""


def history(job: observer.ObservedJob) -> list[str]:
    """Return the last operations of every rank of every group, the latest last. Over nodes, it is every group within a
    node."""
    lines = []
    for number, group in enumerate(job.groups()):
        if number or job.nodes:
            lines.append(f"group of {group.names(range(group.size))}:")
        for rank in range(group.size):
            lines.append(f"rank {group.ranks[rank]}, last operations:")
            for flight in flights(group, rank)[-SHOWN:]:
                lines.append(f"  #{flight.sequence} {flight.words()}, {flight.outcome}, {flight.since:.1f} s ago")
    return lines
