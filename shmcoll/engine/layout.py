"""The arena and a rank's private context as pictures: magic, version, offsets. No OS calls, no state.

    arena, one file mapped by every rank (offsets in bytes, everything little-endian 64-bit words)

    0        JOB PAGE      magic, version, sizes, nonce, thresholds; written by the creator before anyone attaches
    4096     RECORDS       2 x ranks records of 2 KiB: whether each rank lives, told by itself and by the launcher
    ...      DIRECTORIES   ranks x 16 KiB: the groups that each rank leads, and what it holds of the heap
    ...      WORLD         the region of the group of all ranks
    ...      HEAPS         ranks x an equal share of all that is left: each rank's own memory for the regions of the
                           groups that it leads and for its shared arrays; committed when used, punched out when freed

    directory of one rank, which alone writes it

    0        HELD          bytes of its heap that are in use
    8        ARRAYS        four words about ordinary numpy arrays (`native/array_blocks.py`)
    40       LOOKING       how many calls of this rank look for groups (`runtime/group_search.py`)
    48       LEARNING      how many calls of this rank learn of blocks of other ranks (`memory/holds.py`)
    56       PROFILE       where the profile of this rank is in the arena (`protocol/profile.py`); 0: there is none
    64       MORE          where tables of further slots are in its heap, page aligned; 0: not there yet
    128      SLOTS         {identity, offset} of the region of each group that it leads; identity 0: a free slot

    group region of n ranks, page aligned

    0        ABORT         one word: 0, or 1 once the group has ended. Anyone sets it, always to 1
    128      IDENTITY      two words: which group this is (`runtime/group_registry.py`);  144  SIZE  how many members
    256      MEMBERS       n words: the ranks of the world that are ranks 0, 1, ... of this group
    ...      MAILBOXES     n x (16.5 KiB + tables): what rank r tells its peers; only r writes it, except for SEMAPHORE
    ...      ENDINGS       n records of 2 KiB: why the group ended, as rank r of it found
    ...      SITES         n records of 2 KiB: where in its code rank r made the call that failed
    ...      FLIGHTS       n x 64 entries of 64 bytes: the last operations of rank r (`protocol/flight_recorder.py`)
    ...      CELLS         n x 2 x window_bytes: staging memory, two windows a rank, used in turn; in each, one cell of
                           up to cell_bytes at a time (`protocol/cells.py`)

    mailbox of one rank

    0        HEADERS       a ring of headers, that of operation s in slot s mod HEADERS (`protocol/sync.py`). In each:
                           sequence, fingerprint, up to 384 bytes of payload, or what this rank exposes
                           (`protocol/exposure.py`) | what the call is, for messages
    16384    PROGRESS      (turn << STEP_BITS) + steps done within that operation
    +128     PARKED        0, or 1 + the rank whose word this rank sleeps on
    +136     AWAITED       the word it slept for last: 1 + the rank that writes it, its offset in the region, the value
    +160     MESSAGE       the operation while this rank is in one that has slept, else 0; its peer, its tag, since when
    +192     RECEIVES      odd while this rank sleeps in a wait for one rank; that rank; the flag that it waits
                           for, as an offset in the arena; the value (`protocol/deadlock.py`)
    +224     CORE          0, or 1 + the core on which this rank last found that polling was not useful
                           (`protocol/placement.py`)
    +256     SEMAPHORE     sem_t, shared between processes: the doorbell of this rank
    +384     STATISTICS    bytes of arrays given to collectives, ns slept in waits, 1; written at the rank's end
    +408     CLOSED        0, or 1 once this rank has closed the group
    +416     WITNESS       the address of a word in this rank's private memory; its value; READS: whether this rank
                           can read the memory of all others (`protocol/peer_memory.py`)
    +440     COMMITTED     bytes at the beginning of each window of this rank that are committed; 0 in the world, where
                           all are (`native/window_memory.py`)
    +512     TABLE 0       5 x n + 4 words: counts and displacements of the _v collectives (`protocol/count_tables.py`)
    ...      TABLE 1       the same for odd turns
    ...      RINGS         n words: where in the arena this rank's first ring to rank i begins; 0: it never sent to it

    ring from one rank to another (`engine/messages/ring_buffers.py`), in the heap of the sender, page aligned

    0        HEAD          bytes of pieces that the receiver needs no more
    8        READING       1 + where the message begins that the receiver reads at HEAD
    16       LEFT          0, or 1 once the receiver has gone on to the next ring
    24       CLAIMED       of a message without bytes, and ANSWER: see `engine/messages/offer.py`
    128      CAPACITY      bytes of pieces that it holds; written by the sender before anybody can find it
    136      OFFER         where the array of a message without bytes is, and RETRACTED: see there
    256      PIECES        messages, in pieces of whole cache lines, round and round

    piece

    0        FLAG          1 + where it begins, in bytes since the first piece of the ring; 0: not there yet
    8        KIND          see `pack_piece`
    16       TAG           of the message;  24  TOTAL  its bytes, or where the next ring begins;  32  LENGTH  its part
    40       TAKEN         1 once the receiver has taken the message before its turn, or a synchronous one; see there
    48       DIMENSIONS    of the message, in its first piece; behind them the part of the array

Words that different ranks write are at least 128 bytes apart: two cache lines, because processors fetch them in pairs.
"""

from functools import cache

MAGIC = int.from_bytes(b"SHMCOLL\x00", "little")
VERSION = 14

WORD = 8
LINE = 128
PAGE = 4096

# --- job page ---------------------------------------------------------------------------------------------------------
JOB_MAGIC = 0
JOB_VERSION = 8
JOB_BYTES = 16  # size of the whole mapping
JOB_RANKS = 24
JOB_NONCE = 32  # 16 random bytes, passed to the ranks by the process that started them
JOB_CREATOR = 48  # pid of the process that made the arena, or of the shmrun that represents it
JOB_CREATED = 56  # CLOCK_MONOTONIC, ns
JOB_CELL_BYTES = 64
JOB_FLAT_BYTES = 72  # reductions: up to here everybody reads everybody
JOB_SLICE_BYTES = 80  # reductions: longest slice that travels the ring
JOB_TIMEOUT = 88  # default limit of one wait, ns
JOB_CREATOR_START = 96  # start time of the creator: with its pid it identifies a process forever
JOB_CORES = 104  # cores that the job may use: more ranks than these take turns
JOB_HEAP = 112  # most bytes that the heaps of all ranks together may hold
JOB_STREAM_BYTES = 120  # results as long as this are written past the caches
JOB_RING_BYTES = 128  # reductions: from so many bytes on for each rank beyond two, the ring is faster than the cells
JOB_DIRECT_BYTES = 136  # moves: private arrays from which a peer gets so many bytes are read where they are
JOB_SHARED_BYTES = 144  # the same for arrays in the arena
JOB_EXCHANGE_BYTES = 152  # the same for private arrays, where every rank also reads
JOB_WINDOW_BYTES = 160

# --- records ----------------------------------------------------------------------------------------------------------
RECORDS = PAGE
RECORD_BYTES = 2048
RECORD_STATE = 0
RECORD_CAUSE = 8
RECORD_CODE = 16
RECORD_TIME = 24  # CLOCK_MONOTONIC, ns
RECORD_PID = 32
RECORD_START = 40  # start time of the process in clock ticks since boot: with the pid it identifies a process forever
RECORD_LENGTH = 48
RECORD_CHECK = 56  # crc32 of the words above and the text
RECORD_TEXT = 64
RECORD_COMPILING = RECORD_BYTES - WORD  # since when the rank compiles, CLOCK_MONOTONIC in ns; 0: it does not
RECORD_TEXT_BYTES = RECORD_COMPILING - RECORD_TEXT

LONGEST_COMPILATION = 600_000_000_000  # ns for which RECORD_COMPILING is believed

BY_RANK, BY_LAUNCHER = 0, 1

# --- directories ------------------------------------------------------------------------------------------------------
DIRECTORY_BYTES = 4 * PAGE
HELD = 0
ARRAYS = 8  # bytes of the arena that the rank holds for ordinary numpy arrays, in use or kept
ARRAYS_PEAK = 16  # the most that it has held
UNFIT = 24  # arrays that found no room, and became private
UNFIT_BYTES = 32
LOOKING, LEARNING, PROFILE, MORE = (WORD * i for i in range(5, 9))
MORE_TABLES = 6
MORE_SLOTS = 4096  # in each of them
SLOTS = LINE
SLOT_BYTES = 2 * WORD
SLOT_IDENTITY, SLOT_OFFSET = 0, WORD
SLOT_COUNT = (DIRECTORY_BYTES - SLOTS) // SLOT_BYTES

# --- group region -----------------------------------------------------------------------------------------------------
ABORT = 0
IDENTITY = LINE
SIZE = IDENTITY + 2 * WORD
MEMBERS = 2 * LINE

HEADERS = 32  # of each rank, a power of two: a rank may be so many calls ahead of another one, less one
HEADER_BYTES = 512
HEADER_SEQUENCE = 0
HEADER_FINGERPRINT = 8
HEADER_INLINE = 16
INLINE_BYTES = 48  # in a full operation; more bytes are read faster from a cell, whose beginning is aligned
EAGER_BYTES = 384  # in an eager one
HEADER_CALL = HEADER_INLINE + EAGER_BYTES  # see `pack_call`
HEADER_ARGUMENTS = HEADER_CALL + 8  # two words: root, or split and concat axis; identity of a user's reduce op
HEADER_COUNT = HEADER_CALL + 24  # elements of x
HEADER_DIMS = HEADER_CALL + 32
HEADER_MAX_DIMS = 8  # the fingerprint covers all of them; the message shows these
HEADER_EAGER = HEADER_DIMS + 8 * HEADER_MAX_DIMS  # 1 if the root of a broadcast or scatter waits for nobody, else 0
HEADER_HISTORY = HEADER_EAGER + 8  # a hash of all calls of this rank up to this one

#: in place of the payload of a call whose arrays are long
HEADER_EXPOSED, HEADER_RESULT, HEADER_EXPOSED_BYTES, HEADER_RESULT_BYTES = (HEADER_INLINE + WORD * i for i in range(4))

#: The word ALGORITHM of a call is the algorithm and, from COMPOSITE_SHIFT on, the composite call of which it is a part:
#: code | (root + 1) << 8, root -1 if the call has no root; 0 for a call by itself. The header holds it from bit 24 on.
ALGORITHM_BITS = 8
COMPOSITE_SHIFT = 16
COMPOSITE_CODE = 0xFF

# widest values that HEADER_CALL holds
MOST_CODES = 1 << 8  # operations, dtypes, reductions, algorithms: codes are below
MOST_DIMENSIONS = 64  # of a numpy array

PROGRESS = HEADERS * HEADER_BYTES
PARKED = PROGRESS + LINE
AWAITED_PEER, AWAITED_WORD, AWAITED_VALUE = PARKED + 8, PARKED + 16, PARKED + 24
MESSAGE, MESSAGE_PEER, MESSAGE_TAG, MESSAGE_SINCE = (PARKED + 32 + WORD * i for i in range(4))
RECEIVES, RECEIVES_FROM, RECEIVES_FLAG, RECEIVES_VALUE = (PARKED + 64 + WORD * i for i in range(4))
CORE = PARKED + 96
SEMAPHORE = PARKED + LINE
STATISTICS = SEMAPHORE + LINE
STATISTICS_MOVED, STATISTICS_SLEPT, STATISTICS_LEFT = STATISTICS, STATISTICS + 8, STATISTICS + 16
CLOSED = STATISTICS + 24
WITNESS, WITNESS_VALUE, READS, COMMITTED = (CLOSED + WORD * (1 + i) for i in range(4))
TABLES = PROGRESS + 512

STEP_BITS = 24

FLIGHT_ENTRIES = 64  # a power of two
FLIGHT_BYTES = 64
FLIGHT_SEQUENCE = 0
FLIGHT_CALL = 8  # as HEADER_CALL
FLIGHT_ARGUMENTS = 16  # as HEADER_ARGUMENTS
FLIGHT_COUNT = 32
FLIGHT_STARTED = 40  # CLOCK_MONOTONIC, ns, coarse
FLIGHT_WOKEN = 48  # when it last slept until, or 0
FLIGHT_STATE = 56  # the status of the routine, or
RUNNING = -1

# rows of a table of counts, each of n words; behind them, at TABLE_SIZES * n, TABLE_ENDS words
SEND_COUNTS, SEND_DISPLS, RECV_COUNTS, RECV_DISPLS, RECV_ROOM, TABLE_SIZES = range(6)
SOURCE_SIZE, RESULT_SIZE, ELEMENT_TYPE, COUNT_UNIT, TABLE_ENDS = range(5)

CELL_BYTES = 256 << 10

ANY = -1  # in place of the source or the tag of a message
LARGEST_TAG = (1 << 31) - 1

# --- rings ------------------------------------------------------------------------------------------------------------
RING_HEAD, RING_READING, RING_LEFT, RING_CLAIMED, RING_ANSWER = (WORD * i for i in range(5))
RING_CAPACITY, RING_OFFER, RING_RETRACTED, RING_PIECES = LINE, LINE + 8, LINE + 16, 2 * LINE
PIECE_UNIT = 64
PIECE_FLAG, PIECE_KIND, PIECE_TAG, PIECE_TOTAL, PIECE_LENGTH, PIECE_TAKEN, PIECE_DIMS = (WORD * i for i in range(7))

LARGEST_COUNT = 1 << 48  # no count or displacement is above; with the bytes of an element it stays a signed word

#: composite calls, which are made of several operations, by code; the code is in the headers of these operations
COMPOSITE_NAMES = (
    "",
    "split",
    "views",
    "broadcast_object",
    "gather_object",
    "all_gather_object",
    "scatter_object",
    "dup",
    "all_to_all_object",
    "reduce_object",
    "all_reduce_object",
    "scan_object",
    "exscan_object",
    "graph",
    "shared all_gather",
    "shared gather",
    "shared broadcast",
    "shared scatter",
    "MPI_Finalize",
)


# --- words that hold several numbers ----------------------------------------------------------------------------------


def pack_call(operation: int, dtype: int, reduction: int, algorithm: int, dimensions: int) -> int:
    """Return the word that describes a call: 8 bits each of the operation, dtype, reduction, algorithm and number of
    dimensions, and above them the composite call. `algorithm`: the word ALGORITHM, with the composite call in it."""
    return operation | dtype << 8 | reduction << 16 | algorithm << 24 | dimensions << 32


def call_operation(call: int) -> int:
    return call & 0xFF


def call_dtype(call: int) -> int:
    return call >> 8 & 0xFF


def call_reduction(call: int) -> int:
    return call >> 16 & 0xFF


def call_algorithm(call: int) -> int:
    return call >> 24 & 0xFF


def call_dimensions(call: int) -> int:
    return call >> 32 & 0xFF


def call_composite(call: int) -> int:
    return call >> (24 + COMPOSITE_SHIFT)


def pack_piece(kind: int, dtype: int, dimensions: int) -> int:
    """Return the word KIND of a piece."""
    return kind | dtype << 8 | dimensions << 16


def piece_kind(word: int) -> int:
    return word & 0xFF


def piece_dtype(word: int) -> int:
    return word >> 8 & 0xFF


def piece_dimensions(word: int) -> int:
    return word >> 16


# --- where things are -------------------------------------------------------------------------------------------------


def align(offset: int, unit: int) -> int:
    """Return the smallest multiple of `unit` (a power of two) that is not below `offset`."""
    return (offset + unit - 1) & -unit


def most_ranks(cell_bytes: int) -> int:
    """Return how many ranks a job can have: each needs at least a line of another's cell."""
    return cell_bytes // LINE


def table_words(ranks: int) -> int:
    return TABLE_SIZES * ranks + TABLE_ENDS


def table_bytes(ranks: int) -> int:
    """Return the room of a table. broadcast and scatter store dimensions there for which a header has no room."""
    return align(max(table_words(ranks), MOST_DIMENSIONS - HEADER_MAX_DIMS) * WORD, LINE)


def header_offset(sequence: int) -> int:
    """Return the offset within a mailbox of the header of operation `sequence`."""
    return (sequence & (HEADERS - 1)) * HEADER_BYTES


def rings_offset(ranks: int) -> int:
    """Return the offset of the words about rings within a mailbox."""
    return TABLES + 2 * table_bytes(ranks)


@cache
def mailbox_bytes(ranks: int) -> int:
    return rings_offset(ranks) + align(ranks * WORD, LINE)


@cache
def mailboxes_offset(ranks: int) -> int:
    """Return the offset of the mailboxes within the region of a group of `ranks`. The following functions are alike."""
    return align(MEMBERS + ranks * WORD, PAGE)


def mailbox_offset(ranks: int, rank: int) -> int:
    return mailboxes_offset(ranks) + rank * mailbox_bytes(ranks)


@cache
def ending_offset(ranks: int, rank: int) -> int:
    return mailbox_offset(ranks, ranks) + rank * RECORD_BYTES


@cache
def site_offset(ranks: int, rank: int) -> int:
    return ending_offset(ranks, ranks) + rank * RECORD_BYTES


@cache
def flight_offset(ranks: int, rank: int) -> int:
    return site_offset(ranks, ranks) + rank * FLIGHT_ENTRIES * FLIGHT_BYTES


@cache
def cells_offset(ranks: int) -> int:
    return align(flight_offset(ranks, ranks), PAGE)


@cache
def group_bytes(ranks: int, window_bytes: int) -> int:
    return align(cells_offset(ranks) + 2 * ranks * window_bytes, PAGE)


def record_offset(ranks: int, rank: int, by: int) -> int:
    """Return the offset of the record of `rank` in the arena of a job of `ranks`. The following functions are alike."""
    return RECORDS + (by * ranks + rank) * RECORD_BYTES


@cache
def directory_offset(ranks: int, rank: int) -> int:
    return align(RECORDS + 2 * ranks * RECORD_BYTES, PAGE) + rank * DIRECTORY_BYTES


def world_offset(ranks: int) -> int:
    return directory_offset(ranks, ranks)


@cache
def arena_bytes(ranks: int, window_bytes: int) -> int:
    """Return the bytes that a job of `ranks` commits at its start: all up to the end of the world's region."""
    return world_offset(ranks) + group_bytes(ranks, window_bytes)
