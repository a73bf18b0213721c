"""MPI between the leaders of nodes: what `nodes/opening/requests.py` calls by addresses.

There is a channel from each leader to each other one, in the machine's memory. It keeps the order of its messages, and
a receiver takes the next one at any later step.

    POSTED     how many receives its receiver has begun
    messages   a ring: the number of the message, from 1 on, its bytes, and its words, in one step of the sender

KEPT says how many messages of a channel MPI keeps of which the receive has not begun. If it keeps NONE, a send is
complete when its receive has begun, else at once. More than it keeps are a violation, unless it keeps ANY number.
What MPI does not promise shows: a message has JUNK in it until its receive is complete, and the memory of a send that
is not complete must not change.

What a leader knows of its channels is in its private memory, at the address that is its handle of the communicator. A
handle of a request is the address of its record there.
"""

from shmcoll.engine.atomics import load, peek, poke, store
from shmcoll.engine.layout import WORD
from shmcoll.nodes.opening.requests import C_INT, C_INT_BITS, PIECE_PLACES
from tests.schedule.explorer.program import AWAIT, Violation, perform
from tests.schedule.explorer.stand_ins import SHARED, read, write

ISEND, IRECV, TEST, TYPE_OF_PIECES, TYPE_COMMIT, TYPE_FREE = range(1, 7)  # "addresses"
SEND, RECEIVE = 1, 2
NONE, ANY = 0, -1

MOST_WORDS = 40  # of a message
JUNK = 0x2B2B2B2B2B2B2B2B  # does not look like a message that ran ahead

# --- what a leader knows ----------------------------------------------------------------------------------------------
NODE, NODES, KEPT, NEXT_RECORD, NUMBERS = (WORD * i for i in range(5))
RECORDS = 8  # at a time
MPI, KIND, PEER, NUMBER, ADDRESS, BYTES, APART, APART_BYTES, CONTENT = (WORD * i for i in range(9))
RECORD_WORDS = 8 + MOST_WORDS

# --- a channel --------------------------------------------------------------------------------------------------------
CHANNELS = SHARED + (1 << 47)
POSTED, RING = 0, WORD
RING_MESSAGES = 8
MESSAGE_WORDS = 2 + MOST_WORDS
CHANNEL_BYTES = (1 + RING_MESSAGES * MESSAGE_WORDS) * WORD


def words_of(nodes: int) -> int:
    """Return how much a leader knows."""
    return 4 + 2 * nodes + RECORDS * RECORD_WORDS


def channel(mpi: int, sender: int, receiver: int) -> int:
    return CHANNELS + (sender * peek(mpi + NODES) + receiver) * CHANNEL_BYTES


def place_of(ring: int, number: int) -> int:
    return ring + RING + number % RING_MESSAGES * MESSAGE_WORDS * WORD


def name(nodes: int, address: int) -> str:
    """Return what lies at an address of a channel."""
    number, within = divmod(address - CHANNELS, CHANNEL_BYTES)
    what = "receives begun" if within == POSTED else f"message {(within - RING) // WORD // MESSAGE_WORDS} of the ring"
    return f"{what}, node {number // nodes} to {number % nodes}"


def call_long(function: int, *words: int) -> int:
    """In place of MPI's functions that have more than three arguments."""
    return (make_type if function == TYPE_OF_PIECES else begin)(function, *words)


def make_type(_function: int, count: int, lengths: int, places: int, _byte: int, made: int) -> int:
    """In place of MPI_Type_create_hindexed. A type is the address of what describes it, which MPI does not keep: one
    type is in use at a time."""
    assert count == 2 and peek(places) == 0
    assert lengths + PIECE_PLACES == places
    poke(made, lengths)
    return 0


def begin(function: int, address: int, count: int, made: int, peer: int, _tag: int, mpi: int, request: int) -> int:
    """In place of MPI_Isend and MPI_Irecv, of bytes or of two pieces."""
    is_send, length, apart, apart_length = function == ISEND, count, 0, 0
    if made:
        assert is_send and count == 1
        length, apart_length = peek(made) & C_INT, peek(made) >> C_INT_BITS
        apart = address + peek(made + PIECE_PLACES + WORD)
    assert is_send or function == IRECV
    counter = mpi + NUMBERS + (2 * peer + is_send) * WORD
    number, turn = peek(counter) + 1, peek(mpi + NEXT_RECORD)
    poke(counter, number)
    poke(mpi + NEXT_RECORD, (turn + 1) % RECORDS)
    record = mpi + NUMBERS + (2 * peek(mpi + NODES) + turn * RECORD_WORDS) * WORD
    if peek(record + KIND):
        raise Violation("a request is used again that is not complete")
    kind = SEND if is_send else RECEIVE
    write(record, (mpi, kind, peer, number, address, length, apart, apart_length))
    poke(request, record)
    if is_send:
        _send(mpi, record, _sent(record))
    else:
        write(address, (JUNK,) * (length // WORD))
        store(channel(mpi, peer, peek(mpi + NODE)) + POSTED, number)
    return 0


def _sent(record: int) -> tuple[int, ...]:
    """Return the words that a send reads."""
    apart = read(peek(record + APART), peek(record + APART_BYTES) // WORD)
    return (*read(peek(record + ADDRESS), peek(record + BYTES) // WORD), *apart)


def _send(mpi: int, record: int, words: tuple[int, ...]) -> None:
    ring, number = channel(mpi, peek(mpi + NODE), peek(record + PEER)), peek(record + NUMBER)
    kept = peek(mpi + KEPT)
    if kept > 0 and number - load(ring + POSTED) > kept:
        raise Violation("more messages are on their way than MPI keeps")
    write(record + CONTENT, words)
    write(place_of(ring, number), (number, len(words) * WORD, *words))


def call(function: int, request: int, flag: int, _status: int) -> int:
    """In place of MPI's other functions."""
    return test(request, flag) if function == TEST else 0


def test(request: int, flag: int) -> int:
    """In place of MPI_Test, which comes back when the request is complete, or at the end of a slice."""
    record = peek(request)
    mpi = peek(record + MPI)
    is_complete = (_is_taken if peek(record + KIND) == SEND else _has_come)(mpi, record)
    if is_complete:
        poke(record + KIND, 0)
    poke(flag, is_complete)
    return 0


def _is_taken(mpi: int, record: int) -> bool:
    ring, number = channel(mpi, peek(mpi + NODE), peek(record + PEER)), peek(record + NUMBER)
    if peek(mpi + KEPT) == NONE and perform(AWAIT, ring + POSTED, (number, 1)) is None:
        return False
    sent = _sent(record)
    if sent != read(record + CONTENT, len(sent)):
        raise Violation("a leader has changed a message before MPI had taken it")
    return True


def _has_come(mpi: int, record: int) -> bool:
    ring, number = channel(mpi, peek(record + PEER), peek(mpi + NODE)), peek(record + NUMBER)
    come = perform(AWAIT, place_of(ring, number), (number, MESSAGE_WORDS))
    if come is None:
        return False
    assert come[0] == number, "the ring of a channel is too small"
    if come[1] > peek(record + BYTES):
        raise Violation("a message is longer than its receiver provides")
    write(peek(record + ADDRESS), come[2 : 2 + come[1] // WORD])
    return True
