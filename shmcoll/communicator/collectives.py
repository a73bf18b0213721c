"""The collectives as methods of a communicator.

A method first tries the native entry with the arguments as they are. The entry refuses them if they are not exact,
contiguous arrays, or if one of them is wrong. Only then does Python check them, in `calls/`. The body of all these
methods is in `native_call.py`. The routines are in `collectives/`.
"""

from shmcoll.communicator.counted_moves import CountedMoves
from shmcoll.communicator.moves import Moves
from shmcoll.communicator.reductions import Reductions


class Collectives(Moves, CountedMoves, Reductions):
    """The methods of every communicator for arrays."""


__all__ = ["Collectives"]
