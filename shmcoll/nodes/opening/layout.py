"""The words of the state of a group over nodes. Pure offsets. `state.py` fills them, `opening.py` says who writes
which.

A state is private memory of one rank, for one group.
"""

from shmcoll.engine import context as c
from shmcoll.engine.layout import MOST_DIMENSIONS, WORD

STATE = c.MAILBOXES  # in the context of a group over nodes, which has no mailboxes: the address of its state

SLOT_BYTES = 256
SLOT_FINGERPRINTS = 2
SLOT_DATA = SLOT_FINGERPRINTS * WORD  # where a slot has what its rank contributes
MOST_IN_SLOT = SLOT_BYTES - SLOT_DATA  # bytes; equal for all calls, so that they always meet
HEAD = (SLOT_FINGERPRINTS + 1) * WORD  # bytes of a message before the rows

# the bytes of each rank that an opening carries to all, at most, and not more than MOST_ROW: of longer arrays, which
# follow, each goes only where it is needed
MOST_GATHERED = 1 << 62  # MOST_ROW
MOST_PARTIAL = 32 << 10  # all_reduce, reduce, though it be more than MOST_ROW: of what a node has reduced
MOST_SCATTERED = 16 << 10  # reduce_scatter
MOST_EXCHANGED = 16 << 10  # all_to_all
MOST_FOR_ONE, MOST_FOR_ONE_SHARED = 64 << 10, 2 << 10  # collective_permute, gather; if ranks share a node

# of an array that a leader sends from where it is, behind its message, and not from a copy there. MPICH sends pieces
# that have 16 KiB on average as they are, and packs smaller ones
LEAST_APART = 32 << 10

SHAPE_WORDS = 2 + MOST_DIMENSIONS  # dtype and mark, number of dimensions, dimensions
OFFER_WORDS = 3  # elements, their type, the unit of counts
STATE_WORDS = 118
CALL, SHAPES = WORD, 2 * WORD  # behind a plain form: its call in memory; the addresses of the dimensions of x and `out`

(
    INNER,  # context of the node's group
    GATHER_SLOTS,  # the plain form of its all_gather; CALL and SHAPES behind it,
    _,
    _,
    COLLECT,  # the same of its gather,
    _,
    _,
    PUBLISH,  # and of its broadcast
    _,
    _,
    NODES,  # number of nodes, and this rank's
    NODE,
    LOCAL,  # number of ranks of this node, and whether this rank is its leader
    IS_LEADER,
    SHARES,  # whether a node has several ranks, this one or another
    MEMBERS,  # address of the ranks of all nodes, node after node,
    STARTS,  # and of where those of each node begin there
    WORLD_RANKS,  # address of a word for each rank of the group: its number as MPI knows it
    HOMES,  # address of a word for each rank of the group: its node
    INDICES,  # address of a word for each rank of the group: its index in its node
    SLOT,  # address of this rank's slot
    SLOTS,  # address of the slots of the ranks of this node; of SLOT if there is no other
    PUBLISHED,  # address of the verdict, the length of what follows, and that: the blocks of all nodes, or a reduction
    MESSAGES,  # address of the message of each node, and bytes from one to the next
    MESSAGE_BYTES,
    APART,  # address and bytes of what follows the message of this rank from where it is; 0 bytes if nothing does
    APART_BYTES,
    APART_STEP,  # bytes from what goes to one rank to what goes to the next one; 0 if the same goes to all
    PIECES,  # address of what MPI reads to send that (`requests.py`)
    ISEND,  # functions of MPI, and handles
    IRECV,
    TEST,
    TYPE_OF_PIECES,
    TYPE_COMMIT,
    TYPE_FREE,
    BYTE,
    COMM,
    OPENING_TAG,
    DATA_TAG,
    REQUESTS,  # address of LANES times ROOM requests
    ROOM,
    PENDING,  # address of a word for each of them: 0 if it is complete, else 1 + twice the rank, + 1 for a receive
    BEGUN,  # address of two words for each lane: the requests that have begun, and their bytes
    FLAG,  # address of MPI's answer to a test
    STATUS,  # address of memory for MPI's status
    POLLS,  # tests before a leader yields its core between two of them
    WATCH,  # address of the Python function that a waiting rank calls
    SLEEPS,  # whether that function sleeps, so that it is called after each test
    SEQUENCE,  # number of the last opening
    VERDICT,  # of a call that has returned MISMATCH: UNLIKE, PARTLY_UNLIKE or UNLIKE_HERE
    FAILED,  # what has failed, of a call that has returned UNREADABLE: the routine of the node, or 0 for MPI
    FAILED_STATUS,  # and its status
    IS_REFUSED,  # whether MPI has refused to begin a message
    SCRATCH,  # address of MOST_ROW bytes
    CALLED,  # address of the words that describe this rank's call, as in a header (`fingerprint.py`)
    MOST_ROW,  # bytes of each rank that all ranks get in an opening
    RECORD,  # address of the record of this rank's last call (`engine/memory/node_words.py`)
    # of long calls (`native/long_*`)
    RANK,
    INDEX,  # this rank's index in its node
    RAILS,  # number of ranks of each node that send and receive the parts of one array
    GATHER_BLOCKS,  # the same of the all_gather_v of the node,
    _,
    _,
    SWAP_BLOCKS,  # of its all_to_all_v,
    _,
    _,
    REDUCE_BLOCKS,  # of its reduce_scatter,
    _,
    _,
    SCAN,  # of its scan,
    _,
    _,
    EXSCAN,  # and of its exscan
    _,
    _,
    TABLE,  # address of a table of counts of the node's group (`engine/protocol/count_tables.py`)
    BLOCKS,  # address of the addresses and lengths of a block for each rank of the node
    BLOCK_ROWS,  # address of rows of a word for each rank: the blocks of a swap (`long_moves.py`) or a reduce_scatter
    OWN,  # address of memory for what a node has reduced, and bytes of each of its places
    OWN_BYTES,
    PARTS,  # address of memory for what is received from each node, twice, and bytes of each of these
    PART_BYTES,
    PART_PLACES,  # address of a word for each node: the address of what is combined of it
    ROW_PLACES,  # address of a word for each rank: where its operand is, if this rank has those of all
    WIDE,  # address of memory for operands in the type of partial results, if that is another one,
    TOTAL,  # and for a partial result
    SOURCE,  # the reduction that is being made (`partials.py`): operand, result, elements,
    RESULT,
    ELEMENTS,
    STORED_ITEM,  # bytes of an element of these;
    ROOT,  # the only rank that has a result, or ALL;
    LAST,  # the kernel that widens operands and makes the result of a partial result; 0 if these are the same;
    KIND,  # of partial results: operator, its identity, kernel, whether it is ordered; dtype, and bytes of an element
    IDENTITY,
    KERNEL,
    ORDERED,
    DTYPE,
    ITEM,
    WIDE_KERNEL,  # of a user's function, for partial results; Python writes it before the call
    IN_RANK_ORDER,  # whether the ranks are in the order of the nodes
    FIRST_VALUE,  # addresses of the values for which a user's function has raised
    SECOND_VALUE,
    # of calls with counts (`count_rows.py`, `counted.py`)
    TABLES,  # address of the tables of all ranks, one after the other,
    SOURCES,  # and of two words for each rank: address and bytes of its source, if that has come with the opening
    OFFERS,  # if the tables are too long for an opening: addresses of OFFER_WORDS words for each rank, about what this
    OFFERED,  # rank sends, and about what it receives
    SHAPE,  # address of SHAPE_WORDS words: the root's array, if it has more dimensions than an opening has room for
    # of short blocks between many ranks (`leaders.py`)
    DIRECT_BYTES,  # shorter blocks travel in the messages of the leaders; 0: none do
    BY_SENDER,  # addresses of a leader's memory for the blocks that the ranks of its node send,
    BY_RECEIVER,  # for those that they receive,
    TO_NODES,  # and for the message to each node, MESSAGE_BYTES each
    # of calls in which nodes run ahead (`running_ahead.py`)
    HISTORY,  # a hash of all openings so far
    STREAM,  # whether one node sends (FROM) or receives (TO) in calls that run ahead, and which node; else NOBODY
    AHEAD,  # number of calls since the last full opening
    HELD,  # address of a word for each node: whether the message of the next full opening has come from it
    IS_SUSPECT,  # whether this leader knows that calls differ, and waits for the next full opening of the others
    PAST,  # address of the descriptions of the last PAST_CALLS calls
    THEIRS,  # after UNLIKE_HERE: address of the row of the root
) = (WORD * i for i in range(STATE_WORDS))

LANES = 4  # of requests: those of one are awaited together

UNLIKE, PARTLY_UNLIKE, UNLIKE_HERE, FULL = 1, 2, 3, 4  # FULL: within the node, a full opening follows

NOBODY = 0
MOST_AHEAD = 20  # calls: of a rank, MPICH's TCP keeps 64 messages that nobody has asked for, so those of three groups
MOST_IN_ROW_AHEAD = 8 << 10  # bytes: MPI takes messages that are not longer before the receiver asks for them
PAST_CALLS = 32  # a power of two, more than MOST_AHEAD
RAN_AHEAD = 1 << 62  # in the first word of a message: of no full opening
