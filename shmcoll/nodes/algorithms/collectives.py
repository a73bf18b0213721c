"""The calls over nodes, from their arguments to their result. Each is here once, and all of it is native code.

The entry checks the arguments as on one machine (`engine/native/entry.py`), or takes those that `calls/` have checked.
A function here makes the opening, and then the result. It returns NEEDS_PYTHON, before anything is sent, if a kernel is
not loaded, or if blocks are to be exchanged in place. `nodes/algorithms/staging.py` turns the forms for lists, and for
other axes than the first, into these.

Short calls: the opening carries what all ranks contribute to all of them, and each rank makes its result from that,
so nothing more is sent. Reductions combine the ranks of each node in their order, then the nodes; an all_reduce does
the former before the message (`reductions.py`), and calls with counts contribute their tables (`count_rows.py`).
For n ranks on N nodes an opening moves n / N S bytes between two nodes and n S within a node,
which is more than all but an all_gather need. But one message takes as long as some ten KiB do, and other ways need
two. Cost: 2 or 3 syncs in the node, one message.

Blocks of 32 to 64 KiB for each rank, if no node has several: the opening carries to each only its own (`parts_fit`).

Long calls: the arrays follow the opening (`long_moves.py`, and for reductions the files `*_long.py`). They have been
agreed on, so nothing of them can be refused any more.
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
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.node_words import CALL_ENDED
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native.arguments import FIXED, argument_word
from shmcoll.engine.native.call_places import note_place
from shmcoll.engine.native.entering import goes_on, what_hinders
from shmcoll.engine.native.entry import make_entry, phase_argument
from shmcoll.engine.native.entry_counts import make_entry as make_entry_with_counts
from shmcoll.engine.protocol.profile import WAITED, begin_call, counter, end_call
from shmcoll.engine.protocol.reduction import ALL, KERNEL_GIVEN
from shmcoll.nodes.algorithms.counted import all_gather_v, all_to_all_v, gather_v, scatter_v
from shmcoll.nodes.algorithms.long_moves import all_gather_long, exchange_blocks, gather_long, permute, swap
from shmcoll.nodes.algorithms.reductions import all_reduce, exscan, reduce, reduce_scatter, scan
from shmcoll.nodes.algorithms.rooted_calls import broadcast, scatter
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.call import (
    agreed,
    announce_alike,
    fits,
    most_for_one,
    opened,
    opened_for_root,
    works_in_place,
)
from shmcoll.nodes.opening.opening import copy_rows, open_rows_of_all, parts_fit, row_of
from shmcoll.nodes.point_to_point.message_entries import MESSAGES, make_message_entry
from shmcoll.nodes.point_to_point.message_receives import wait_far


def run(ctx, routine, kind):
    """Call a function of this file, which holds the GIL, and return its status."""
    me, state = py.thread_id(), peek(ctx + o.STATE)
    carry_waits(ctx, peek(state + o.INNER))
    begin_call(ctx, kind)
    poke(ctx + c.ACTIVE, me)
    status = routine(ctx)
    carry_waits(ctx, peek(state + o.INNER))
    poke(ctx + c.SEQUENCE, peek(state + o.SEQUENCE))
    poke(ctx + c.CREDIT, peek(state + o.SEQUENCE) - peek(state + o.AHEAD))
    end_call(ctx, kind, status, counter(ctx), me)
    if status != c.NEEDS_PYTHON and status != c.HALFWAY:
        note(peek(peek(ctx + o.STATE) + o.RECORD) + CALL_ENDED, recent())
    if status == c.OK and peek(state + o.AHEAD):
        thread = py.release_gil()
        py.take_gil(thread)
        note_place(ctx, thread)
    if peek(ctx + c.ACTIVE) == me:
        poke(ctx + c.ACTIVE, -me if status == c.HALFWAY else 0)
    return status


def carry_waits(ctx, inner):
    """Count the waits of the node's group for this one, whose calls are made of that one's. inner: its context."""
    if peek(ctx + c.PROFILE) and peek(inner + c.PROFILE):
        poke(peek(ctx + c.PROFILE) + WAITED, peek(peek(inner + c.PROFILE) + WAITED))


def barrier(ctx):
    return agreed(ctx)


def all_gather(ctx):
    return gather_to(ctx, ALL, o.MOST_GATHERED)


def gather(ctx):
    return gather_to(ctx, peek(ctx + c.ARGUMENT), most_for_one(peek(ctx + o.STATE)))


def gather_to(ctx, root, most):
    """Gather the arrays to the root, or to all ranks."""
    state, data, out = peek(ctx + o.STATE), peek(ctx + c.X + c.DATA), peek(ctx + c.OUT + c.DATA)
    length = peek(ctx + c.X + c.BYTES)
    if not fits(state, length, most):
        status = agreed(ctx)
        if status != c.OK:
            return status
        return all_gather_long(state, data, length, out) if root == ALL else gather_long(state, data, length, out, root)
    status = opened(ctx, data, length) if root == ALL else opened_for_root(ctx, data, length, root)
    if status == c.OK and (root == ALL or root == peek(ctx + c.RANK)):
        copy_rows(state, out, length)
    return status


def all_to_all(ctx):
    state, data, out = peek(ctx + o.STATE), peek(ctx + c.X + c.DATA), peek(ctx + c.OUT + c.DATA)
    length, size = peek(ctx + c.X + c.BYTES), peek(ctx + c.SIZE)
    block = length // size
    if parts_fit(state, block) and fits(state, block, o.MOST_FOR_ONE):
        announce_alike(ctx, data, block)
        poke(state + o.APART_STEP, block)
        status = open_rows_of_all(state, data, block)
        for rank in range(size if status == c.OK else 0):
            copy(out + rank * block, row_of(state, rank, block), block)
        return status
    if not fits(state, length, o.MOST_EXCHANGED):
        status = c.NEEDS_PYTHON if works_in_place(ctx) else agreed(ctx)
        return exchange_blocks(state, data, out, block) if status == c.OK else status
    status = opened(ctx, data, length)
    for rank in range(size if status == c.OK else 0):
        copy(out + rank * block, row_of(state, rank, length) + peek(ctx + c.RANK) * block, block)
    return status


def collective_permute(ctx):
    source, target = peek(ctx + SOURCE_RANK), peek(ctx + TARGET_RANK)
    state, data, out = peek(ctx + o.STATE), peek(ctx + c.X + c.DATA), peek(ctx + c.OUT + c.DATA)
    length = peek(ctx + c.X + c.BYTES)
    if not fits(state, length, most_for_one(state)):
        status = c.NEEDS_PYTHON if works_in_place(ctx) else agreed(ctx)
        return permute(state, source, target, data, out, length) if status == c.OK else status
    status = opened(ctx, data, length)
    if status == c.OK and source == NOBODY:
        clear(out, length)
    elif status == c.OK:
        copy(out, row_of(state, source, length), length)
    return status


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
    "open_rows": (open_rows_of_all, 3),
    "copy_rows": (copy_rows, 3),
    "swap": (swap, 3),
    "wait_far": (wait_far, 2),
}


def make_entry_of(name: str) -> Callable[[int, int, int], int]:
    record = RECORDS[name]
    make = make_entry_with_counts if record.form & COUNTS else make_entry
    return make(FUNCTIONS[name], record, run)


def make_plain_of(name: str) -> Callable[[int, int], int]:
    """Return the form for interpreters whose arrays native code cannot read, of a call that `calls/` have checked."""
    function, operation, kind = FUNCTIONS[name], RECORDS[name].code, RECORDS[name].form
    place = phase_argument(kind)

    def plain(ctx, written):
        hindrance = what_hinders(ctx, kind)
        if hindrance != c.OK and not goes_on(ctx, peek(written + argument_word(place)) if place else 0):
            return hindrance
        copy(ctx + c.REDUCTION, written + c.REDUCTION, FIXED * WORD - 2 * WORD)
        copy(ctx + c.X, written + c.X, c.CONTEXT_WORDS * WORD - c.X)
        poke(ctx + c.KERNEL, peek(ctx + KERNEL_GIVEN))
        poke(ctx + c.OPERATION, operation)
        return run(ctx, function, kind)

    return plain


def functions() -> code.Functions:
    """Return the entries of all calls and of messages, and what Python calls."""
    entries: code.Functions = {f"nodes_{name}": (make_entry_of(name), 3) for name in FUNCTIONS}
    entries |= {f"nodes_plain_{name}": (make_plain_of(name), 2) for name in FUNCTIONS}
    entries |= {f"nodes_{name}": (make_message_entry(RECORDS[name]), 3) for name in MESSAGES}
    return entries | {f"nodes_move_{name}": move for name, move in MOVES.items()}


def load(progress: Progress | None = None) -> dict[str, int]:
    """Return the addresses of these functions by name. The first call in a process loads or compiles them."""
    names = (*FUNCTIONS, *(f"plain_{name}" for name in FUNCTIONS), *MESSAGES, *MOVES)
    return dict(zip(names, code.load_functions("calls_over_nodes", functions, progress), strict=True))
