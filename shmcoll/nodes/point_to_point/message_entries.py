"""The native entries of messages over nodes. They take the arguments of `send` and `recv`.

A rank of the group that is on this node is replaced by its rank in the group for messages within the node, and the
routine of one machine makes the call in the context of that group. Messages to and from ranks of other nodes are in
`message_sends.py` and `message_receives.py`. For ANY the answer is NEEDS_PYTHON, and Python calls again when it knows
the rank. A rank whose number is translated need not be translated back: Python knows the source that it has asked for.

A call is read into the context of the group within the node. One for another node has read it when it lets other
threads run, so it neither waits for a turn nor takes one.

Private memory of one rank, written once, before the first call:

    CONTEXT   the context of the group within the node
    PLAIN     the plain form of the routine, which has been loaded
    FAR       the address of the words of `message_words.py`
    RANKS     how many ranks the group over nodes has
    INDICES   a word for each of them: its rank within the node; ELSEWHERE for ranks of other nodes
"""

from collections.abc import Callable, Sequence

import numpy as np

from shmcoll.collectives import RECORDS
from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, peek, poke
from shmcoll.engine.collective import ANY_SOURCE, Collective
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native import entry
from shmcoll.engine.native.arguments import FIXED, read_call
from shmcoll.engine.native.entering import goes_on, taken, waits_for_turn
from shmcoll.engine.native.entry import FILLED, answer, phase_argument, phase_given
from shmcoll.engine.native.fitting import has_tag
from shmcoll.engine.native.tables import ROUTINES
from shmcoll.nodes.point_to_point.message_receives import has_ended, recv_far
from shmcoll.nodes.point_to_point.message_sends import send_far

CONTEXT, PLAIN, FAR, RANKS, INDICES = (WORD * i for i in range(5))
ELSEWHERE = -1


def make_message_entry(record: Collective) -> Callable[[int, int, int], int]:
    """Return the METH_FASTCALL form of `send` or `recv`."""
    place, operation, kind = phase_argument(record.form), record.code, record.form
    far = recv_far if kind & ANY_SOURCE else send_far

    def message_entry(self, args, nargs):
        state = peek(self + py.ARRAY_DATA)
        ctx = peek(state + CONTEXT)
        if taken(ctx) and not goes_on(ctx, phase_given(ctx, args, nargs, place)):
            return py.new_integer(c.BUSY)
        if nargs != FIXED or not read_call(ctx, args, nargs):
            return py.new_integer(c.NEEDS_PYTHON)
        rank = peek(ctx + c.ARGUMENT)
        if rank < 0 or rank >= peek(state + RANKS) or not has_tag(ctx, kind):
            return py.new_integer(c.NEEDS_PYTHON)
        index = peek(state + INDICES + rank * WORD)
        if index == ELSEWHERE:
            if has_ended(ctx):
                return py.new_integer(c.NEEDS_PYTHON)  # which raises why the group has ended
            return py.new_integer(far(peek(state + FAR), ctx, rank))
        if waits_for_turn(ctx, kind):
            return py.new_integer(c.BUSY)
        poke(ctx + c.ARGUMENT, index)
        poke(ctx + c.OPERATION, operation)
        return answer(call(peek(state + PLAIN), ctx, FILLED, 0))

    return message_entry


def make_callable(
    name: str, address: int, words: np.ndarray, far: np.ndarray, indices: Sequence[int]
) -> Callable[..., int] | None:
    """Return the entry for Python, if there is one. words: the context of the group within the node. far: the words of
    `message_words.py`. indices: for each rank of the group over nodes, as INDICES."""
    plain = words.item(ROUTINES // WORD + RECORDS[name].code)
    if not plain or not entry.FAST:
        return None
    state = np.array([words.ctypes.data, plain, far.ctypes.data, len(indices), *indices], np.int64)
    return entry.make_callable(name, address, 0, state)


MESSAGES = ("send", "recv")
