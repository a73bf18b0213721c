"""Whether the arguments of a call, as the context has them, suit the operation."""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.collective import (
    ANY_SOURCE,
    CUTS,
    EXTRA,
    FITTING,
    GATHERS,
    NO_ARRAYS,
    NO_OUT_AT_0,
    OUT_AT_ROOT,
    OWN_PART,
    PEER,
    REDUCING,
    ROOTED,
    SCATTERS,
    X_AT_ROOT,
)
from shmcoll.engine.kernels.dtypes import REDUCTION_CODES
from shmcoll.engine.layout import ANY, LARGEST_TAG, WORD
from shmcoll.engine.native.arguments import FIXED, forget_extra
from shmcoll.engine.native.tables import KERNELS
from shmcoll.engine.protocol.reduction import KERNEL_GIVEN

RUN_WORDS = 5  # block, and run and stride at either end: see `all_to_all.py`
LIST_WORDS = 3  # behind them: what an all_to_all of lists has


def suits(ctx, kind, nargs):
    """Return whether a call of this form, with this number of arguments, can go on as it is. Notes the kernel of a
    reduction."""
    if kind & PEER:
        return nargs == FIXED and is_addressed(ctx, kind)
    if kind & EXTRA:
        return nargs > FIXED and (kind & FITTING == 0 or ready(ctx, kind))
    if kind & REDUCING and nargs > FIXED:
        poke(ctx + c.KERNEL, peek(ctx + KERNEL_GIVEN))
        return 1
    if kind & REDUCING == 0 and nargs != FIXED:
        return 1
    forget_extra(ctx)
    return ready(ctx, kind) and (kind & REDUCING == 0 or find_kernel(ctx))


def ready(ctx, kind):
    """Return whether the arrays of a call suit the operation on this rank: both are there, of the same dtype, of
    fitting shapes, and without common memory. Both may be one array if the operation allows that."""
    if kind & NO_ARRAYS:
        return 1
    me, root = peek(ctx + c.RANK), peek(ctx + c.ARGUMENT)
    if kind & ROOTED and not 0 <= root < peek(ctx + c.SIZE):
        return 0
    x, out = ctx + c.X, ctx + c.OUT
    has_none = (kind & OUT_AT_ROOT and me != root) or (kind & NO_OUT_AT_0 and me == 0)
    if has_none:
        return peek(x + c.DATA) != 0 and peek(out + c.DATA) == 0
    if kind & X_AT_ROOT and me != root:
        return peek(out + c.DATA) != 0 and peek(x + c.DATA) == peek(out + c.DATA)
    if peek(x + c.DATA) == 0 or peek(out + c.DATA) == 0 or peek(x + c.DTYPE) != peek(out + c.DTYPE):
        return 0
    if kind & GATHERS:
        return is_shared_out(ctx, x, out) and ((kind & OWN_PART and is_own_part(ctx, x, out)) or are_apart(x, out))
    if kind & SCATTERS:
        return is_shared_out(ctx, out, x) and ((kind & OWN_PART and is_own_part(ctx, out, x)) or are_apart(x, out))
    if kind & CUTS and not is_cut_evenly(ctx, x, out):
        return 0
    return are_alike(x, out) and (peek(x + c.DATA) == peek(out + c.DATA) or are_apart(x, out))


def is_addressed(ctx, kind):
    """Return whether a message goes to a rank of this group, or may come from one, and has a valid tag."""
    lowest = ANY if kind & ANY_SOURCE else 0
    return lowest <= peek(ctx + c.ARGUMENT) < peek(ctx + c.SIZE) and has_tag(ctx, kind)


def has_tag(ctx, kind):
    """Return whether a message has a valid tag, and an array, if it is sent."""
    lowest = ANY if kind & ANY_SOURCE else 0
    if not lowest <= peek(ctx + c.ARGUMENT_2) <= LARGEST_TAG:
        return 0
    return kind & ANY_SOURCE or peek(ctx + c.X + c.DTYPE) != 0


def are_alike(x, out):
    """Return whether two arrays have the same shape."""
    dimensions = peek(x + c.DIMENSIONS)
    if dimensions != peek(out + c.DIMENSIONS):
        return 0
    for i in range(dimensions):
        if peek(peek(x + c.DIMS) + i * WORD) != peek(peek(out + c.DIMS) + i * WORD):
            return 0
    return 1


def is_shared_out(ctx, part, whole):
    """Return whether `whole` is n times as long as `part` along axis 0, and otherwise of the same shape."""
    dimensions = peek(part + c.DIMENSIONS)
    if dimensions == 0 or dimensions != peek(whole + c.DIMENSIONS):
        return 0
    for i in range(dimensions):
        extent = peek(peek(part + c.DIMS) + i * WORD)
        if i == 0:
            extent *= peek(ctx + c.SIZE)
        if extent != peek(peek(whole + c.DIMS) + i * WORD):
            return 0
    return 1


def is_cut_evenly(ctx, x, out):
    """Return whether an all_to_all cuts and concatenates along axis 0, so that each of the n parts is one run. Notes
    the length of a part."""
    if peek(ctx + c.ARGUMENT) != 0 or peek(ctx + c.ARGUMENT_2) != 0 or peek(x + c.DIMENSIONS) == 0:
        return 0
    if not are_alike(x, out) or peek(peek(x + c.DIMS)) % peek(ctx + c.SIZE) != 0:
        return 0
    for i in range(RUN_WORDS):
        poke(ctx + c.EXTRA + i * WORD, peek(x + c.BYTES) // peek(ctx + c.SIZE))
    for i in range(RUN_WORDS, RUN_WORDS + LIST_WORDS):
        poke(ctx + c.EXTRA + i * WORD, 0)
    return 1


def is_own_part(ctx, part, whole):
    """Return whether `part` is the memory of this rank's own part of `whole`."""
    return peek(part + c.DATA) == peek(whole + c.DATA) + peek(ctx + c.RANK) * peek(part + c.BYTES)


def are_apart(a, b):
    """Return whether two arrays share no memory."""
    distance = peek(b + c.DATA) - peek(a + c.DATA)
    return distance >= peek(a + c.BYTES) or -distance >= peek(b + c.BYTES)


def find_kernel(ctx):
    """Note the kernel for dtype and reduction. Returns 0 if it is not loaded."""
    reduction = peek(ctx + c.REDUCTION)
    if not 0 < reduction < REDUCTION_CODES:
        return 0
    kernel = peek(ctx + KERNELS + (peek(ctx + c.X + c.DTYPE) * REDUCTION_CODES + reduction) * WORD)
    poke(ctx + c.KERNEL, kernel)
    return kernel != 0
