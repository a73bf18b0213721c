"""How calls with counts enter their routines: this file reads counts and displacements as the user passes them.

Such a call has the first FIXED arguments of every call (`entry.py`), and then

    all_to_all_v, gather_v, scatter_v, all_gather_v
                        received, send_counts, send_displs, recv_counts, recv_displs, recv_room
    reduce_scatter_v    None, counts                                                             (of reduce_scatter)

received: an int64 array of n elements, made by the communicator, which the entry fills with the receive counts; or
None. Each other argument is an exact tuple or list of n exact ints, an exact ndarray of integers of shape (n,), or None
if the user passed nothing. All other calls of these operations are as in `entry.py`.

The entry does nothing and answers NEEDS_PYTHON for anything else, for numbers out of range, and for arrays that do not
suit the operation. Then the Python code in `calls/` accepts the call or raises an error. If a rank receives something
and passes no `out`, the answer is COUNTS_KNOWN: RESULT_SIZE of the table is the length of the result, and the
communicator calls again with such an array and the phase DATA.

The table (see `engine/protocol/count_tables.py`) is the context's own, OWN_TABLE. It belongs to the call that is
inside, also between two phases. It is filled under the GIL, after `what_hinders` has let the caller in. A call in this
form always begins an operation, so none enters between two phases, not even of the same thread. The Python code brings
tables of its own.
"""

from collections.abc import Callable

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.collective import OUT_AT_ROOT, OWN_COUNTS, REDUCING, ROOTED, X_AT_ROOT, Collective
from shmcoll.engine.kernels.dtypes import BY_NAME
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native import tables as t
from shmcoll.engine.native.arguments import FIXED, read_call, read_integer, type_of_plain
from shmcoll.engine.native.entering import run_routine, what_hinders
from shmcoll.engine.native.entry import answer
from shmcoll.engine.native.entry import make_entry as make_entry_of_others
from shmcoll.engine.native.fitting import are_apart, find_kernel
from shmcoll.engine.protocol.count_tables import BOTH, COUNTS, PHASE, TABLE
from shmcoll.engine.protocol.reduction import KERNEL_GIVEN, ORDERED, SOURCES
from shmcoll.engine.protocol.sync import SEED, mix

RECEIVED = FIXED  # arguments by number
ROWS = FIXED + 1

INT8, UINT8, UINT64 = (BY_NAME[name].code for name in ("int8", "uint8", "uint64"))  # codes of integers: signed first

MARK_BITS = 48


def make_entry(
    routine: Callable[[int], int], record: Collective, run: Callable[..., int] | None = None
) -> Callable[[int, int, int], int]:
    """Return the METH_FASTCALL form of a routine whose calls may bring counts. run: see `entry.make_entry`."""
    others, run = make_entry_of_others(routine, record, run), run or run_routine
    prepare, operation, kind = make_prepare(record.form), record.code, record.form
    arguments = ROWS + (1 if record.form & REDUCING else layout.TABLE_SIZES)

    def entry(self, args, nargs):
        if nargs != arguments:
            return others(self, args, nargs)
        ctx = peek(self + py.ARRAY_DATA)
        hindrance = what_hinders(ctx, kind)
        if hindrance != c.OK:
            return py.new_integer(hindrance)
        if not read_call(ctx, args, FIXED) or not prepare(ctx, args):
            return py.new_integer(c.NEEDS_PYTHON)
        poke(ctx + c.OPERATION, operation)
        status = run(ctx, routine, kind)
        tell_received(ctx, peek(args + RECEIVED * WORD), status)
        return answer(status)

    return entry


def make_prepare(kind: int) -> Callable[[int, int], int]:
    """Return a function that lays out the counts of a call whose first arguments have been read. It returns whether the
    call can go on."""
    if kind & REDUCING:
        return cut_unevenly

    def prepare(ctx, args):
        return arrays_suit(ctx, kind) and fill_table(ctx, kind, args)

    return prepare


# --- tables -----------------------------------------------------------------------------------------------------------


def arrays_suit(ctx, kind):
    """Return whether exactly the ranks that send pass x. An `out` must have its dtype, and no memory in common with
    it."""
    if kind & ROOTED and not 0 <= peek(ctx + c.ARGUMENT) < peek(ctx + c.SIZE):
        return 0
    x, out = ctx + c.X, ctx + c.OUT
    if is_given(x) != sends(ctx, kind) or (is_given(out) and not receives(ctx, kind)):
        return 0
    if is_given(x) and is_given(out):
        return peek(x + c.DTYPE) == peek(out + c.DTYPE) and are_apart(x, out)
    return 1


def sends(ctx, kind):
    return kind & X_AT_ROOT == 0 or peek(ctx + c.RANK) == peek(ctx + c.ARGUMENT)


def receives(ctx, kind):
    return kind & OUT_AT_ROOT == 0 or peek(ctx + c.RANK) == peek(ctx + c.ARGUMENT)


def is_given(view):
    return peek(view + c.DTYPE) != 0


def fill_table(ctx, kind, args):
    """Fill the own table. Returns 0 if a row of it cannot be read or is missing."""
    if kind & OWN_COUNTS:
        if not read_sends(ctx, args, sends(ctx, kind)):
            return 0
    else:
        send_all_of_x(ctx, kind)
    if not read_receives(ctx, args, receives(ctx, kind) and kind & X_AT_ROOT == 0):
        return 0
    x, out, ends = ctx + c.X, ctx + c.OUT, row(ctx, layout.TABLE_SIZES)
    has_out = is_given(out)
    if kind & X_AT_ROOT and has_out:
        poke(row(ctx, layout.RECV_COUNTS) + peek(ctx + c.ARGUMENT) * WORD, peek(out + c.COUNT))
    poke(ends + layout.SOURCE_SIZE * WORD, peek(x + c.COUNT))
    poke(ends + layout.RESULT_SIZE * WORD, peek(out + c.COUNT) if has_out else -1)
    poke(ends + layout.ELEMENT_TYPE * WORD, max(peek(x + c.DTYPE), peek(out + c.DTYPE)) or -1)
    poke(ctx + PHASE, BOTH if has_out or not receives(ctx, kind) else COUNTS)
    poke(ctx + TABLE, ctx + t.OWN_TABLE)
    return 1


def read_sends(ctx, args, given):
    """Fill the rows about sending. Without displacements the blocks are packed, and it returns 0 if they are shorter
    than x. A rank that sends nothing passes neither counts nor displacements."""
    counts, displs = peek(args + (ROWS + layout.SEND_COUNTS) * WORD), peek(args + (ROWS + layout.SEND_DISPLS) * WORD)
    none = peek(ctx + t.NONE)
    if not given:
        set_row(ctx, layout.SEND_COUNTS, 0)
        set_row(ctx, layout.SEND_DISPLS, 0)
        return counts == none and displs == none
    if not read_row(ctx, counts, row(ctx, layout.SEND_COUNTS)):
        return 0
    if displs != none:
        return read_row(ctx, displs, row(ctx, layout.SEND_DISPLS))
    packed = 0
    for i in range(peek(ctx + c.SIZE)):
        poke(row(ctx, layout.SEND_DISPLS) + i * WORD, packed)
        packed += peek(row(ctx, layout.SEND_COUNTS) + i * WORD)
    return packed >= peek(ctx + c.X + c.COUNT)


def send_all_of_x(ctx, kind):
    """Fill the rows about sending if all of x goes to every rank, or to the root."""
    set_row(ctx, layout.SEND_COUNTS, 0 if kind & OUT_AT_ROOT else peek(ctx + c.X + c.COUNT))
    set_row(ctx, layout.SEND_DISPLS, 0)
    if kind & OUT_AT_ROOT:
        poke(row(ctx, layout.SEND_COUNTS) + peek(ctx + c.ARGUMENT) * WORD, peek(ctx + c.X + c.COUNT))


def read_receives(ctx, args, given):
    """Fill the rows about receiving. The arguments of a rank that receives nothing are ignored."""
    for i in (layout.RECV_COUNTS, layout.RECV_DISPLS, layout.RECV_ROOM):
        values = peek(args + (ROWS + i) * WORD)
        if not given or values == peek(ctx + t.NONE):
            set_row(ctx, i, -1)
        elif not read_row(ctx, values, row(ctx, i)):
            return 0
    return 1


def tell_received(ctx, received, status):
    """Pass on the receive counts after a routine, and, between two phases, the length of the result."""
    size, counts, displs = peek(ctx + c.SIZE), row(ctx, layout.RECV_COUNTS), row(ctx, layout.RECV_DISPLS)
    if received != peek(ctx + t.NONE) and (status == c.OK or status == c.COUNTS_KNOWN):
        copy(peek(received + py.ARRAY_DATA), counts, size * WORD)
    if status == c.COUNTS_KNOWN:
        end = 0
        for i in range(size):
            count = peek(counts + i * WORD)
            if count > 0:
                end = max(end, peek(displs + i * WORD) + count)
        poke(row(ctx, layout.TABLE_SIZES) + layout.RESULT_SIZE * WORD, end)


def row(ctx, i):
    """Return the address of a row of the own table; behind the last row, that of its other words."""
    return ctx + t.OWN_TABLE + i * peek(ctx + c.SIZE) * WORD


def set_row(ctx, i, value):
    for k in range(peek(ctx + c.SIZE)):
        poke(row(ctx, i) + k * WORD, value)


# --- blocks of different lengths --------------------------------------------------------------------------------------


def cut_unevenly(ctx, args):
    """Return whether a reduce_scatter_v cuts x into blocks of the lengths given, and `out` has the length of this
    rank's block. Notes the places of the blocks, and the kernel. In place: `out` may be this rank's own block."""
    x, out, size, me = ctx + c.X, ctx + c.OUT, peek(ctx + c.SIZE), peek(ctx + c.RANK)
    blocks, lengths = row(ctx, 0), row(ctx, 1)
    if not is_given(x) or peek(x + c.DTYPE) != peek(out + c.DTYPE):
        return 0
    if not read_row(ctx, peek(args + ROWS * WORD), lengths):
        return 0
    total = 0
    for i in range(size):
        poke(blocks + i * WORD, peek(x + c.DATA) + total * peek(x + c.ITEM))
        total += peek(lengths + i * WORD)
        if total > peek(x + c.COUNT):
            return 0
    if total != peek(x + c.COUNT) or peek(lengths + me * WORD) != peek(out + c.COUNT):
        return 0
    if peek(blocks + me * WORD) != peek(out + c.DATA) and not are_apart(x, out):
        return 0
    poke(x + c.DIMENSIONS, 1)
    poke(x + c.DIMS, x + c.COUNT)
    poke(ctx + c.ARGUMENT, mark_of(lengths, size))
    poke(ctx + KERNEL_GIVEN, 0)
    poke(ctx + ORDERED, 0)
    poke(ctx + SOURCES, blocks)
    return find_kernel(ctx)


def mark_of(lengths, size):
    """Return a hash of n lengths at an address, which represents them in the fingerprint. It is at least 2^48, where no
    other ARGUMENT of reduce_scatter is."""
    hashed = SEED
    for i in range(size):
        hashed = mix(hashed, peek(lengths + i * WORD))
    return (1 << MARK_BITS) + ((hashed >> 16) & ((1 << MARK_BITS) - 1))


# --- rows -------------------------------------------------------------------------------------------------------------


def read_row(ctx, values, target):
    """Fill n words from an argument of the user. Returns 0 if it cannot be read here or has a number out of range."""
    kind, size = peek(values + py.OBJECT_TYPE), peek(ctx + c.SIZE)
    if kind == peek(ctx + t.NDARRAY):
        return read_words(ctx, values, target, size)
    if kind == peek(ctx + t.TUPLE):
        if py.tuple_length(values) != size:
            return 0
        for i in range(size):
            if not read_count(ctx, py.tuple_item(values, i), target + i * WORD):
                return 0
        return 1
    if kind != peek(ctx + t.LIST) or py.list_length(values) != size:
        return 0
    for i in range(size):
        if not read_count(ctx, py.list_item(values, i), target + i * WORD):
            return 0
    return 1


def read_words(ctx, array, target, size):
    """Fill n words from an array of any integers. Returns 0 as `read_row` does."""
    known = type_of_plain(ctx, array, 0)
    code, item = t.dtype_in(known), t.item_in(known)
    if not INT8 <= code <= UINT64:
        return 0
    if peek(array + py.ARRAY_DIMENSIONS) & 0xFFFFFFFF != 1 or peek(peek(array + py.ARRAY_DIMS)) != size:
        return 0
    # A narrow number is copied into a word of zeros: a negative one is then among the upper half of its type
    largest = layout.LARGEST_COUNT if code >= UINT8 or item == WORD else (1 << (8 * item - 1)) - 1
    for i in range(size):
        poke(target + i * WORD, 0)
        copy(target + i * WORD, peek(array + py.ARRAY_DATA) + i * item, item)
        if not 0 <= peek(target + i * WORD) <= largest:
            return 0
    return 1


def read_count(ctx, number, word):
    return read_integer(ctx, number, word) and 0 <= peek(word) <= layout.LARGEST_COUNT
