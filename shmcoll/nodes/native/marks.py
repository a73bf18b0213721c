"""The marks of calls that native code makes by itself.

A mark is a hash of the words that describe a call (`nodes/agreement.py`). Python makes it when a call of this form
comes for the first time, and writes it into a table. Native code finds it there by the KEY of the call, which are the
facts that the words describe: operation, operator, dtype, root, shape. A call whose key is not in the table goes to
Python. A key is compared word by word, and has one place, so a new key replaces another one.
"""

from shmcoll.engine.atomics import peek, poke, wrapping_multiply
from shmcoll.engine.layout import WORD
from shmcoll.nodes.native.layout import KEYS

MOST_DIMENSIONS = 4
KEY_WORDS = 2 + MOST_DIMENSIONS
ENTRY_WORDS = KEY_WORDS + 2  # the key, and both marks
ENTRIES = 64
TABLE_WORDS = ENTRIES * ENTRY_WORDS


def write_key(key, operation, reduction, dtype, root, dimensions, dims):
    """Write the key of a call that passes an array of at most MOST_DIMENSIONS dimensions, whose address is `dims`."""
    poke(key, operation | reduction << 8 | dtype << 24 | dimensions << 40)
    poke(key + WORD, root)
    for i in range(MOST_DIMENSIONS):
        poke(key + (2 + i) * WORD, peek(dims + i * WORD) if i < dimensions else 0)


def entry_of(state, key):
    """Return the address of the only place where a key can be."""
    mixed = 0
    for i in range(KEY_WORDS):
        mixed = wrapping_multiply(mixed ^ peek(key + i * WORD), 0x9E3779B97F4A7C1)
        mixed ^= mixed >> 29
    return peek(state + KEYS) + (mixed & (ENTRIES - 1)) * ENTRY_WORDS * WORD


def find(state, key):
    """Return the address of the marks of a key; 0 if they are not known."""
    entry = entry_of(state, key)
    for i in range(KEY_WORDS):
        if peek(entry + i * WORD) != peek(key + i * WORD):
            return 0
    return entry + KEY_WORDS * WORD


def enter(state, key, first, second):
    """Write the marks of a key into the table. Return the address of its entry."""
    entry = entry_of(state, key)
    for i in range(KEY_WORDS):
        poke(entry + i * WORD, peek(key + i * WORD))
    poke(entry + KEY_WORDS * WORD, first)
    poke(entry + (KEY_WORDS + 1) * WORD, second)
    return entry
