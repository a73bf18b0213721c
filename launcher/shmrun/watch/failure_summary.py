"""Which rank failed first, the last words, and the exit code.

Failures come in a cascade: one rank raises or dies, the others get `RankFailed` and may end sooner than it does. The
first failure is the earliest of those that are no consequence of another. When a rank failed is told by its report, by
the record that it wrote about itself, and by when its end was seen: the earliest of these counts. A consequence is an
exception with a `RankFailed` behind it, a rank that found a peer gone, or an end that shmrun itself brought about.
Where all are consequences (a rank left with exit code 0 and was still needed) the earliest of them is the first.

The cause is printed last, because that is what stands at the bottom of the screen.
"""

import signal
import sys

from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmrun.watch.rank import Rank, describe, signal_name
from shmrun.watch.supervise import Outcome

TIMED_OUT = 124

_HINTS: dict[int, str] = {
    signal.SIGKILL: "perhaps by the kernel, for lack of memory: see dmesg",
    signal.SIGPIPE: "whoever should read its output has gone",
    signal.SIGBUS: "perhaps a mapped file was truncated, or its disk or /dev/shm is full",
    signal.SIGSEGV: "to see where, set PYTHONFAULTHANDLER=1",
    signal.SIGABRT: "to see where, set PYTHONFAULTHANDLER=1",
}


def speak(outcome: Outcome) -> int:
    """Say on stderr how the job failed, if it did; return its exit code."""
    failed = outcome.failed
    if outcome.late:
        what = f"the limit of {outcome.timeout:g} s (--timeout) is over; still running: {_names(outcome.late)}"
        return _say(outcome, [], what, TIMED_OUT)
    if not failed:
        return 0
    if outcome.interrupted:
        others = [r for r in failed if not (_is_interrupt(r, outcome.interrupted) or _is_consequence(outcome, r))]
        return _say(outcome, others, f"interrupted by {signal_name(outcome.interrupted)}", 128 + outcome.interrupted)
    first = min(failed, key=lambda rank: (_is_consequence(outcome, rank), _when(outcome, rank)))
    return _say(outcome, [r for r in failed if r is not first], _cause(first), _exit_code(first))


def _say(outcome: Outcome, others: list[Rank], cause: str, code: int) -> int:
    lines: dict[str, list[int]] = {}
    for rank in others:
        lines.setdefault(_in_one_line(outcome, rank), []).append(rank.number)
    for line, ranks in lines.items():
        print(f"{_names(ranks)}: {line}", file=sys.stderr)
    print(f"shmrun: {cause}", file=sys.stderr)
    return code


def _cause(rank: Rank) -> str:
    status, log = rank.status or 0, f"; it printed to {rank.log}" if rank.log else ""
    if rank.report:
        text = rank.report.text.rstrip()
        return f"rank {rank.number} failed first, with exit code {_exit_code(rank)}{log}:\n{text}"
    if status > 0:
        return f"rank {rank.number} failed first, with exit code {status}{log}"
    hint = _HINTS.get(-status)
    return f"rank {rank.number} {describe(status)}" + (f"; {hint}" if hint else "") + log


def _in_one_line(outcome: Outcome, rank: Rank) -> str:
    if rank.ended_by_us:
        late = f"did not end within {outcome.grace:g} s (--grace), ended by {signal_name(rank.ended_by_us)}"
        return f"{rank.report.line} (and {late})" if rank.report else late
    return rank.report.line if rank.report else describe(rank.status or 0)


def _exit_code(rank: Rank) -> int:
    """A rank that raised, but was then too slow to end, still counts as having raised."""
    status = rank.status or 0
    if rank.ended_by_us and rank.report:
        return 1
    return status if status >= 0 else 128 - status


def _when(outcome: Outcome, rank: Rank) -> int:
    times = [rank.ended]
    if rank.report:
        times.append(rank.report.time)
    return min(times + [told.time for told in _own_failures(outcome, rank)])


def _is_consequence(outcome: Outcome, rank: Rank) -> bool:
    if rank.report:
        return rank.report.secondary
    if rank.ended_by_us or (rank.status or 0) < 0:
        return bool(rank.ended_by_us)
    # No report: the program has a hook of its own, or caught the error and chose an exit code.
    failures = _own_failures(outcome, rank)
    return any(told.cause == records.VANISHED or "raised RankFailed" in told.text for told in failures)


def _own_failures(outcome: Outcome, rank: Rank) -> list[records.Record]:
    return records.own_failures(Group.world(outcome.arena), rank.number)


def _is_interrupt(rank: Rank, signum: int) -> bool:
    return rank.status in (-signum, 128 + signum) or bool(rank.report and rank.report.interrupt)


def _names(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
