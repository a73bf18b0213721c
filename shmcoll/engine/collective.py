"""The record of a collective: what everybody else needs to know about it. Each collective's file ends with its record.

    COLLECTIVE = Collective(all_gather, code=8, form=GATHERS | OWN_PART, covers=COVERS, plans=True)

`shmcoll/collectives/__init__.py` finds the records, and the native entries, the diagnostics and the plans follow them.
Two lists name collectives besides: `FUNCTIONS` of those over nodes, and the names of the benchmark. send and recv have
records, too: they have codes and entries.

The entry is compiled for one form, and notes it in the context as KIND, for the parts of the protocol that all
operations share; the gate for jitted code adds JITTED. `covers` is what the routine passes to `begin`: a constant when
it is compiled, since reading it from the context would make an all_reduce of 8 bytes 3 % slower.
"""

from collections.abc import Callable
from typing import NamedTuple

# which properties of x must be equal on all ranks: the fingerprint covers them
SHAPE, DTYPE, NOTHING = range(3)  # SHAPE: dtype and shape

# which ranks have arrays; the others pass None
(
    ROOTED,  # ARGUMENT is the root
    OUT_AT_ROOT,  # the root alone has an `out`
    X_AT_ROOT,  # the root alone has an x; in a scatter, all others pass `out` for it
    NO_OUT_AT_0,  # rank 0 has no `out`
    # how x and `out` fit; without one of these the entry does not compare them
    NO_ARRAYS,  # the call has no arrays
    ALIKE,  # `out` has the shape of x, and may be x
    GATHERS,  # `out` is as long as the x of all ranks along axis 0
    SCATTERS,  # x is as long as the `out` of all ranks along axis 0
    CUTS,  # `out` has the shape of x, and both consist of one block for each rank along axis 0
    OWN_PART,  # GATHERS, SCATTERS: the shorter array may be this rank's part of the longer one
    # arguments besides
    REDUCING,  # the call has an operator, and the entry looks for its kernel
    EXTRA,  # calls without extra words need Python
    IN_PHASES,  # the first extra word is the phase
    COUNTS,  # calls may bring counts, which the entry reads
    OWN_COUNTS,  # COUNTS: a rank that sends gives a count for each receiver
    PEER,  # of a message: ARGUMENT is the peer, ARGUMENT_2 the tag, REDUCTION the phase
    ANY_SOURCE,  # PEER: both may be ANY
    JITTED,  # of a call, not of an operation: jitted code makes it
) = (1 << i for i in range(18))

FITTING = NO_ARRAYS | ALIKE | GATHERS | SCATTERS | CUTS

OPERATION_CODES = 64  # codes are below, and from 1 on without a gap


class Collective(NamedTuple):
    """What a collective is called, how it is called, and how it is described.

    routine: bears the name of the collective. code: its number in headers, never used for another one.
    form: flags of this file. covers: SHAPE, DTYPE or NOTHING.
    algorithms: names of those that a caller may ask for, from number 1 on. plans: whether `Communicator.plan` takes it.
    describe(argument, argument_2): what messages say of a call behind its array, operator and root.
    title(argument): the name of the method that was called, if the routine serves several.
    """

    routine: Callable[[int], int]
    code: int
    form: int
    covers: int = NOTHING
    algorithms: tuple[str, ...] = ()
    plans: bool = False
    describe: Callable[[int, int], str] = lambda _argument, _argument_2: ""
    title: Callable[[int], str] | None = None

    @property
    def name(self) -> str:
        return self.routine.__name__
