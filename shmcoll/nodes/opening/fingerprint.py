"""The fingerprints of a call over nodes: words, mixed as on one machine (`engine/protocol/sync.py`).

A call has two. The first must be equal on all ranks. It covers operation, operator, algorithm and root or another
argument, and the array where all ranks have one: dtype, mark and dimensions. The second covers what only some ranks
know, such as the shape of an array that others have not allocated yet. It must be equal on all ranks on which it is not
0.

`describe` also notes the call in CALLED, in the words of a header on one machine. If the ranks disagree, each of them
puts these into words afterwards (`nodes/agreement.py`).
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.sync import SEED, mix
from shmcoll.nodes.opening.layout import CALLED, STATE

POSITIVE = (1 << 62) - 1
UNKNOWN = 0


def describe(ctx, view, second):
    """Note the call in the context, with the array of a view and the second argument, and return a hash of what is not
    about arrays."""
    called, operation, dimensions = peek(peek(ctx + STATE) + CALLED), peek(ctx + c.OPERATION), peek(view + c.DIMENSIONS)
    reduction, algorithm, argument = peek(ctx + c.REDUCTION), peek(ctx + c.ALGORITHM), peek(ctx + c.ARGUMENT)
    call = layout.pack_call(operation, peek(view + c.DTYPE), reduction, algorithm, dimensions)
    poke(called + layout.HEADER_CALL, call)
    poke(called + layout.HEADER_ARGUMENTS, argument)
    poke(called + layout.HEADER_ARGUMENTS + WORD, second)
    for i in range(min(dimensions, layout.HEADER_MAX_DIMS)):
        poke(called + layout.HEADER_DIMS + i * WORD, peek(peek(view + c.DIMS) + i * WORD))
    return mix(mix(SEED, layout.pack_call(operation, 0, reduction, algorithm, 0)), argument)


def with_array(fingerprint, view, mark):
    """Return a hash that covers the array of a view, too."""
    dimensions = peek(view + c.DIMENSIONS)
    fingerprint = mix(mix(mix(fingerprint, mark), peek(view + c.DTYPE)), dimensions)
    for i in range(dimensions):
        fingerprint = mix(fingerprint, peek(peek(view + c.DIMS) + i * WORD))
    return fingerprint


def positive(fingerprint):
    """Return a fingerprint as the ranks compare it."""
    found = fingerprint & POSITIVE
    return found if found else 1
