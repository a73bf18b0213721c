"""Many cases in one job: starting ranks is what costs, and a group that has not failed can go on.

A case is a name and a function of a communicator that returns what is wrong, '' when nothing is. All ranks run the same
cases in the same order, built from the same seed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from shmcoll.errors import ShmcollError
from tests.support import tally

Case = tuple[str, Callable[[Any], str]]


def in_turn(rng: np.random.Generator, values: Sequence[Any], times: int) -> list[Any]:
    """So many of the values, in an order of chance: each once before any comes again."""
    order = rng.permutation(len(values))
    return [values[order[i % len(values)]] for i in range(times)]


def run_cases(comm: Any, cases: Iterable[Case]) -> tuple[int, list[str]]:
    """Run them all; returns how many ran, and which failed in what way. An error of the group ends the run."""
    ran, failures = 0, []
    for name, check in cases:
        ran += 1
        try:
            wrong = check(comm)
        except ShmcollError as error:
            failures.append(f"rank {comm.rank}: {name}: {type(error).__name__}: {error}")
            break
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            failures.append(f"rank {comm.rank}: {name}: {wrong}")
    return ran, failures


def judge(results: list[tuple[int, list[str]]], at_least: int = 1) -> None:
    """Fail with the first failures of every rank; fail too when suspiciously few cases ran."""
    failures = [text for _, told in results for text in told[:5]]
    assert not failures, "\n".join(failures)
    ran = min(ran for ran, _ in results)
    assert ran >= at_least
    tally.count("cases of collectives, each compared with == on all ranks", ran)
