"""Short calls that native code makes from their arguments to their result, over nodes.

The entry checks the arguments as on one machine (`engine/native/entry.py`). A function here makes the opening, and the
result from what all ranks have brought. It returns NEEDS_PYTHON before anything is sent if the call is too long, or has
marks that are not known yet. Then Python makes the same opening, so it does not matter which ranks go which way.

An opening carries what all ranks have brought to all of them, and each rank makes its result from that, so nothing more
is sent. Reductions combine the ranks of each node in their order, then the nodes. For n ranks on N nodes an opening
moves n / N S bytes between two nodes and n S within a node, which is more than all but an all_gather need. But one
message takes as long as some ten KiB do, and other ways need two. Cost: 2 or 3 syncs in the node, one message.
"""

from shmcoll.collectives import RECORDS
from shmcoll.collectives.collective_permute import NOBODY, SOURCE
from shmcoll.engine import context as c
from shmcoll.engine.atomics import call_kernel, copy, note, peek, poke, recent
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler.object_cache import Progress
from shmcoll.engine.kernels.kernels import JOIN, START, clear
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.node_words import CALL_BEGAN, CALL_ENDED, CALL_NUMBER, CALL_OPERATION
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native.entry import make_entry
from shmcoll.nodes.short.layout import (
    BROUGHT,
    COUNTS,
    EVERYBODY,
    KEY,
    MOST_BROUGHT,
    MOST_ROW,
    NODES,
    RECORD,
    SCRATCH,
    SEQUENCE,
    SLOT,
    TOLD,
)
from shmcoll.nodes.short.marks import MOST_DIMENSIONS, find, write_key
from shmcoll.nodes.short.message_entries import MESSAGES, make_message_entry
from shmcoll.nodes.short.opening import bring, open_rows, row_of, spread, stride

STATE = c.MAILBOXES  # in the context of a group over nodes, which has no mailboxes: the address of its state
SPREAD_BYTES = 64 << 10  # of a broadcast that goes from leader to leader

# what the root of a broadcast brings, in words: the length of its array in bytes, or LONG; dtype and mark; number of
# dimensions; dimensions; then the array
LONG = -1  # the array follows, after the opening
ARRAY_LENGTH, ARRAY_TYPE, ARRAY_DIMENSIONS, ARRAY_DIMS = (WORD * i for i in range(4))


def run(ctx, routine, _kind):
    """Call a function of this file, which holds the GIL, and return its status."""
    me = py.thread_id()
    poke(ctx + c.ACTIVE, me)
    status = routine(ctx)
    if status != c.NEEDS_PYTHON:
        note(peek(peek(ctx + STATE) + RECORD) + CALL_ENDED, recent())
    if peek(ctx + c.ACTIVE) == me:
        poke(ctx + c.ACTIVE, 0)
    return status


def marks_of(ctx):
    """Return the address of the marks of the call in the context; 0 if they are not known."""
    x, state = ctx + c.X, peek(ctx + STATE)
    if peek(x + c.DIMENSIONS) > MOST_DIMENSIONS or peek(ctx + c.ALGORITHM) != 0 or peek(ctx + c.ARGUMENT_2) != 0:
        return 0
    operation, reduction, root = peek(ctx + c.OPERATION), peek(ctx + c.REDUCTION), peek(ctx + c.ARGUMENT)
    key, dimensions = peek(state + KEY), peek(x + c.DIMENSIONS)
    write_key(key, operation, reduction, peek(x + c.DTYPE), root, dimensions, peek(x + c.DIMS))
    return find(state, key)


def opened(ctx):
    """Open a call in which every rank brings its x. Return OK if all ranks have what all have brought."""
    state, x, length = peek(ctx + STATE), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES)
    marks = marks_of(ctx) if length <= peek(state + MOST_ROW) else 0
    if marks == 0:
        return c.NEEDS_PYTHON
    bring(state, peek(marks), peek(marks + WORD), x, length)
    record(ctx)
    return open_rows(state, x, length, EVERYBODY)


def record(ctx):
    """Note the call of this rank, for programs that look at the job."""
    state = peek(ctx + STATE)
    last = peek(state + RECORD)
    note(last + CALL_OPERATION, peek(ctx + c.OPERATION))
    note(last + CALL_NUMBER, peek(state + SEQUENCE))
    note(last + CALL_BEGAN, recent())
    note(last + CALL_ENDED, 0)


def barrier(ctx):
    return opened(ctx)


def all_gather(ctx):
    status = opened(ctx)
    if status == c.OK:
        gather_rows(ctx)
    return status


def gather(ctx):
    status = opened(ctx)
    if status == c.OK and peek(ctx + c.RANK) == peek(ctx + c.ARGUMENT):
        gather_rows(ctx)
    return status


def gather_rows(ctx):
    length = peek(ctx + c.X + c.BYTES)
    for rank in range(peek(ctx + c.SIZE)):
        copy(peek(ctx + c.OUT + c.DATA) + rank * length, row_of(peek(ctx + STATE), rank, length), length)


def all_to_all(ctx):
    status = opened(ctx)
    if status != c.OK:
        return status
    length, size = peek(ctx + c.X + c.BYTES), peek(ctx + c.SIZE)
    block = length // size
    for rank in range(size):
        source = row_of(peek(ctx + STATE), rank, length) + peek(ctx + c.RANK) * block
        copy(peek(ctx + c.OUT + c.DATA) + rank * block, source, block)
    return c.OK


def collective_permute(ctx):
    source = peek(ctx + SOURCE)
    status = opened(ctx)
    if status != c.OK:
        return status
    length = peek(ctx + c.X + c.BYTES)
    if source == NOBODY:
        clear(peek(ctx + c.OUT + c.DATA), length)
    else:
        copy(peek(ctx + c.OUT + c.DATA), row_of(peek(ctx + STATE), source, length), length)
    return c.OK


def all_reduce(ctx):
    status = opened(ctx)
    if status == c.OK:
        reduce_rows(ctx, peek(ctx + c.OUT + c.DATA), 0, peek(ctx + c.X + c.COUNT))
    return status


def reduce(ctx):
    status = opened(ctx)
    if status == c.OK and peek(ctx + c.RANK) == peek(ctx + c.ARGUMENT):
        reduce_rows(ctx, peek(ctx + c.OUT + c.DATA), 0, peek(ctx + c.X + c.COUNT))
    return status


def reduce_scatter(ctx):
    status = opened(ctx)
    if status == c.OK:
        begin = peek(ctx + c.RANK) * peek(ctx + c.OUT + c.BYTES)
        reduce_rows(ctx, peek(ctx + c.OUT + c.DATA), begin, peek(ctx + c.OUT + c.COUNT))
    return status


def reduce_rows(ctx, target, begin, count):
    """Combine `count` elements from byte `begin` on of what all ranks have brought: those of a node in their order,
    then the nodes."""
    state, kernel, size = peek(ctx + STATE), peek(ctx + c.KERNEL), peek(ctx + c.SIZE)
    row, apart = peek(state + TOLD) + WORD + begin, stride(peek(ctx + c.X + c.BYTES))
    for node in range(peek(state + NODES) if count > 0 else 0):
        part = peek(state + SCRATCH) if node > 0 else target
        call_kernel(kernel, START, part, 0, row, count, 1)
        row += apart
        for _ in range(1, peek(peek(state + COUNTS) + node * WORD)):
            call_kernel(kernel, JOIN, part, part, row, count, size)
            row += apart
        if node > 0:
            call_kernel(kernel, JOIN, target, target, part, count, size)


def broadcast(ctx):
    state, x, root = peek(ctx + STATE), ctx + c.X, peek(ctx + c.ARGUMENT)
    length, is_root = peek(x + c.BYTES), peek(ctx + c.RANK) == root
    head = ARRAY_DIMS + peek(x + c.DIMENSIONS) * WORD
    fits = head + length <= MOST_BROUGHT
    marks = marks_of(ctx) if length <= SPREAD_BYTES else 0
    if marks == 0:
        return c.NEEDS_PYTHON
    bring(state, peek(marks), peek(marks + WORD), 0, 0)
    record(ctx)
    if is_root:
        bring_array(ctx, peek(state + SLOT) + BROUGHT, length if fits else LONG)
    status = open_rows(state, 0, MOST_BROUGHT, root)
    if status != c.OK:
        return status
    if not fits:
        return spread(state, peek(x + c.DATA), length, root)
    if not is_root:
        copy(peek(x + c.DATA), peek(state + TOLD) + WORD + head, length)
    return c.OK


def bring_array(ctx, brought, length):
    """Write what the root of a broadcast brings."""
    x, dimensions = ctx + c.X, peek(ctx + c.X + c.DIMENSIONS)
    poke(brought + ARRAY_LENGTH, length)
    poke(brought + ARRAY_TYPE, peek(x + c.DTYPE))
    poke(brought + ARRAY_DIMENSIONS, dimensions)
    if dimensions > 0:
        copy(brought + ARRAY_DIMS, peek(x + c.DIMS), dimensions * WORD)
    if length > 0:
        copy(brought + ARRAY_DIMS + dimensions * WORD, peek(x + c.DATA), length)


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
    )
}


def functions() -> code.Functions:
    """Return the entries of all short calls and of messages, and what Python calls: `opening.open_rows` and
    `opening.spread`."""
    entries: code.Functions = {
        f"nodes_{name}": (make_entry(function, RECORDS[name], run), 3) for name, function in FUNCTIONS.items()
    }
    entries |= {f"nodes_{name}": (make_message_entry(RECORDS[name]), 3) for name in MESSAGES}
    return entries | {"nodes_open_rows": (open_rows, 4), "nodes_spread": (spread, 4)}


def load(progress: Progress | None = None) -> dict[str, int]:
    """Return the addresses of these functions by name. The first call in a process loads or compiles them."""
    names = (*FUNCTIONS, *MESSAGES, "open_rows", "spread")
    return dict(zip(names, code.load_functions("calls_over_nodes", functions, progress), strict=True))
