"""Reductions over nodes: what is reduced, in which type, and how partial results are combined, in the order of the
nodes. So all ranks get the same bits, whatever the MPI.

Partial results have the accumulator's type: float16 and bfloat16 are widened once, before the first addition, and
rounded once, at the end. An avg is a sum until the end. So the words of the state from SOURCE on describe a reduction
of partial results; LAST, the kernel of the call itself, widens what is read of SOURCE (`widened`), and makes what is
written to RESULT (`finish`). If it is 0, operands and results are partial results.

Memory of this rank alone, beside the arrays of the call: PARTS, what comes from other nodes, twice, because segment
k + 2 begins after segment k has been combined; OWN, what the node has reduced, OWN_PLACES times, because segment k + 3
begins after segment k has ended; WIDE and TOTAL, which are used within one step.

If a node has one rank, an operand is sent as it is, only widened: what becomes of an element is made where two are
combined.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call_kernel, peek, poke
from shmcoll.engine.kernels.dtypes import BY_NAME, REDUCTION_CODES, REDUCTIONS, USER
from shmcoll.engine.kernels.kernels import JOIN, START, STORE
from shmcoll.engine.layout import WORD
from shmcoll.engine.native.tables import KERNELS
from shmcoll.engine.protocol import reduction
from shmcoll.engine.protocol.reduction import ALL, HALF_TYPES
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.node_calls import copy_freely, step_freely
from shmcoll.nodes.opening.requests import await_messages

SEGMENT_BYTES = 1 << 20
OWN_PLACES = 3
UNIT = 64  # elements: pieces begin on cache lines

SUM, AVG = REDUCTIONS["sum"], REDUCTIONS["avg"]
FLOAT32 = BY_NAME["float32"]
FLOAT32_CODE, FLOAT32_BYTES = FLOAT32.code, FLOAT32.numpy.itemsize


# --- what is reduced --------------------------------------------------------------------------------------------------


def describe_reduction(ctx):
    """Write which reduction the call in the context makes. Return 0 if a kernel of it is not loaded."""
    state, x = peek(ctx + o.STATE), ctx + c.X
    dtype, item, last = peek(x + c.DTYPE), peek(x + c.ITEM), 0
    kind, kernel = peek(ctx + c.REDUCTION), peek(ctx + c.KERNEL)
    poke(state + o.STORED_ITEM, item)
    if is_half(dtype) or kind == AVG:
        last = kernel
        kind = SUM if kind == AVG else kind
        if is_half(dtype):
            dtype, item = FLOAT32_CODE, FLOAT32_BYTES
        if kind == USER:
            kernel = peek(state + o.WIDE_KERNEL)
        else:
            kernel = peek(ctx + KERNELS + (dtype * REDUCTION_CODES + kind) * WORD)
    poke(state + o.SOURCE, peek(x + c.DATA))
    poke(state + o.RESULT, peek(ctx + c.OUT + c.DATA))
    poke(state + o.ELEMENTS, peek(x + c.COUNT))
    poke(state + o.ROOT, ALL)
    poke(state + o.LAST, last)
    poke(state + o.KIND, kind)
    poke(state + o.IDENTITY, peek(ctx + c.ARGUMENT_2))
    poke(state + o.KERNEL, kernel)
    poke(state + o.ORDERED, peek(ctx + reduction.ORDERED))
    poke(state + o.DTYPE, dtype)
    poke(state + o.ITEM, item)
    return kernel != 0


def is_half(dtype):
    found = 0
    for half in HALF_TYPES:
        if dtype == half:
            found = 1
    return found


def needs_rank_order(state):
    """Return whether the nodes' partial results cannot be combined, because the operator is not commutative, and the
    ranks of a node are not neighbours."""
    return peek(state + o.ORDERED) and not peek(state + o.IN_RANK_ORDER)


def is_widened(state):
    return peek(state + o.ITEM) != peek(state + o.STORED_ITEM)


def widened(state, place, source, count):
    """Return where `count` operands at an address are in the type of partial results: there, or, widened, at
    `place`."""
    if not is_widened(state):
        return source
    call_kernel(peek(state + o.LAST), START, place, 0, source, count, 1)
    return place


def finish(state, target, total, count, ranks):
    """Write the result of `count` partial results."""
    if peek(state + o.LAST) == 0:
        copy_freely(target, total, count * peek(state + o.ITEM))
    elif count > 0:
        call_kernel(peek(state + o.LAST), STORE, target, total, 0, count, ranks)


# --- combining --------------------------------------------------------------------------------------------------------


def part(state, k, node):
    """Return the address of what comes from a node for segment k."""
    return peek(state + o.PARTS) + ((k & 1) * peek(state + o.NODES) + node) * peek(state + o.PART_BYTES)


def own_place(state, k):
    return peek(state + o.OWN) + k % OWN_PLACES * peek(state + o.OWN_BYTES)


def is_alone(state):
    """Return whether this node has one rank, which sends its operand as it is."""
    return peek(state + o.LOCAL) == 1


def combine(state, into, count):
    """Combine `count` elements of all nodes in their order, at PART_PLACES, which is in place of this node's or apart
    from it. Return OK or RAISED."""
    nodes, here, places, status = peek(state + o.NODES), peek(state + o.NODE), peek(state + o.PART_PLACES), c.OK
    so_far = into if here < 2 else peek(places)  # of later nodes, `into` is read after the first step
    first = peek(places)
    for node in range(1, nodes if count > 0 else 0):
        if status == c.OK:
            second, target = peek(places + node * WORD), into if node == nodes - 1 else so_far
            status = join(state, target, first, second, count)
            first = target
    return status


def fold(state, target, ranks, begin, count):
    """Combine elements of the first `ranks` ranks in their order: `count` from byte `begin` on of each row at
    ROW_PLACES. Return OK or RAISED."""
    status = c.OK
    for rank in range(ranks if count > 0 else 0):
        row = peek(peek(state + o.ROW_PLACES) + rank * WORD) + begin
        if rank == 0:
            step_freely(state, START, target, 0, row, count)
        elif status == c.OK:
            status = join(state, target, target, row, count)
    return status


def join(state, target, first, second, count):
    """Combine two arrays of partial results, of which `target` may be one. Return OK, or RAISED if the user's function
    has raised, with the addresses of its arguments."""
    failed = step_freely(state, JOIN, target, first, second, count) if count > 0 else 0
    if failed == 0:
        return c.OK
    poke(state + o.FIRST_VALUE, first + (failed - 1) * peek(state + o.ITEM))
    poke(state + o.SECOND_VALUE, second + (failed - 1) * peek(state + o.ITEM))
    return c.RAISED


# --- segments ---------------------------------------------------------------------------------------------------------


def make_pipeline(begin, combine, end):
    """Return a function that reduces segments: while the messages of one, in the lane k & 1, are on their way, the next
    one begins. Each of the three functions takes the number of a segment, and returns a status."""

    def pipeline(state, count):
        status, k = begin(state, 0) if count > 0 else c.OK, 0
        while k < count and status == c.OK:
            if k + 1 < count:
                status = begin(state, k + 1)
            if status == c.OK:
                status = await_messages(state, k & 1)
            if status == c.OK:
                status = combine(state, k)
            if status == c.OK and k > 0:
                status = end(state, k - 1)
            k += 1
        return end(state, count - 1) if count > 0 and status == c.OK else status

    return pipeline
