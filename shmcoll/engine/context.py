"""A rank's private context: the words that a routine works from. Pure offsets, no OS calls.

One context per communicator and rank, an int64 array in private memory. Python fills it once,
`engine/native/arguments.py` writes the arguments of each call into it, and routines read it. Offsets in bytes. Private
words are read with `peek` and written with `poke`; words of the arena never are.
"""

from shmcoll.engine.layout import WORD

(
    ACTIVE,  # the thread whose call is inside native code; minus it between the phases of a call; ENDED; else 0
    OWNER,  # who may call: 0 for any thread, RECEIVES_POSTED, NOBODY, or the one thread that has the turn
    COLLECTIVE,  # the thread that makes a collective of several calls, or waits for its turn; see `entering.py`
    MET,  # the thread in whose collective the last call was refused as NOT_ALONE, in the same form
    THREAD,  # the saved Python thread state while the GIL is released; 0 when nobody calls through Python
    GROUP,  # address of the group region
    RANKS,  # address of one word a rank of the group: the rank of the world that it is
    MAILBOXES,  # address of the mailbox of rank 0
    STRIDE,  # bytes from one mailbox to the next
    CELLS,  # address of window 0 of rank 0, see `engine/protocol/cells.py`
    RECORDS,  # address of the record that rank 0 of the world writes about itself
    RECORDS_LAUNCHER,  # address of the launcher's record about it
    RANK,
    SIZE,
    SEQUENCE,  # number of the last collective that this rank published
    POLLS,  # a wait polls so often; adapts itself, but stays 0 when ranks outnumber cores
    YIELDS,  # then yields the core so often
    SLEEP,  # then sleeps in slices of so many ns
    TIMEOUT,  # limit of one wait, ns
    CELL_BYTES,
    WINDOW_BYTES,
    FLAT_BYTES,
    SLICE_BYTES,
    SCRATCH,  # address of private memory for accumulators and for pieces, PIECE_BYTES and a page long
    CULPRIT,  # rank that a failed call complains about
    DETAIL,  # and two words about what; further down are their names in each operation
    DETAIL_2,
    OPERATION,  # the call: operation, reduction, two more arguments, algorithm (0: whichever is best; above it the
    # composite call of which this is a part, see `layout.py`), fingerprint
    REDUCTION,
    ARGUMENT,
    ARGUMENT_2,
    ALGORITHM,
    FINGERPRINT,
    KERNEL,  # address of the reduce kernel for the dtype and reduction
    MOVED,  # bytes of all arrays given so far
    SLEPT,  # ns that waits have slept so far
    STREAM_BYTES,  # results as long as this are written past the caches
    FLIGHTS,  # address of this rank's ring in the flight recorder
    ARENA,  # address of the arena, and how long it is
    ARENA_BYTES,
    MAIL,  # address of private memory about messages, see `engine/messages/ring_buffers.py`
    RINGS,  # bytes from the beginning of a mailbox to its words about rings
    RING_BYTES,  # reductions of a group go through the cells while they are shorter, round the ring then
    NOTED,  # the mailbox in which the recorder has noted that this message sleeps; 0: it has not
    SENDING,  # 1 between the phases of a send: what is received meanwhile does not end the call
    KIND,  # the form of the operation, see `engine/collective.py`
    SHARED_BYTES,  # arrays in the arena from which a peer gets so many bytes are read in place; so are
    DIRECT_BYTES,  # private arrays from which each peer gets so many other ones
    EXCHANGE_BYTES,  # private arrays from which it gets so many, where every rank also reads
    TO_ALL_BYTES,  # private arrays that all peers read whole
    EXPOSING_BYTES,  # the smallest of them
    READABLE,  # whether all peers can read this rank's private memory, see `engine/protocol/peer_memory.py`
    OWN_WITNESS,  # a random number, for peers to read
    FOUND_WITNESS,  # what has been read of a peer's
    BESIDE,  # waits so far for a peer on the core of this rank, since BESIDE_SINCE; see `protocol/placement.py`
    BESIDE_SINCE,
    PACED_BYTES,  # exchanges of so many bytes for each peer go the way that was faster; see `protocol/ways.py`
    TIMED,  # the choice by which the blocks of this call go, see there; 0: none, or it has been made
    FETCH_PACE,  # see `protocol/pace.py`
    WRITE_PACE,
    PASS_PACE,
    WRITES,
    CROWDED,  # whether there are more ranks than cores
    HELPERS,  # address of a word: how many threads of this process are ours, and make no call by themselves
) = (WORD * i for i in range(64))

# how far this rank is, see `engine/protocol/sync.py`
TURN, HISTORY, CREDIT = (WORD * i for i in range(91, 94))

PLACES = 94 * WORD  # address of a table of lines, see `engine/native/call_places.py`; 0: none are noted

PROFILE = 82 * WORD  # address of what is recorded of this communicator, see `engine/protocol/profile.py`; 0: nothing
CHOICES = 90 * WORD  # where the words of `engine/protocol/choices.py` are, from here on; 0: nothing is measured

# this rank's windows, see `engine/native/window_memory.py`
(
    COMMIT_BY,  # address of madvise; 0: all of them are committed
    COMMITTED,  # bytes at the beginning of each that are committed
    FEW_BYTES,  # the most bytes that a call may stage for which the beginnings will do
) = (WORD * i for i in range(83, 86))

TEAM = 86 * WORD  # address of the team of threads, see `engine/protocol/team.py`
TEAM_BYTES = 87 * WORD  # copies and sums of so many bytes are done in parts by the team; without one, out of reach

# the block map of a call, see `engine/protocol/block_mover.py`
(
    READS_FROM,  # the only rank from which this one gets a block; ANYONE; this rank itself: it gets none
    SENDS_TO,  # the only rank that gets a block of this one, likewise
    SOURCE, SOURCE_STEP, SOURCE_TABLE,  # the block for rank i is at SOURCE + SOURCE_STEP * (i or entry i of a table)
    TARGET, TARGET_STEP, TARGET_TABLE,  # that from rank i goes to a place of the same form
    LENGTH, SENT_COUNTS, RECEIVED_COUNTS,  # bytes of each block; with tables of counts, bytes of each element
    OWN_BYTES,  # bytes that this rank sends to itself
    IS_CUT,  # each reader gets a block of its own, and has a share of the cell; else all read the same block
    PART,  # the most bytes of a block in one round
    SOURCE_RUN, SOURCE_STRIDE, TARGET_RUN, TARGET_STRIDE,  # of rows of runs (`kernels/kernels.py`); equal: contiguous
) = (WORD * i for i in range(64, 82))  # fmt: skip

# two array views, filled from ndarrays by engine/native/arguments.py
X = 96 * WORD
OUT = 104 * WORD
DATA, COUNT, ITEM, BYTES, DIMENSIONS, DIMS, DTYPE = (WORD * i for i in range(7))

# further integer arguments of the call
EXTRA = 112 * WORD
EXTRA_WORDS = 16

CONTEXT_WORDS = 128  # what the routines see; engine/native/tables.py keeps its own tables behind

SCRATCH_BYTES = 64 << 10  # of accumulators
PIECE_BYTES = 256 << 10  # of what is read through the scratch memory: the caches of most cores hold twice as much
OUT_OF_REACH = 1 << 62  # a number of bytes that no array has

ENDED = -1  # in ACTIVE: the group has ended, nobody enters again

# in OWNER; `runtime/turns.py` says who writes it
NOBODY = -1  # no thread has the turn, and one waits for it
RECEIVES_POSTED = -2  # any thread may call, but a message that is to be received, or is long, waits for its turn
SHUT = -3  # no thread enters any more

LATER = 16  # phases from here on belong to a call that has begun; all other calls begin

# --- words that have another name in some operations ------------------------------------------------------------------

RECV_PHASE = REDUCTION  # of recv: FETCH, DATA, TRY, ...
SEND_MEMORY = REDUCTION  # of send: where the memory is that it has asked for, or how it goes on without any
ROWS = 0xFF  # in REDUCTION, of a collective that exchanges rows of objects, see `engine/native/object_rows.py`
FORM = ALGORITHM  # of a message: ARRAY, WHOLE, SEGMENTS

WANTED = DETAIL  # of a send that returns ASKS: bytes of memory, or EMPTY_RING, BLOCKED, FINISHED of `send.py`
FIRST_VALUE, SECOND_VALUE = DETAIL, DETAIL_2  # addresses of the values for which a user's function has raised
UNLIKE_AXIS, UNLIKE_NEIGHBOUR = DETAIL, DETAIL_2  # 1 + the axis along which CULPRIT and the neighbour meet, or 0

# --- statuses ---------------------------------------------------------------------------------------------------------

# What an entry or a routine returns. recv returns OK as a negative number, which says where the message came from.
# The entry distinguishes these and no others:
(
    OK, NO_EFFECT, GIVES_WAY, BUSY, ABORTED, TIMEOUT_PASSED, MISMATCH, PEER_LOST, REFUSED, INTERRUPTED, BROKEN, HALFWAY,
    RAISED, DEADLOCKED, UNREADABLE, UNDER_WAY, NOT_ALONE, NO_MEMORY,
) = range(18)  # fmt: skip

# Below OK: rows of objects have been exchanged, and other parts follow. GOES_ON_ALONE: COLLECTIVE has this thread now
GOES_ON, GOES_ON_ALONE = -1, -2

# NO_EFFECT: the call has ended, or has not begun, and the group goes on. Why:
NEEDS_PYTHON = NO_EFFECT  # entry and gate: Python must look at the arguments; nothing has been published
KEEP_WAITING = NO_EFFECT  # wait.look: there is no reason to stop waiting
SEND_FIRST = NO_EFFECT  # recv, FETCH and FILL: only this rank itself could send the message, and it is waiting
WITHDRAWN = NO_EFFECT  # recv, while it reads: the sender has taken its message back
NOTHING_YET = NO_EFFECT  # recv, TRY: no message has arrived
SLICE_OVER = NO_EFFECT  # recv, ATTEND: nothing more has arrived in a slice

# GIVES_WAY: a receive has waited, and another thread wants to call; it has read nothing, and the caller posts it

# REFUSED: the arguments of several ranks do not fit; no byte of a result has moved, and the group goes on. Which:
DISAGREE = REFUSED  # counts, dtypes or shapes of the ranks; all ranks find it together
OVERLAP = REFUSED  # the shared arrays of the ranks; all ranks find it together
DOES_NOT_FIT = REFUSED  # recv: the message that has been found does not fit `out`, and stays
SOURCE_LOST = REFUSED  # recv, ATTEND: another rank has failed, or all others have left; posted receives are looked at

# UNDER_WAY: of a message to or from another node: MPI moves it, and Python waits for that or sees to it later

# NOT_ALONE: entry and gate: another thread makes a collective on this communicator; nothing has been published

# NO_MEMORY: the windows of this rank got no memory; nothing has been published

# HALFWAY: the call has begun, and the same thread goes on with its next phase. What for:
COUNTS_KNOWN = HALFWAY  # collectives with counts: the caller can make the result
SHAPE_KNOWN = HALFWAY  # scatter, OPEN: the caller can make the result
FOUND = HALFWAY  # recv, FETCH and TRY: there is a message; FOUND_* of `ring_buffers.py` say what it is
LOOKED = HALFWAY  # recv, SEEK: there is a message if DONE is UNREAD
ASKS = HALFWAY  # send: WANTED says what for
