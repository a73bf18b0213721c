"""What the native functions of MPI look up: one table for the process, which Python fills.

    FAILED      address of the function that a call which has failed goes on to: (context, status) -> code of MPI
    KEPT        three words, for the exception of a signal handler
    MALLOC, FREE_MEMORY     addresses of malloc and free
    HELD        how many slots are not free
    DEFERRED    how many of them are POSTED or PROBED: everything but what `mpi_requests.py` has is left to Python then
    NEXT        the number of the next slot that is posted
    PYTHON      for each native function, by its number: address of the Python function that does the same
    SECTIONS    COMMS, TYPES, OPERATORS, WINS: what is known of handles

A section has ROWS rows. The row of a handle follows from its number (`row`). It begins with the handle; 0 is no handle.
Python writes it when the object is there, and clears it before the object goes; both under the GIL. A handle whose row
another one has is not here, so Python makes its calls.

A slot is a request, or a message that a probe has found, which native code keeps (`mpi_requests.py`).
"""

from shmcoll.engine.atomics import peek
from shmcoll.engine.layout import WORD

FAILED, MALLOC, FREE_MEMORY, HELD, DEFERRED, NEXT, KEPT = (WORD * i for i in range(7))
PYTHON = KEPT + 3 * WORD
MOST_FUNCTIONS = 120

ROWS = 512
ROW_WORDS = 9
ROW = ROW_WORDS * WORD
COMMS, TYPES, OPERATORS, WINS, SLOTS = ((PYTHON + MOST_FUNCTIONS * WORD) + i * ROWS * ROW for i in range(5))
MOST_SLOTS = 32
SLOT_WORDS = 8
SLOT = SLOT_WORDS * WORD
TABLE_WORDS = (SLOTS + MOST_SLOTS * SLOT) // WORD

HANDLE = 0
# of an ordinary communicator: the contexts of its collectives and of its messages, and the keys and the values of two
# attributes that were asked for; of a window: its table, and the context of its communicator
CONTEXT, MESSAGES, RANK, SIZE, KEY, VALUE, KEY_2, VALUE_2 = (WORD * i for i in range(1, 9))
# of a datatype: its type word, how many elements it has, and their alignment, if it can be computed with, else 0; its
# bytes, lower bound and extent; and whether elements one behind the other are one run of bytes
TYPE, ELEMENTS, ALIGNMENT, BYTES, LOW, EXTENT, IS_RUN = (WORD * i for i in range(1, 8))
RUNS, RUN_ROWS = ELEMENTS, ALIGNMENT  # of one whose elements are several runs: their table (`kernels/runs.py`)
REDUCTION, DTYPES = WORD, 2 * WORD  # of an operator: its code, and a bit for each code of a dtype that it takes
REPLACE, NO_OP = -1, -2  # the codes of operators for windows alone

# of a slot: what it is; the handle of the communicator; source and tag, wanted or found; the buffer and its bytes, or
# those of the message
STATE, COMM, SOURCE, TAG, BUFFER, LENGTH, ORDER = (WORD * i for i in range(7))
FREE, POSTED, PROBED, DONE, RUNNING, IN_PYTHON = range(6)

SENT = 0x6C000001  # the request of every send that is complete when it is begun
FIRST_REQUEST, FIRST_MESSAGE = 0x6C000100, 0x6C000200  # the handles of slot 0, as a request and as a message

SIGN = 1 << 31


def row(handle):
    """Return where in a section the row of a handle, a signed number, begins. Handles of the ABI have rows of their
    own."""
    return ((handle & 0xFF) + (0 if handle >= 0 else ROWS // 2)) * ROW


def find(table, section, handle):
    """Return the row of a handle in C, an int; 0 if nothing is known of it."""
    number = int_of(handle)
    at = table + section + row(number)
    return at if peek(at + HANDLE) == number and number != 0 else 0


def int_of(word):
    """Return the number of an `int` in C; the upper half of its word may be anything."""
    half = word & 0xFFFFFFFF
    return half - 2 * (half & SIGN)
