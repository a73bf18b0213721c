"""A signal handler that raises anywhere in a call for objects: either the group has ended, or the call has made all its
parts or none, and the next one works. In both cases no other thread takes this one for being in a collective."""

import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from shmcoll.communicator import object_calls, object_parts, object_reductions, objects
from shmcoll.communicator.object_rows import LONGEST_SENT
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from tests.support.instants import interrupted_where_signals_are_handled

LONG = bytes(LONGEST_SENT)  # whose pickle no row holds
FILES = {module.__file__ for module in (object_calls, object_parts, object_reductions, objects)}

#: a call, and the number of its parts
CALLS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "of one part": (lambda comm: comm.all_gather_object(7), 1),
    "of numbers": (lambda comm: comm.all_reduce_object(7), 1),
    "broadcast_object": (lambda comm: comm.broadcast_object(LONG), 2),
    "gather_object": (lambda comm: comm.gather_object(LONG), 2),
    "scatter_object": (lambda comm: comm.scatter_object([LONG]), 2),
    "all_to_all_object": (lambda comm: comm.all_to_all_object([LONG]), 2),
    "reduce_object": (lambda comm: comm.reduce_object("x"), 2),
    "scan_object": (lambda comm: comm.scan_object("x"), 2),
}


def interrupted(comm, name: str) -> list[str]:
    call, parts = CALLS[name]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wrong, k, steps = [], 0, 1
    ends = set()
    while k < steps:
        k += 1
        group = comm.dup()
        if k % 2:
            call(group)  # the call is prepared
        words = group._dispatcher.words
        before = words.item(c.SEQUENCE // WORD)
        try:
            steps = max(steps, interrupted_where_signals_are_handled(k, partial(call, group), FILES.__contains__))
        except KeyboardInterrupt:
            steps = max(steps, k + 1)
        made = words.item(c.SEQUENCE // WORD) - before
        has_ended = words.item(c.ACTIVE // WORD) == c.ENDED
        ends.add(has_ended)
        if words.item(c.COLLECTIVE // WORD) or words.item(c.ACTIVE // WORD) not in (0, c.ENDED):
            wrong.append(f"step {k}: ACTIVE, COLLECTIVE are {words[[c.ACTIVE // WORD, c.COLLECTIVE // WORD]]}")
        if not has_ended:
            if made not in (0, parts):
                wrong.append(f"step {k}: {made} parts, and the group goes on")
            call(group)
        group.close()
    assert ends == ({False, True} if parts > 1 else ends | {False})
    assert k > 10
    return wrong


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_at_every_step(ranks, name):
    assert ranks(1, interrupted, name) == [[]]
