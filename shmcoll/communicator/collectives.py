"""The collectives as methods of a communicator.

A method first tries the native entry with the arguments as they are, where that can check them; it answers
they are not exact, contiguous arrays or something is wrong with them. Only then does Python look at them closely, in
`calls/`. The body of all these methods is in `native_call.py`. The routines are in `collectives/`.
"""

from shmcoll.communicator.counted_moves import CountedMoves
from shmcoll.communicator.moves import Moves
from shmcoll.communicator.reductions import Reductions


class Collectives(Moves, CountedMoves, Reductions):
    """What every communicator can do with arrays."""


__all__ = ["Collectives"]
