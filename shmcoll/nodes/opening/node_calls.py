"""The routines of the node's group that long calls are made of, called by their addresses.

Each has a call in private memory (`native/state.py`), in the form of the native entry. A function here writes into it
which bytes there are. All ranks of the node make the same calls in the same order. If the node has no other rank,
a copy takes the place of the routine.

TABLE is a table of counts as in `engine/protocol/count_tables.py`, in bytes. `set_received` says what comes from a rank
of the node, `set_sent` what goes there.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import call, call_kernel, copy, peek, poke
from shmcoll.engine.kernels.dtypes import BY_NAME
from shmcoll.engine.kernels.kernels import START
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native.entry_counts import mark_of
from shmcoll.engine.protocol import count_tables
from shmcoll.engine.protocol.reduction import KERNEL_GIVEN, SOURCES
from shmcoll.engine.protocol.reduction import ORDERED as IS_ORDERED
from shmcoll.nodes.opening import layout as o

UINT8 = BY_NAME["uint8"].code
MUCH = 64 << 10  # bytes from which on other threads may run meanwhile


def in_node(state, routine):
    """Call a routine of the node's group, if there are other ranks. Return OK, INTERRUPTED or UNREADABLE."""
    if peek(state + o.LOCAL) == 1:
        return c.OK
    status = call(peek(state + routine), peek(state + o.INNER), peek(state + routine + o.CALL), 0)
    if status == c.OK or status == c.INTERRUPTED:
        return status
    poke(state + o.FAILED, routine)
    poke(state + o.FAILED_STATUS, status)
    return c.UNREADABLE


def describe(view, shape, address, length):
    """Write into a call which bytes an array has."""
    poke(view + c.DATA, address)
    poke(view + c.COUNT, length)
    poke(view + c.BYTES, length)
    poke(shape, length)


def broadcast_in_node(state, address, length, root):
    """Copy bytes of a rank of this node to the others, where each of them has `address`."""
    written, shapes = peek(state + o.PUBLISH + o.CALL), peek(state + o.PUBLISH + o.SHAPES)
    if peek(state + o.LOCAL) > 1:
        describe(written + c.X, peek(shapes), address, length)
        describe(written + c.OUT, peek(shapes + WORD), address, length)
        poke(written + c.ARGUMENT, root)
    return in_node(state, o.PUBLISH)


def gather_to_leader(state, source, length, target):
    """Gather as many bytes of each rank of this node at `target` of its leader, whose own may be there already."""
    if peek(state + o.LOCAL) == 1:
        if target != source:
            copy(target, source, length)
        return c.OK
    written, shapes = peek(state + o.COLLECT + o.CALL), peek(state + o.COLLECT + o.SHAPES)
    describe(written + c.X, peek(shapes), source, length)
    if peek(state + o.IS_LEADER):
        describe(written + c.OUT, peek(shapes + WORD), target, length * peek(state + o.LOCAL))
    return in_node(state, o.COLLECT)


def set_row(state, row, i, value):
    poke(peek(state + o.TABLE) + (row * peek(state + o.LOCAL) + i) * WORD, value)


def get_row(state, row, i):
    return peek(peek(state + o.TABLE) + (row * peek(state + o.LOCAL) + i) * WORD)


def set_sent(state, i, length, place):
    set_row(state, layout.SEND_COUNTS, i, length)
    set_row(state, layout.SEND_DISPLS, i, place)


def set_received(state, i, length, place):
    set_row(state, layout.RECV_COUNTS, i, length)
    set_row(state, layout.RECV_DISPLS, i, place)


def copy_freely(target, source, length):
    """Copy bytes, if they are not there already. Other threads may run meanwhile."""
    if target == source or length <= 0:
        return
    thread = py.release_gil() if length >= MUCH else 0
    copy(target, source, length)
    if length >= MUCH:
        py.take_gil(thread)


def step_freely(state, mode, target, accumulator, source, count):
    """Run one kernel step of the reduction that is being made, and return what the kernel does."""
    frees = count * peek(state + o.ITEM) >= MUCH
    thread = py.release_gil() if frees else 0
    failed = call_kernel(peek(state + o.KERNEL), mode, target, accumulator, source, count, 1)
    if frees:
        py.take_gil(thread)
    return failed


def gather_blocks(state, source, target, room):
    """Copy a block of each rank of this node to its place in `target` on all of them. This rank's may be there
    already."""
    me = peek(state + o.INDEX)
    own = get_row(state, layout.RECV_COUNTS, me)
    if peek(state + o.LOCAL) == 1:
        copy_freely(target + get_row(state, layout.RECV_DISPLS, me), source, own)
        return c.OK
    for i in range(peek(state + o.LOCAL)):
        set_sent(state, i, own, 0)
    written, shapes = peek(state + o.GATHER_BLOCKS + o.CALL), peek(state + o.GATHER_BLOCKS + o.SHAPES)
    write_table(state, written, shapes, source, own, target, room)
    return in_node(state, o.GATHER_BLOCKS)


def swap_blocks(state, source, length, target, room):
    """Copy a block of each rank of this node to each of them."""
    me = peek(state + o.INDEX)
    if peek(state + o.LOCAL) == 1:
        begin, place = get_row(state, layout.SEND_DISPLS, me), get_row(state, layout.RECV_DISPLS, me)
        copy_freely(target + place, source + begin, get_row(state, layout.SEND_COUNTS, me))
        return c.OK
    written, shapes = peek(state + o.SWAP_BLOCKS + o.CALL), peek(state + o.SWAP_BLOCKS + o.SHAPES)
    write_table(state, written, shapes, source, length, target, room)
    return in_node(state, o.SWAP_BLOCKS)


def write_table(state, written, shapes, source, length, target, room):
    """Complete the table and the call of a routine with counts."""
    for i in range(peek(state + o.LOCAL)):
        set_row(state, layout.RECV_ROOM, i, -1)
    set_row(state, layout.TABLE_SIZES, layout.SOURCE_SIZE, length)
    set_row(state, layout.TABLE_SIZES, layout.RESULT_SIZE, room)
    set_row(state, layout.TABLE_SIZES, layout.ELEMENT_TYPE, UINT8)
    set_row(state, layout.TABLE_SIZES, layout.COUNT_UNIT, 1)
    describe(written + c.X, peek(shapes), source, length)
    describe(written + c.OUT, peek(shapes + WORD), target, room)
    poke(written + count_tables.PHASE, count_tables.BOTH)
    poke(written + count_tables.TABLE, peek(state + o.TABLE))


def set_block(state, i, address, count):
    """Say where the block for a rank of this node is, and how many elements it has."""
    poke(peek(state + o.BLOCKS) + i * WORD, address)
    poke(peek(state + o.BLOCKS) + (peek(state + o.LOCAL) + i) * WORD, count)


def reduce_blocks(state, target):
    """Reduce each block over the ranks of this node, which are several, for its rank. This one's goes to `target`."""
    blocks, local, item = peek(state + o.BLOCKS), peek(state + o.LOCAL), peek(state + o.ITEM)
    lengths = blocks + local * WORD
    own, total = peek(lengths + peek(state + o.INDEX) * WORD), 0
    for i in range(local):
        total += peek(lengths + i * WORD)
    if total == 0:
        return c.OK
    written, shapes = peek(state + o.REDUCE_BLOCKS + o.CALL), peek(state + o.REDUCE_BLOCKS + o.SHAPES)
    write_reduction(state, written, mark_of(lengths, local), blocks)
    describe_elements(state, written + c.X, peek(shapes), peek(blocks), total, item)
    describe_elements(state, written + c.OUT, peek(shapes + WORD), target, own, item)
    return in_node(state, o.REDUCE_BLOCKS)


def reduce_to_leader(state, source, count, target):
    """Reduce the operands of the ranks of this node, which are several, to `target` of its leader."""
    for i in range(peek(state + o.LOCAL)):
        set_block(state, i, source, count if i == 0 else 0)
    return reduce_blocks(state, target)


def scan_in_node(state, includes_own, source, target, count):
    """Reduce the operands of the ranks of this node before this one, and, in a scan, of this one, to `target`."""
    if peek(state + o.LOCAL) == 1:
        if includes_own:
            step_freely(state, START, target, 0, source, count)
        return c.OK
    routine = o.SCAN if includes_own else o.EXSCAN
    written, shapes = peek(state + routine + o.CALL), peek(state + routine + o.SHAPES)
    write_reduction(state, written, 0, 0)
    describe_elements(state, written + c.X, peek(shapes), source, count, peek(state + o.ITEM))
    if includes_own or peek(state + o.INDEX) > 0:
        describe_elements(state, written + c.OUT, peek(shapes + WORD), target, count, peek(state + o.ITEM))
    return in_node(state, routine)


def write_reduction(state, written, argument, sources):
    """Write into the call of a reducing routine which reduction it makes."""
    poke(written + c.REDUCTION, peek(state + o.KIND))
    poke(written + c.ARGUMENT, argument)
    poke(written + c.ARGUMENT_2, peek(state + o.IDENTITY))
    poke(written + KERNEL_GIVEN, peek(state + o.KERNEL))
    poke(written + IS_ORDERED, peek(state + o.ORDERED))
    poke(written + SOURCES, sources)


def describe_elements(state, view, shape, address, count, item):
    describe(view, shape, address, count)
    poke(view + c.BYTES, count * item)
    poke(view + c.ITEM, item)
    poke(view + c.DTYPE, peek(state + o.DTYPE))
