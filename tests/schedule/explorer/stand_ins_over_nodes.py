"""Stand-ins for what calls over nodes use beside the operations on shared words: MPI, routines of the node, constants.

They are put in place beside those of `stand_ins.py`.
"""

import contextlib
from collections.abc import Iterator
from unittest import mock

from shmcoll.collectives import RECORDS
from shmcoll.engine import atomics
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython, entry
from shmcoll.nodes import agreement
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening import node_calls, opening, requests
from tests.schedule.explorer import channels
from tests.schedule.explorer.job import plain

ENDED = channels.CHANNELS - WORD  # whether a leader has ended the job

MOST_AHEAD, PAST_CALLS = 2, 4
SLOT_BYTES = 64
LEAST_APART = 9 * WORD
CONSTANTS = {
    "MOST_AHEAD": MOST_AHEAD,
    "PAST_CALLS": PAST_CALLS,
    "SLOT_BYTES": SLOT_BYTES,
    "MOST_IN_SLOT": SLOT_BYTES - o.SLOT_DATA,
    "MOST_IN_ROW_AHEAD": 64,
    "LEAST_APART": LEAST_APART,
}


def call_in_node(routine: int, ctx: int, written: int, _: int) -> int:
    """In place of a call of a routine of the node by its address."""
    record = list(RECORDS.values())[routine]
    return plain(entry.make_plain, record.routine, record)(ctx, written)


def watch(state: int, _turn: int) -> int:
    """In place of `Agreement._watch`, when a slice has passed and nothing else can happen: a leader that has found
    another call ends the job."""
    if atomics.peek(state + o.IS_SUSPECT):
        atomics.store(ENDED, 1)
    return atomics.load(ENDED)


@contextlib.contextmanager
def over_nodes() -> Iterator[None]:
    """Put the stand-ins of nodes in place, beside those of `exploring`."""
    with contextlib.ExitStack() as undo:
        for owner, name, stand_in in (
            (requests, "call_long", channels.call_long),
            (requests, "call", channels.call),
            (node_calls, "call", call_in_node),
            (cpython, "call_back", watch),
            (waiting, "WATCH_EVERY", 1),
            (opening, "AT_ONCE", SLOT_BYTES),
            (agreement, "PAST_CALLS", PAST_CALLS),
            *((o, name, value) for name, value in CONSTANTS.items()),
        ):
            undo.enter_context(mock.patch.object(owner, name, stand_in))
        yield
