"""The words about ordinary numpy arrays in shared memory, in the directory of a rank: between HELD and the slots.

Only the rank itself writes them, while it holds the mutex of its allocator (`engine/native/array_blocks.py`). Other
ranks add ARRAYS to what the heaps hold. The launcher reports the other words at the end.
"""

from shmcoll.engine.layout import HELD, WORD

ARRAYS = HELD + WORD  # bytes of the arena that the rank holds for such arrays, in use or kept
ARRAYS_PEAK = HELD + 2 * WORD  # the most that it has held
UNFIT = HELD + 3 * WORD  # arrays that found no room, and became private
UNFIT_BYTES = HELD + 4 * WORD
