"""The calls that native code makes from their arguments to their result, over nodes.

The entry checks the arguments as on one machine (`engine/native/entry.py`). A function here makes the opening, and then
the result. It returns NEEDS_PYTHON before anything is sent if the call has marks that are not known yet, or a form that
native code does not make. Then Python makes the same opening, and calls the same functions for what follows, so it does
not matter which ranks go which way. What Python has never made in one of these forms has no marks (`marks.py`).

Short calls: the opening carries what all ranks have brought to all of them, and each rank makes its result from that,
so nothing more is sent. Reductions combine the ranks of each node in their order, then the nodes; an all_reduce does
the former before the message (`partial_opening.py`), and calls with counts have an opening of their own
(`counted_opening.py`). For n ranks on N nodes an opening moves n / N S bytes between two nodes and n S within a node,
which is more than all but an all_gather need. But one message takes as long as some ten KiB do, and other ways need
two. Cost: 2 or 3 syncs in the node, one message.

Long calls: the arrays follow the opening (`long_moves.py`, `rails.py`, `owners.py`). They have been agreed on, so
nothing of them can be refused any more.
"""

from collections.abc import Callable

from shmcoll.collectives import RECORDS
from shmcoll.collectives.collective_permute import NOBODY
from shmcoll.collectives.collective_permute import SOURCE as SOURCE_RANK
from shmcoll.collectives.collective_permute import TARGET as TARGET_RANK
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, note, peek, poke, recent
from shmcoll.engine.collective import COUNTS
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler.object_cache import Progress
from shmcoll.engine.kernels.kernels import clear
from shmcoll.engine.memory.node_words import CALL_ENDED
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native.entry import make_entry
from shmcoll.engine.native.entry_counts import make_entry as make_entry_with_counts
from shmcoll.nodes.native.call import (
    STATE,
    agreed,
    equal_blocks,
    is_carried,
    most_for_one,
    opened,
    works_in_place,
)
from shmcoll.nodes.native.counted import all_gather_v, all_to_all_v, gather_v, move_counted, scatter_v
from shmcoll.nodes.native.counted_opening import open_counts
from shmcoll.nodes.native.layout import BEGINS, GIVEN, LENGTHS, MOST_EXCHANGED, MOST_GATHERED, RECORD
from shmcoll.nodes.native.long_moves import collect_rows, gather_everywhere, give, hand_out_rows, permute, spread, swap
from shmcoll.nodes.native.mail_receives import wait_far
from shmcoll.nodes.native.message_entries import MESSAGES, make_message_entry
from shmcoll.nodes.native.opening import open_rows, row_of
from shmcoll.nodes.native.owners import to_owners
from shmcoll.nodes.native.partial_opening import open_partials
from shmcoll.nodes.native.rails import all_reduce as all_reduce_long
from shmcoll.nodes.native.reductions import all_reduce, exscan, reduce, reduce_scatter, scan
from shmcoll.nodes.native.root_opening import open_array
from shmcoll.nodes.native.rooted_calls import broadcast, scatter


def run(ctx, routine, _kind):
    """Call a function of this file, which holds the GIL, and return its status."""
    me = py.thread_id()
    poke(ctx + c.ACTIVE, me)
    status = routine(ctx)
    if status != c.NEEDS_PYTHON and status != c.HALFWAY:
        note(peek(peek(ctx + STATE) + RECORD) + CALL_ENDED, recent())
    if peek(ctx + c.ACTIVE) == me:
        poke(ctx + c.ACTIVE, -me if status == c.HALFWAY else 0)
    return status


def barrier(ctx):
    return opened(ctx)


def all_gather(ctx):
    if not is_carried(ctx, MOST_GATHERED):
        return all_gather_long(ctx)
    status = opened(ctx)
    if status == c.OK:
        gather_rows(ctx)
    return status


def all_gather_long(ctx):
    status, x = agreed(ctx), ctx + c.X
    if status != c.OK:
        return status
    return gather_everywhere(peek(ctx + STATE), peek(x + c.DATA), peek(x + c.BYTES), peek(ctx + c.OUT + c.DATA))


def gather(ctx):
    x, out, root = ctx + c.X, peek(ctx + c.OUT + c.DATA), peek(ctx + c.ARGUMENT)
    if not is_carried(ctx, most_for_one(peek(ctx + STATE))):
        status = agreed(ctx)
        if status != c.OK:
            return status
        return collect_rows(peek(ctx + STATE), peek(x + c.DATA), peek(x + c.BYTES), out, root)
    status = opened(ctx)
    if status == c.OK and peek(ctx + c.RANK) == root:
        gather_rows(ctx)
    return status


def gather_rows(ctx):
    length = peek(ctx + c.X + c.BYTES)
    for rank in range(peek(ctx + c.SIZE)):
        copy(peek(ctx + c.OUT + c.DATA) + rank * length, row_of(peek(ctx + STATE), rank, length), length)


def all_to_all(ctx):
    if not is_carried(ctx, MOST_EXCHANGED):
        return all_to_all_long(ctx)
    status = opened(ctx)
    if status != c.OK:
        return status
    length, size = peek(ctx + c.X + c.BYTES), peek(ctx + c.SIZE)
    block = length // size
    for rank in range(size):
        source = row_of(peek(ctx + STATE), rank, length) + peek(ctx + c.RANK) * block
        copy(peek(ctx + c.OUT + c.DATA) + rank * block, source, block)
    return c.OK


def all_to_all_long(ctx):
    state, status = peek(ctx + STATE), c.NEEDS_PYTHON if works_in_place(ctx) else agreed(ctx)
    if status != c.OK:
        return status
    given, lengths, begins = peek(state + GIVEN), peek(state + LENGTHS), peek(state + BEGINS)
    equal_blocks(ctx, peek(ctx + c.X + c.BYTES) // peek(ctx + c.SIZE))
    give(given, peek(ctx + c.X + c.DATA), lengths, begins, peek(ctx + c.OUT + c.DATA), lengths, begins)
    return swap(state, given)


def collective_permute(ctx):
    source, target = peek(ctx + SOURCE_RANK), peek(ctx + TARGET_RANK)
    x, out, length = peek(ctx + c.X + c.DATA), peek(ctx + c.OUT + c.DATA), peek(ctx + c.X + c.BYTES)
    state = peek(ctx + STATE)
    if not is_carried(ctx, most_for_one(state)):
        status = c.NEEDS_PYTHON if works_in_place(ctx) else agreed(ctx)
        return permute(state, source, target, x, out, length) if status == c.OK else status
    status = opened(ctx)
    if status != c.OK:
        return status
    if source == NOBODY:
        clear(out, length)
    else:
        copy(out, row_of(state, source, length), length)
    return c.OK


FUNCTIONS = {
    function.__name__: function
    for function in (
        barrier,
        all_gather,
        gather,
        all_to_all,
        collective_permute,
        all_reduce,
        reduce,
        reduce_scatter,
        broadcast,
        scatter,
        scan,
        exscan,
        all_to_all_v,
        all_gather_v,
        gather_v,
        scatter_v,
    )
}


#: what Python calls, with the number of arguments
MOVES: code.Functions = {
    "open_rows": (open_rows, 3),
    "open_array": (open_array, 4),
    "open_counts": (open_counts, 7),
    "open_partials": (open_partials, 1),
    "move_counted": (move_counted, 5),
    "swap": (swap, 2),
    "permute": (permute, 6),
    "gather_everywhere": (gather_everywhere, 4),
    "collect_rows": (collect_rows, 5),
    "hand_out_rows": (hand_out_rows, 5),
    "spread": (spread, 4),
    "all_reduce_long": (all_reduce_long, 1),
    "to_owners": (to_owners, 1),
    "wait_far": (wait_far, 2),
}


def make_entry_of(name: str) -> Callable[[int, int, int], int]:
    record = RECORDS[name]
    make = make_entry_with_counts if record.form & COUNTS else make_entry
    return make(FUNCTIONS[name], record, run)


def functions() -> code.Functions:
    """Return the entries of all calls and of messages, and what Python calls."""
    entries: code.Functions = {f"nodes_{name}": (make_entry_of(name), 3) for name in FUNCTIONS}
    entries |= {f"nodes_{name}": (make_message_entry(RECORDS[name]), 3) for name in MESSAGES}
    return entries | {f"nodes_move_{name}": move for name, move in MOVES.items()}


def load(progress: Progress | None = None) -> dict[str, int]:
    """Return the addresses of these functions by name. The first call in a process loads or compiles them."""
    names = (*FUNCTIONS, *MESSAGES, *MOVES)
    return dict(zip(names, code.load_functions("calls_over_nodes", functions, progress), strict=True))
