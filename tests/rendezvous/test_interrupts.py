"""Ranks that meet, and a signal handler that raises meanwhile: what has been written is withdrawn."""

import os
import time
from pathlib import Path

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.system import connections
from shmcoll.errors import ArenaError, ShmcollError
from shmcoll.startup import arena_names, rendezvous, rendezvous_errors
from tests.support import sparks


class Stop(Exception):
    """Raised by a signal handler."""


def stop(error: type[BaseException]) -> None:
    raise error("of the program")


def test_a_rank_that_is_interrupted_is_not_registered_any_more():
    """Else rank 0 would let it in, and its next attempt would find its rank taken."""
    key = f"interrupted-{os.getpid()}"
    name = arena_names.new(key)
    arena = arenas.create(2, timeout=1, name=name, nonce=arena_names.nonce_of(name))
    arena_names.remove(name)
    records.write(arena, 0, layout.BY_RANK, records.JOINED, pid=os.getpid())

    def register() -> None:
        rendezvous._register(arena, 1, key, time.monotonic() + 0.005)

    for step in range(1, 1000, 4):
        try:
            sparks.run(register, step, (Path(rendezvous.__file__),), lambda: stop(Stop))
        except Stop as error:
            if error.__context__ is not None:  # it had given up by itself
                break
        except ShmcollError:
            break
        assert rendezvous._registered(arena, 1) is None, step
    assert step > 50
    arena.close()


@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")  # closed when it is forgotten
@pytest.mark.parametrize("error", [TimeoutError, Stop])
def test_what_a_handler_raises_is_raised_while_rank_0_reports_and_others_ask(error):
    key = f"reported-{os.getpid()}"
    files = Path(rendezvous_errors.__file__), Path(connections.__file__)

    def report() -> None:
        rendezvous_errors.tell(key, 2, ArenaError("too little"), time.monotonic() + 0.01)

    def ask() -> None:
        rendezvous_errors.ask(key, 1, time.monotonic() + 0.01)

    for call in (report, ask):
        step = 1
        while True:
            try:
                assert not sparks.run(call, step, files, lambda: stop(error)), (call, step)
                break
            except error as e:
                assert str(e) == "of the program"
            step += 2
        assert step > 30
