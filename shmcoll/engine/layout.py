"""The arena and a rank's private context as pictures: magic, version, offsets. No OS calls, no state.

    arena, one file mapped by every rank (offsets in bytes, everything little-endian 64-bit words)

    0        JOB PAGE      magic, version, sizes, nonce, thresholds; written by the creator before anyone attaches
    4096     RECORDS       2 x ranks records of 2 KiB: how each rank fares, told by itself and by the launcher
    ...      GROUP         one region per group, page aligned; group 0 is the world

    group region of n ranks

    0        ABORT         one word: 0, or 1 once the group has ended. Anyone sets it, always to 1
    4096     MAILBOXES     n x (1 KiB + tables): what rank r tells its peers; r is the only writer, except for SEMAPHORE
    ...      CELLS         n x 2 x cell_bytes: staging memory, two cells a rank, used in turn

    mailbox of one rank

    0        HEADER 0      sequence, fingerprint, 48 bytes of payload | what the call is, for messages
    256      HEADER 1      the same for odd sequence numbers: headers alternate by parity
    512      PROGRESS      (sequence << STEP_BITS) + steps done within that operation
    640      PARKED        0, or 1 + the rank whose word this rank sleeps on
    768      SEMAPHORE     sem_t, shared between processes: the doorbell of this rank
    896      STATISTICS    bytes of arrays given to collectives, ns slept in waits, 1; written at the rank's end
    1024     TABLE 0       TABLE_ROWS x n words: counts and displacements of an all_to_all_v
    ...      TABLE 1       the same for odd sequence numbers

Words that different ranks write lie at least 128 bytes apart: two cache lines, because processors fetch them in pairs.
"""

MAGIC = int.from_bytes(b"SHMCOLL\x00", "little")
VERSION = 1

WORD = 8
LINE = 128
PAGE = 4096

# --- job page ---------------------------------------------------------------------------------------------------------
JOB_MAGIC = 0
JOB_VERSION = 8
JOB_BYTES = 16  # size of the whole mapping
JOB_RANKS = 24
JOB_NONCE = 32  # 16 random bytes, told to the ranks by whoever started them
JOB_CREATOR = 48  # pid
JOB_CREATED = 56  # CLOCK_MONOTONIC, ns
JOB_CELL_BYTES = 64
JOB_FLAT_BYTES = 72  # all_reduce: up to here everybody reads everybody, above it the ring
JOB_SLICE_BYTES = 80  # all_reduce: longest slice that travels the ring
JOB_TIMEOUT = 88  # default limit of one wait, ns
JOB_CREATOR_START = 96  # start time of the creator: with its pid it names a process for ever
JOB_CORES = 104  # cores that the job may use: more ranks than these take turns

# --- records ----------------------------------------------------------------------------------------------------------
RECORDS = PAGE
RECORD_BYTES = 2048
RECORD_STATE = 0
RECORD_CAUSE = 8
RECORD_CODE = 16
RECORD_TIME = 24  # CLOCK_MONOTONIC, ns
RECORD_PID = 32
RECORD_START = 40  # start time of the process in clock ticks since boot: with the pid it names a process for ever
RECORD_LENGTH = 48
RECORD_CHECK = 56  # crc32 of the words above and the text
RECORD_TEXT = 64
RECORD_TEXT_BYTES = RECORD_BYTES - RECORD_TEXT

BY_RANK, BY_LAUNCHER = 0, 1

# --- group region -----------------------------------------------------------------------------------------------------
ABORT = 0
MAILBOXES = PAGE

HEADER_BYTES = 256
HEADER_SEQUENCE = 0
HEADER_FINGERPRINT = 8
HEADER_INLINE = 16
INLINE_BYTES = 48
HEADER_CALL = 64  # op | dtype << 8 | reduce op << 16 | number of dimensions << 24
HEADER_ARGUMENTS = 72  # two words: root, or split and concat axis
HEADER_COUNT = 88  # elements of x
HEADER_DIMS = 96
HEADER_MAX_DIMS = 8  # the fingerprint covers all of them; the message shows these

PROGRESS = 512
PARKED = PROGRESS + LINE
SEMAPHORE = PARKED + LINE
STATISTICS = SEMAPHORE + LINE
STATISTICS_MOVED, STATISTICS_SLEPT, STATISTICS_LEFT = STATISTICS, STATISTICS + 8, STATISTICS + 16
TABLES = 1024

STEP_BITS = 24

# rows of an all_to_all_v table, each of n words; then TABLE_SIZES holds source and destination elements
SEND_COUNTS, SEND_DISPLS, RECV_COUNTS, RECV_DISPLS, RECV_ROOM, TABLE_SIZES = range(6)
TABLE_ROWS = 6

CELL_BYTES = 256 << 10

#: operations by code; the code stands in the header
OPERATION_NAMES = ("", "barrier", "all_reduce", "all_to_all", "gather", "all_to_all_v")
BARRIER, ALL_REDUCE, ALL_TO_ALL, GATHER, ALL_TO_ALL_V = range(1, 6)


def align(offset: int, unit: int) -> int:
    """The smallest multiple of `unit` (a power of two) that is not below `offset`."""
    return (offset + unit - 1) & -unit


def table_bytes(ranks: int) -> int:
    return align(TABLE_ROWS * max(ranks, 2) * WORD, LINE)


def mailbox_bytes(ranks: int) -> int:
    return TABLES + 2 * table_bytes(ranks)


def cells_offset(ranks: int) -> int:
    """Offset of the cells within the group region."""
    return align(MAILBOXES + ranks * mailbox_bytes(ranks), PAGE)


def group_bytes(ranks: int, cell_bytes: int) -> int:
    return align(cells_offset(ranks) + 2 * ranks * cell_bytes, PAGE)


def record_offset(ranks: int, rank: int, by: int) -> int:
    return RECORDS + (by * ranks + rank) * RECORD_BYTES


def world_offset(ranks: int) -> int:
    """Where group 0 starts."""
    return align(RECORDS + 2 * ranks * RECORD_BYTES, PAGE)


def arena_bytes(ranks: int, cell_bytes: int) -> int:
    """What a job of `ranks` commits: job page, records, and the world's region."""
    return world_offset(ranks) + group_bytes(ranks, cell_bytes)
