"""A rank stopped before its k-th operation on shared words: slow where it goes on in time, else named at the limit.

The victim runs the routines' source as plain Python (`engine/fault_injection.py`), the others run compiled code.
SIGSTOP leaves its process alive, so that neither a launcher's word nor a pidfd can tell: only the limit of a wait.
"""

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmcoll.errors import CollectiveTimeout
from tests.support import switches
from tests.support.calls import EAGER, SHORT, barrier
from tests.support.ranks import Job

pytestmark = pytest.mark.slow

LIMIT = 0.5  # seconds of one wait
SOON = 2.0  # seconds after the limit by which all know; promised: 0.2, the rest is for a busy machine
LONGEST = 2000  # operations on shared words that no call here comes near
CASES = [(2, "barrier"), (3, "all_reduce"), (3, "gather_v"), (3, "eager broadcast"), (3, "eager scan")]
NEVER = 1 << 40


def call_until_the_limit(comm: Any, board: np.ndarray, operation: str, victim: int, limit: float) -> Any:
    """A call, and a barrier with all. Who gives up: from when on it had waited, when it knew, and what it was told."""
    if comm.rank != victim:
        comm.timeout = limit
    begun = time.monotonic()
    try:
        for call in ((SHORT | EAGER)[operation], barrier):
            begun = time.monotonic()
            call(comm)
    except CollectiveTimeout as error:
        return begun, time.monotonic(), str(error), getattr(error, "__notes__", [])
    finally:
        board[comm.rank] = 1
    return switches.operations() if comm.rank == victim else None


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def stop_at(ranks: Any, board: np.ndarray, n: int, operation: str, victim: int, k: int, limit: float) -> Job | None:
    """The job, as soon as its victim is stopped; None when it has got through before its k-th operation."""
    board[:n] = 0
    environment = switches.fault(victim, "stop", k)
    job: Job = ranks.start(n, call_until_the_limit, board, operation, victim, limit, environment=environment)
    job.until(lambda: is_stopped(job.pids[victim]) or board[victim], f"rank {victim} stops at {k}")
    if not board[victim]:
        return job
    assert all(outcome.error is None for outcome in job.finish())
    return None


def operations(ranks: Any, board: np.ndarray, n: int, operation: str, victim: int) -> int:
    """About how many operations the victim makes: it varies with whom it waits for."""
    environment = switches.fault(victim, "stop", NEVER)
    return int(ranks(n, call_until_the_limit, board, operation, victim, 20.0, environment=environment)[victim])


def go_on_in_time(ranks: Any, board: np.ndarray, n: int, operation: str, victim: int, k: int) -> bool:
    """Whether it has stopped at all; then it goes on when the others have waited for a while. No rank may object."""
    job = stop_at(ranks, board, n, operation, victim, k, 20.0)
    if job is None:
        return False
    job.until(lambda: all(job.parked(r) or board[r] for r in range(n) if r != victim), "the others wait")
    os.kill(job.pids[victim], signal.SIGCONT)
    for outcome in job.finish():  # the calls compare their results themselves
        assert outcome.error is None, f"stopped at {k}: {outcome.traceback}"
        assert not isinstance(outcome.value, tuple), f"stopped at {k}: {outcome.value}"
    return True


def stay(ranks: Any, board: np.ndarray, allowed: Any, n: int, operation: str, victim: int, k: int) -> float | None:
    """How many seconds after the limit the last rank knew; None when nobody needed the victim any more."""
    job = stop_at(ranks, board, n, operation, victim, k, LIMIT)
    if job is None:
        return None
    stopped = time.monotonic()
    job.until(lambda: all(board[r] for r in range(n) if r != victim), f"all give up, with rank {victim} stopped at {k}")
    os.kill(job.pids[victim], signal.SIGCONT)
    outcomes = job.finish()
    assert all(outcome.error is None for outcome in outcomes), [outcome.traceback for outcome in outcomes]
    told = [o.value for o in outcomes if o.rank != victim and o.value is not None]
    if not told:
        return None
    # Who gives up first has waited for so long; it ends the group for those that have waited for less
    assert max(knew - begun for begun, knew, *_ in told) >= LIMIT, f"stopped at {k}: given up early"
    late = max(knew - max(begun, stopped) for begun, knew, *_ in told) - LIMIT
    assert late < allowed(SOON), f"stopped at {k}: known {late} s after the limit"
    for _, _, text, _ in told:
        assert blamed(text) == {victim}, f"stopped at {k}: {text}"
    notes = [note for *_, notes in told for note in notes]
    assert len(notes) == 1, f"stopped at {k}: {len(notes)} of the ranks show where all are"
    assert notes[0].splitlines()[-1].startswith(f"Rank {victim} keeps rank"), notes[0]
    assert "its process is stopped" in notes[0], notes[0]
    return late


def blamed(text: str) -> set[int]:
    """The ranks that a message complains about, without those of which it says that they wait for another one."""
    told = r"rank (\d+) (?:did not arrive(?! \([^;]*, waits for rank)|arrived but|at \S+ this rank was)"
    return {int(rank) for rank in re.findall(told, text)}


def some_of(last: int, seed: int) -> list[int]:
    """A first one, and some up to the last."""
    return [1, *range(2 + seed % 7, last, max(last // 3, 1))]


@pytest.mark.parametrize(("n", "operation"), CASES)
def test_stopped_and_let_go_on_at_some_operations(
    ranks: Any, board: np.ndarray, seed: int, n: int, operation: str
) -> None:
    victim = seed % n
    last = operations(ranks, board, n, operation, victim)
    assert 10 < last < LONGEST
    assert sum(go_on_in_time(ranks, board, n, operation, victim, k) for k in some_of(last, seed)) >= 2
    assert not go_on_in_time(ranks, board, n, operation, victim, 100 * LONGEST)


@pytest.mark.parametrize(("n", "operation"), CASES)
def test_stopped_for_good_at_some_operations(
    ranks: Any, board: np.ndarray, allowed: Any, seed: int, n: int, operation: str
) -> None:
    victim = seed % n
    last = operations(ranks, board, n, operation, victim)
    late = [stay(ranks, board, allowed, n, operation, victim, k) for k in some_of(last, seed)[:3]]
    assert any(late)


@pytest.mark.stress
@pytest.mark.parametrize(("n", "operation"), [(n, operation) for n in (2, 3) for operation in SHORT])
def test_stopped_at_every_operation(ranks: Any, board: np.ndarray, allowed: Any, n: int, operation: str) -> None:
    for victim in range(n):
        late = []
        for k in range(1, LONGEST):
            known = stay(ranks, board, allowed, n, operation, victim, k)
            if not go_on_in_time(ranks, board, n, operation, victim, k):
                break
            late += [known] if known is not None else []
        told = f"{operation}, {n} ranks, rank {victim} stopped at each of {k - 1} operations"
        print(f"{told}: named {len(late)} times, {min(late):.3f} to {max(late):.3f} s after the limit of {LIMIT} s")
        assert k > 10
