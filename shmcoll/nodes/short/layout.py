"""The words of the state of native openings. Pure offsets; `state.py` fills them, `opening.py` says who writes which.

A state is private memory of one rank, for one group.
"""

from shmcoll.engine.layout import WORD

SLOT_BYTES = 256
SLOT_MARKS = 2
BROUGHT = SLOT_MARKS * WORD  # where a slot has what its rank brings
MOST_BROUGHT = SLOT_BYTES - BROUGHT  # bytes; equal for all calls, so that they always meet
HEAD = (SLOT_MARKS + 1) * WORD  # bytes of a message before what the ranks have brought

EVERYBODY = -1  # in place of the rank of which all ranks get what it has brought

(
    INNER,  # context of the node's group
    GATHER_SLOTS,  # the plain form of its all_gather,
    GATHER_SLOTS_CALL,  # the call in memory,
    GATHER_SLOTS_SHAPES,  # and the address of the addresses of the dimensions of x, and of `out`
    COLLECT,  # the same of its gather
    COLLECT_CALL,
    COLLECT_SHAPES,
    PUBLISH,  # and of its broadcast
    PUBLISH_CALL,
    PUBLISH_SHAPES,
    NODES,  # number of nodes, and this rank's
    NODE,
    COUNTS,  # address of the number of ranks of each node
    LOCAL,  # number of ranks of this node, and whether this rank is its leader
    IS_LEADER,
    PLACES,  # address of a word for each rank of the group: where its row is among those of all ranks
    HOMES,  # address of a word for each rank of the group: its node
    INDICES,  # address of a word for each rank of the group: its index in its node
    SLOT,  # address of this rank's slot
    SLOTS,  # address of the slots of the ranks of this node; of SLOT if there is no other
    TOLD,  # address of the verdict, and of the rows behind it
    MESSAGES,  # address of the message of each node, and bytes from one to the next
    MESSAGE_BYTES,
    PEERS,  # address of the leader of each node, as MPI numbers it
    ISEND,  # functions of MPI, and handles
    IRECV,
    TEST,
    BYTE,
    COMM,
    OPENING_TAG,
    DATA_TAG,
    REQUESTS,  # address of two requests for each node: receive and send
    PENDING,  # address of two words for each node: whether the request is not complete
    FLAG,  # address of MPI's answer to a test
    STATUS,  # address of memory for MPI's status
    POLLS,  # tests before a leader yields its core between two of them
    WATCH,  # address of the Python function that a waiting leader calls
    SEQUENCE,  # number of the last opening
    VERDICT,  # of a call that has returned MISMATCH: UNLIKE or PARTLY_UNLIKE
    FAILED,  # what has failed, of a call that has returned UNREADABLE: the routine of the node, or 0 for MPI
    FAILED_STATUS,  # and its status
    SCRATCH,  # address of MOST_ROW bytes
    KEYS,  # address of the table of marks, and of the key of the call (`marks.py`)
    KEY,
    MOST_ROW,  # bytes of each rank that all ranks get in an opening
    RECORD,  # address of the record of this rank's last call (`engine/memory/node_words.py`)
) = (WORD * i for i in range(46))

STATE_WORDS = 46

UNLIKE, PARTLY_UNLIKE = 1, 2
