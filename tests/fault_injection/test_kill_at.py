"""A rank killed before its k-th operation on shared words, for every k: the survivors name it, and soon.

The victim runs the routines' source as plain Python (`engine/fault_injection.py`), the survivors run compiled code.
"""

import re
import signal
import time
from typing import Any

import pytest

from shmcoll.errors import RankFailed
from tests.support import switches
from tests.support.calls import COMPOSITE, EAGER, SHORT, barrier

pytestmark = pytest.mark.slow

SOON = 1.0  # seconds from a survivor's call, which began before the kill, to its error
CALLS = SHORT | COMPOSITE | EAGER
CASES = [(n, operation) for n in (2, 3) for operation in SHORT] + [(2, operation) for operation in COMPOSITE]
USUAL = [
    pytest.param(*case, marks=() if case[0] == 3 and i % 4 == 1 else pytest.mark.stress) for i, case in enumerate(CASES)
] + [(3, operation) for operation in EAGER]
CASES += [(n, operation) for n in (2, 3) for operation in EAGER]
LONGEST = 2000  # operations on shared words that no call here comes near


def call_until_it_fails(comm: Any, operation: str, victim: int) -> tuple[float, str] | None:
    """The victim calls once, and then a barrier with all; so do survivors, which tell how the group ended."""
    begun = time.monotonic()
    try:
        for call in (CALLS[operation], barrier):
            begun = time.monotonic()
            call(comm)
    except RankFailed as error:
        assert comm.rank != victim
        return time.monotonic() - begun, str(error)
    return None


def kill_at(ranks: Any, allowed: Any, n: int, operation: str, victim: int, k: int, tell: bool) -> list[float] | None:
    """After how many seconds the survivors knew; None when the victim has got through before its k-th operation."""
    environment = switches.fault(victim, "kill", k)
    outcomes = ranks.outcomes(n, call_until_it_fails, operation, victim, environment=environment, tell=tell)
    if outcomes[victim].status == 0:
        assert [(o.status, o.value) for o in outcomes] == [(0, None)] * n, [o.traceback for o in outcomes]
        return None
    assert outcomes[victim].status == -signal.SIGKILL, outcomes[victim].traceback
    seconds = []
    for outcome in outcomes:
        if outcome.rank == victim:
            continue
        assert outcome.error is None, f"killed at operation {k}: {outcome.traceback}"
        if outcome.value is None:
            continue  # the victim had published all that this one needed
        late, text = outcome.value
        assert f"rank {victim} " in text.partition(": ")[2], f"killed at operation {k}: {text}"
        assert late < allowed(SOON), f"killed at operation {k}: known after {late} s"
        seconds.append(late)
    return seconds


def operations(ranks: Any, n: int, operation: str, victim: int) -> int:
    """About how many operations the victim makes: it varies with whom it waits for."""
    counts = ranks(n, count_operations, operation, environment=switches.fault(victim, "stop", 1 << 40))
    return counts[victim]


def count_operations(comm: Any, operation: str) -> int:
    CALLS[operation](comm)
    barrier(comm)
    return switches.operations()


@pytest.mark.parametrize(("n", "operation"), USUAL)
def test_killed_at_some_operations(ranks: Any, allowed: Any, seed: int, n: int, operation: str) -> None:
    """A first one, the last one, and some between; past the last, all get through."""
    victim = seed % n
    last = operations(ranks, n, operation, victim)
    assert 10 < last < LONGEST
    some = sorted({1, 2, *range(3 + seed % 11, last, max(last // 5, 1)), last - 5})
    known = [kill_at(ranks, allowed, n, operation, victim, k, (k + seed) % 2 == 0) for k in some]
    assert (
        sum(bool(seconds) for seconds in known) >= 3
    )  # what it waits for varies, and so does the number of operations
    assert kill_at(ranks, allowed, n, operation, victim, 100 * LONGEST, True) is None


@pytest.mark.stress
@pytest.mark.parametrize(("n", "operation"), CASES)
def test_killed_at_every_operation(ranks: Any, allowed: Any, seed: int, n: int, operation: str) -> None:
    for victim in range(n):
        seconds: list[float] = []
        for k in range(1, LONGEST):
            known = kill_at(ranks, allowed, n, operation, victim, k, k % 2 == 0)
            if known is None:
                break
            seconds += known
        print(f"{operation}, {n} ranks, rank {victim} killed at each of {k - 1} operations: max {max(seconds):.3f} s")
        assert k > 10


def test_a_misspelt_fault_is_refused(ranks: Any) -> None:
    text = "SHMCOLL_FAULTS='0:die@3': '0:die@3' is not a fault; give RANK:kill@K"
    with pytest.raises(ValueError, match=re.escape(text)):
        ranks.outcomes(1, count_operations, "barrier", environment=switches.fault(0, "die", 3))
