"""Exceptions of signal handlers before any instruction of a call and of its clean-up, one alone and several in a row.

Whatever they interrupt, the next call works, and no process, descriptor or memory is left.
"""

import os
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shmcoll
from shmcoll.runner import api
from tests.support import instants, leaks, sparks

PACKAGE = Path(shmcoll.__file__).parent / "runner"
FILES = tuple(PACKAGE / f"{name}.py" for name in ("api", "client", "outgoing", "pool", "protocol", "turns"))


class Interrupt(BaseException):
    """What Ctrl-C would raise."""


def interrupt() -> None:
    raise Interrupt


def interrupted(call: Callable[[], Any], step: int, again: tuple[int, ...]) -> bool:
    """Make the call, interrupted. Returns whether it was."""
    try:
        return sparks.run(call, step, FILES, interrupt, again)
    except Interrupt:
        return True


def run() -> None:
    assert shmcoll.run(abs, 1, -3) == [3]


def start_and_run() -> None:
    api.shutdown()
    run()


def use_ranks() -> None:
    with shmcoll.ranks(1) as ranks:
        assert ranks.run(abs, -3) == [3]


def map_items() -> None:
    assert shmcoll.map(abs, [-1, 2], n=1) == [1, 2]


def check(call: Callable[[], None], draw: random.Random, times: int) -> None:
    api.shutdown()
    before = leaks.snapshot()
    run()
    number = instants.interrupted_at(0, call, lambda name: Path(name) in FILES)
    steps = range(1, 1 + number)
    for turn, step in enumerate(draw.sample(steps, min(times, number))):
        again = tuple(draw.randrange(1, 60) for _ in range(turn % 4))
        print(f"before instruction {step} of {number}, and {again} later")
        interrupted(call, step, again)
        call()
    api.shutdown()
    assert leaks.left_since(before) == []


# What an exception keeps from being closed at once is closed with the traceback
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CALLS = [run, use_ranks, *(pytest.param(one, marks=pytest.mark.slow) for one in (start_and_run, map_items))]


@pytest.mark.parametrize("call", CALLS)
def test_some_instants(call: Callable[[], None], seed: int) -> None:
    check(call, random.Random(seed), 8 if call in (run, map_items) else 3)


@pytest.mark.stress
@pytest.mark.parametrize("call", CALLS)
def test_every_instant(call: Callable[[], None], seed: int) -> None:
    check(call, random.Random(seed), 1_000_000)


@pytest.mark.parametrize("call", CALLS)
def test_a_fork_that_goes_on_from_a_signal_handler(call: Callable[[], None], seed: int) -> None:
    """It is refused, or makes the call for itself. It takes nothing that is meant for its parent."""
    number = instants.interrupted_at(0, call, lambda name: Path(name) in FILES)
    caller = os.getpid()
    for step in random.Random(seed).sample(range(1, 1 + number), 4):
        print(f"before instruction {step} of {number}")
        forks = []
        try:
            sparks.run(call, step, FILES, lambda forks=forks: forks.append(os.fork()))
            outcome = 40
        except shmcoll.CallNotAllowed:
            outcome = 41
        except BaseException:
            traceback.print_exc()
            outcome = 42
        if os.getpid() != caller:
            api.shutdown()
            os._exit(outcome)
        assert outcome == 40
        for child in forks:  # none if there were fewer instructions this time
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (40, 41)
