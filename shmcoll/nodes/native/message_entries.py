"""The native entries of messages over nodes, for those within a node. They take the arguments of `send` and `recv`.

A rank of the group that is on this node is replaced by its rank in the group for messages within the node, and the
routine of one machine makes the call in the context of that group. For every other rank, and for ANY, the answer is
NEEDS_PYTHON before anything has been sent. A rank whose number is translated need not be translated back: Python knows
the source that it has asked for.

Private memory of one rank, written once, before the first call:

    CONTEXT   the context of the group within the node
    PLAIN     the plain form of the routine, which has been loaded
    RANKS     how many ranks the group over nodes has
    INDICES   a word for each of them: its rank within the node; ELSEWHERE for ranks of other nodes
"""

from collections.abc import Callable, Sequence

import numpy as np

from shmcoll.collectives import RECORDS
from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, peek, poke
from shmcoll.engine.collective import Collective
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native import entry
from shmcoll.engine.native.entry import (
    FIXED,
    answer,
    goes_on,
    is_addressed,
    phase_argument,
    phase_given,
    read_call,
    taken,
    waits_for_turn,
)

CONTEXT, PLAIN, RANKS, INDICES = (WORD * i for i in range(4))
ELSEWHERE = -1


def make_message_entry(record: Collective) -> Callable[[int, int, int], int]:
    """Return the METH_FASTCALL form of `send` or `recv` for messages within a node."""
    place, operation, kind = phase_argument(record.form), record.code, record.form

    def message_entry(self, args, nargs):
        state = peek(self + py.ARRAY_DATA)
        ctx = peek(state + CONTEXT)
        if taken(ctx) and not goes_on(ctx, phase_given(ctx, args, nargs, place)):
            return py.new_integer(c.BUSY)
        if nargs != FIXED or not read_call(ctx, args, nargs) or not is_here(state, ctx) or not is_addressed(ctx, kind):
            return py.new_integer(c.NEEDS_PYTHON)
        if waits_for_turn(ctx, kind):
            return py.new_integer(c.BUSY)
        poke(ctx + c.OPERATION, operation)
        return answer(call(peek(state + PLAIN), ctx, 0, 0))

    return message_entry


def is_here(state, ctx):
    """Return whether the other rank is on this node, and replace its number."""
    rank = peek(ctx + c.ARGUMENT)
    if rank < 0 or rank >= peek(state + RANKS):
        return 0
    index = peek(state + INDICES + rank * WORD)
    poke(ctx + c.ARGUMENT, index)
    return index != ELSEWHERE


def make_callable(name: str, address: int, words: np.ndarray, indices: Sequence[int]) -> Callable[..., int] | None:
    """Return the entry for Python, if there is one. words: the context of the group within the node. indices: for each
    rank of the group over nodes, as INDICES."""
    plain = words.item(entry.ROUTINES // WORD + RECORDS[name].code)
    if not plain or not entry.FAST:
        return None
    state = np.array([words.ctypes.data, plain, len(indices), *indices], np.int64)
    return entry.make_callable(name, address, 0, state)


MESSAGES = ("send", "recv")
