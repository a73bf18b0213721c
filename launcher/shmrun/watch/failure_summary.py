"""The summary at the end of a job, and its exit code. `shmcoll/startup/exits.py` determines which rank failed first.

The cause is printed last, because the last line is at the bottom of the screen. If the job has failed because the
reader of its output has ended (`shmrun ... | head`), nothing is printed, as for other programs that SIGPIPE ends.
"""

import os
import resource
import select
import signal

from shmcoll.engine.memory.group import names
from shmcoll.startup.exits import describe, first_failure, is_consequence, signal_name
from shmrun.cli.printing import tell
from shmrun.start.rank import Rank
from shmrun.watch.supervise import Outcome

TIMED_OUT = 124

_HINTS: dict[int, str] = {
    signal.SIGKILL: "perhaps by the kernel, for lack of memory: see dmesg",
    signal.SIGXCPU: "its processor time has reached the limit (ulimit -t)",
    signal.SIGPIPE: "the reader of a pipe or a socket has ended",
    signal.SIGBUS: "perhaps a mapped file was truncated, or its disk or /dev/shm is full",
    signal.SIGSEGV: "to see where, set PYTHONFAULTHANDLER=1",
    signal.SIGABRT: "to see where, set PYTHONFAULTHANDLER=1",
}


def speak(outcome: Outcome, remark: str, manner: str = "") -> int:
    """Print on stderr how the job failed, if it did. Returns its exit code.

    Args:
        outcome: of the job.
        remark: on its program.
        manner: what programs of its kind call such an end.
    """
    failed = outcome.failed
    if outcome.late:
        what = f"the limit of {outcome.timeout:g} s (--timeout) is over; still running: {names(outcome.late)}"
        return _say(outcome, [], what, TIMED_OUT)
    if outcome.interrupted and failed:
        others = [r for r in failed if not (_is_interrupt(r, outcome.interrupted) or is_consequence(outcome.arena, r))]
        return _say(outcome, others, f"interrupted by {signal_name(outcome.interrupted)}", 128 + outcome.interrupted)
    number = first_failure(outcome.arena, [rank.number for rank in failed])
    if number is None:
        return 128 + signal.SIGPIPE if outcome.has_lost_reader else int(outcome.has_lost_output)
    first = outcome.ranks[number]
    if _is_broken_pipe(first) and _has_lost_reader():
        return 128 + signal.SIGPIPE
    return _say(
        outcome, [r for r in failed if r is not first], _cause(outcome, first, remark, manner), _exit_code(first)
    )


def _say(outcome: Outcome, others: list[Rank], cause: str, code: int) -> int:
    lines: dict[str, list[int]] = {}
    for rank in others:
        lines.setdefault(_in_one_line(outcome, rank), []).append(rank.number)
    for line, ranks in lines.items():
        tell(f"{names(ranks)}: {line}")
    if os.environ.get("SHMCOLL_DUMP"):
        import shlex

        from shmcoll.diagnostics.job_dump import kept

        for folder in kept(outcome.arena):
            tell(f"shmrun: what the ranks did is in {folder}: shmrun verdict {shlex.quote(str(folder))}")
    tell(f"shmrun: {cause}")
    return code


def _cause(outcome: Outcome, rank: Rank, remark: str, manner: str) -> str:
    status, log = rank.status or 0, f"; it printed to {rank.log}" if rank.log else ""
    if rank.raised:
        text = rank.raised.text.rstrip()
        return f"rank {rank.number} failed first, with exit code {_exit_code(rank)}{manner}{log}:\n{text}"
    if status > 0:
        return f"rank {rank.number} failed first, with exit code {status}{manner}{log}{remark}"
    from shmcoll.diagnostics.rank_status import last_operation  # numpy comes with it, and BLAS before its variables

    said = (describe(status), last_operation(outcome.arena, rank.number), _hint(rank))
    return f"rank {rank.number} {'; '.join(filter(None, said))}{log}"


def _hint(rank: Rank) -> str:
    limit = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if rank.status == -signal.SIGKILL and limit != resource.RLIM_INFINITY and rank.processor_time > limit - 1:
        return f"its processor time has reached the limit of {limit} s (ulimit -t)"
    return _HINTS.get(-(rank.status or 0), "")


def _in_one_line(outcome: Outcome, rank: Rank) -> str:
    if rank.ended_by:
        late = f"did not end within {outcome.grace:g} s (--grace), ended by {signal_name(rank.ended_by)}"
        return f"{rank.raised.line} (and {late})" if rank.raised else late
    return rank.raised.line if rank.raised else describe(rank.status or 0)


def _exit_code(rank: Rank) -> int:
    """Return the exit code of a rank. A rank that raised an exception, but was too slow to end, counts as having
    raised."""
    status = rank.status or 0
    if rank.ended_by and rank.raised:
        return 1
    return status if status >= 0 else 128 - status


def _is_broken_pipe(rank: Rank) -> bool:
    return rank.status in (-signal.SIGPIPE, 128 + signal.SIGPIPE) or bool(rank.raised and rank.raised.is_broken_pipe)


def _has_lost_reader() -> bool:
    """Return whether the reader of standard output or standard error has ended."""
    poll = select.poll()
    for number in (1, 2):
        poll.register(number, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _is_interrupt(rank: Rank, signum: int) -> bool:
    return rank.status in (-signum, 128 + signum) or bool(rank.raised and rank.raised.is_interrupt)
