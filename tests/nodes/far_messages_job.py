"""What each rank of a job over nodes runs to try messages between nodes, each with the same rank of the other node. It
asserts. The ways of native code are forced by what the other rank does, not by time."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.nodes.mpi.waiting import ASKING_BYTES
from shmcoll.nodes.mpi.wire import MESSAGE, PAYLOAD, READY
from shmcoll.nodes.point_to_point import unexpected
from shmcoll.nodes.point_to_point.message_state import MOST_OUTGOING
from shmcoll.nodes.point_to_point.message_words import INLINE_BYTES
from tests.nodes.messages_job import near_and_far, raised, run
from tests.support.threaded import CALLS, WAITS, X, in_thread, take_all

INT64 = BY_NUMPY[np.dtype(np.int64)].code
WORD = 8
LONG = 1 << 19  # elements, 4 MiB
LONGER = 1 << 22  # elements, 32 MiB: the sender waits for 2 ms
MANY = 300  # MPICH's network over TCP keeps 64 messages of a rank that nobody has asked for
LATE = 0.3  # seconds; native code waits for a hundredth of that


def is_first(comm: Any) -> bool:
    """Return whether this rank begins, of the two."""
    return comm.rank < near_and_far(comm)[1]


def many_before_they_are_wanted(comm: Any) -> None:
    """The collectives that follow do not wait behind messages that nobody has asked for."""
    far = near_and_far(comm)[1]
    with comm.dup() as other:
        for i in range(MANY):
            comm.send(np.array([i]), far, i)
            other.send_object(i, far)
        for length in (1, 1 << 12, 1 << 16):
            assert comm.all_reduce(np.ones(length))[0] == comm.size
            assert comm.all_to_all(np.ones((comm.size, length))).sum() == comm.size * length
        for i in range(MANY):
            assert comm.recv(source=far, tag=i)[0].tolist() == [i]
            assert other.recv_object(far)[0] == i


def every_shape_and_dtype(comm: Any) -> None:
    far = near_and_far(comm)[1]
    for dtype in ("bool", "int8", "uint16", "float16", "float32", "int64", "complex128"):
        for shape in ((), (0,), (3, 0, 2), (1,), (5, 7), (1,) * 20, (1,) * 64):
            x = (np.arange(np.prod(shape, dtype=int)) + comm.rank).astype(dtype).reshape(shape)
            expected = (np.arange(x.size) + far).astype(dtype).reshape(shape)
            comm.send(x, far)
            comm.send(x, far)
            found, source, tag = comm.recv(source=far)
            assert (source, tag, found.dtype, found.shape) == (far, 0, expected.dtype, shape)
            assert (found == expected).all() and found.flags.owndata
            out = np.zeros(x.size, dtype)
            assert comm.recv(out, far)[0] is out
            assert (out == expected.reshape(-1)).all()


def lengths_around_the_limits(comm: Any) -> None:
    """Bytes that follow their head and bytes that do not, in turn; into an array with room for more, and into a new
    one; also more than native code has memory for."""
    far = near_and_far(comm)[1]
    lengths = [INLINE_BYTES + i for i in (-1, 0, 1)] + [1, 1 << 20, MOST_OUTGOING, 100, MOST_OUTGOING + 1]
    for turn in range(2):
        for i, length in enumerate(lengths):
            comm.send(np.full(length, comm.rank + i, np.uint8), far, i)
        for i, length in enumerate(lengths):
            out = np.zeros(length + 7, np.uint8) if turn else None
            array, *_ = comm.recv(out, far, i)
            assert array.shape == (length,) and (array == far + i).all()
            assert out is None or not out[length:].any()


def strided(comm: Any) -> None:
    far = near_and_far(comm)[1]
    x = np.arange(40.0).reshape(4, 10)
    comm.send(x[:, ::3], far)
    comm.send(x.T, far)
    assert (comm.recv(source=far)[0] == x[:, ::3]).all()
    out = np.zeros((10, 4, 2))
    comm.recv(out[..., 1], far)
    assert (out[..., 1] == x.T).all() and not out[..., 0].any()


def may_be_changed_at_once(comm: Any) -> None:
    """What has been sent may be changed, though the other rank does not receive yet."""
    far, x = near_and_far(comm)[1], np.arange(LONG)
    for turn in range(5):
        x[:] = turn
        comm.send(x, far, turn)
    comm.barrier()
    for turn in range(5):
        assert (comm.recv(source=far)[0] == turn).all()


def the_wrong_one_first(comm: Any) -> None:
    """A message that native code has found, and that does not fit, stays for the next receive, in its order."""
    far = near_and_far(comm)[1]
    for tag, x in ((1, np.ones(3)), (2, np.ones(4, np.int16)), (3, np.ones(LONG))):
        comm.send(x, far, tag)
    comm.send_object("object", far, 4)
    comm.barrier()
    out = np.zeros(2)
    assert isinstance(raised(lambda: comm.recv(out, far, 1)), ValueError)
    assert isinstance(raised(lambda: comm.recv(out, far, 2)), TypeError)
    assert isinstance(raised(lambda: comm.recv_object(far, 3)), TypeError)
    assert isinstance(raised(lambda: comm.recv(out, far, 4)), TypeError)
    assert comm.recv_object(far, 4) == ("object", far, 4)
    assert [comm.recv(source=far)[2] for _ in range(3)] == [1, 2, 3]


def bytes_come_late(comm: Any) -> None:
    """A receive that has its head waits for the bytes; those that follow take their turn."""
    far = near_and_far(comm)[1]
    x = np.arange(LONG) + comm.rank
    for out in (None, np.zeros(LONG, np.int64), np.zeros(LONG + 5, np.int64)):
        comm.barrier()
        channel = comm._dispatcher.channel
        requests = channel.isend(unexpected.head(5, INT64, x.shape, 0), far, MESSAGE)
        time.sleep(LATE)
        requests += channel.isend(x.view(np.uint8), far, PAYLOAD)
        comm.send(np.arange(3), far, 6)
        array, source, tag = comm.recv(out, far)
        assert (source, tag) == (far, 5) and (array == np.arange(LONG) + far).all()
        assert comm.recv(source=far)[0].tolist() == [0, 1, 2]
        channel.wire.mpi.Request.Waitall(requests)


def matched_and_late(comm: Any) -> None:
    """A receive that cannot be withdrawn, because MPI has found its message, gets it when it has come."""
    far, length = near_and_far(comm)[1], INLINE_BYTES // WORD
    x = np.arange(length) + comm.rank
    message = np.concatenate([unexpected.head(5, INT64, x.shape, 0), x.view(np.uint8)])
    for _ in range(3):
        comm.barrier()
        if is_first(comm):
            request = comm._dispatcher.channel.isend(message, far, MESSAGE)
            time.sleep(LATE)  # MPI may need this rank's help
            channel = comm._dispatcher.channel
            channel.wire.mpi.Request.Waitall(request)
        else:
            array, source, tag = comm.recv(source=far)
            assert (source, tag) == (far, 5) and (array == np.arange(length) + far).all()


def left_sends(comm: Any) -> None:
    """A rank that receives late stops nobody, and sees the order of what was sent."""
    far = near_and_far(comm)[1]
    if is_first(comm):
        for i in range(6):
            comm.send(np.full(LONG if i % 2 else 2, i), far)
        comm.send_object([1], far)
    else:
        time.sleep(LATE)
        for i in range(6):
            assert (comm.recv(source=far)[0] == i).all()
        assert comm.recv_object(far)[0] == [1]


def from_the_array_itself(comm: Any) -> None:
    """If the receiver waits, long messages are sent from the array of the call, which may be changed afterwards; new
    arrays, parts of arrays, and objects. On a busy machine it may not wait yet, and they are copied."""
    far, copies, turn, is_done = near_and_far(comm)[1], copied(comm), 0, False
    x, out = np.zeros(LONGER, np.int64), np.zeros(LONGER + 3, np.int64)
    while not is_done:
        x[:] = turn
        if is_first(comm):
            comm.recv(source=far, tag=1)
            time.sleep(LATE / 30 if turn % 2 else 0)  # the other one waits in Python by now, or in native code
            comm.send(x, far)
            x[:] = -1
            comm.send_object(bytes(LONGER), far)
            is_done = turn >= 6 and len(copies) <= turn
            comm.send(np.array([is_done]), far)
        else:
            comm.send(np.ones(1), far, 1)
            array = comm.recv((None, out, x)[turn % 3], far)[0]
            assert array.shape == (LONGER,) and (array == turn).all() and not out[LONGER:].any()
            assert comm.recv_object(far)[0] == bytes(LONGER)
            is_done = comm.recv(source=far)[0].item()
        turn += 1
        assert turn < 200


def to_one_that_does_not_wait(comm: Any) -> None:
    """A sender does not wait for a rank that has posted the receive, and computes."""
    far, copies = near_and_far(comm)[1], copied(comm)
    x = np.full(LONGER, comm.rank)
    work = comm.recv(source=far, tag=8, async_op=True) if not is_first(comm) else None
    comm.barrier()
    if is_first(comm):
        comm.send(x, far, 8)
        x[:] = -1
        assert copies == [x.nbytes]
        comm.send(x, far, 9)
    else:
        assert comm.recv(source=far, tag=9)[0][0] == -1
        assert work.wait()[0].tolist() == [far] * LONGER


def copied(comm: Any) -> list[int]:
    """Return a list that gets the bytes of each message from now on that is longer than the memory of native code and
    is not sent from its array."""
    matching, found = comm._dispatcher.far_messages._matching, []
    send_rest = type(matching)._send_rest

    def note(left: Any) -> None:
        if left.unsent:
            found.append(left.unsent)
        send_rest(matching, left)

    matching._send_rest = note
    return found


def ready_too_late(comm: Any) -> None:
    """Senders that have not waited for their receiver go on. What says too late that it is ready is not taken for the
    answer to a later message, and stops nothing."""
    far, channel = near_and_far(comm)[1], comm._dispatcher.channel
    x, out = np.arange(ASKING_BYTES // WORD), np.zeros(ASKING_BYTES // WORD, np.int64)
    if is_first(comm):
        for i in range(5):
            x[0] = i
            comm.send(x, far)
    comm.barrier()
    requests: list[Any] = []
    if not is_first(comm):
        for i in range(5):
            assert comm.recv(out, far)[0][0] == i
        for _ in range(100):  # MPICH's network over TCP keeps 64
            requests += channel.isend(np.zeros(1, np.int64).view(np.uint8), far, READY)
    for length in (1, 1 << 12):
        assert comm.all_reduce(np.ones(length))[0] == comm.size
    for turn in range(20):
        x[0] = 1000 + turn
        if is_first(comm):
            comm.send(x, far)
        else:
            assert comm.recv(out, far)[0][0] == 1000 + turn
            assert (out[1:] == x[1:]).all()
    channel.wire.mpi.Request.Waitall(requests)


def both_send_first(comm: Any) -> None:
    """Long messages that cross; as a call of each, and as sendrecv."""
    far, x, out = near_and_far(comm)[1], np.arange(LONG), np.zeros(LONG, np.int64)
    for turn in range(5):
        x[0] = turn
        comm.send(x, far)
        x[0] = -1
        assert comm.recv(out, far)[0] is out and out[0] == turn and (out[1:] == x[1:]).all()
        x[0] = turn
        assert (comm.sendrecv(x, far, out, far)[0] == x).all()


def threads(comm: Any) -> None:
    """Threads that send and receive at once, in one group: each sees the order of its own tag."""
    far, wrong = near_and_far(comm)[1], []

    def exchange(tag: int) -> None:
        try:
            for i in range(60):
                length = (1, 5000, 20000, LONG // 4)[(i + tag) % 4]
                comm.send(np.full(length, i * 10 + tag), far, tag)
                array = comm.recv(None if i % 2 else np.zeros(LONG // 4, np.int64), far, tag)[0]
                assert array.shape == (length,) and (array == i * 10 + tag).all()
        except BaseException as error:
            wrong.append(error)
            raise

    running = [threading.Thread(target=exchange, args=(tag,)) for tag in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong, wrong


def native_and_posted(comm: Any) -> None:
    """Receives that were posted come first; then native code goes on, with what follows."""
    far = near_and_far(comm)[1]
    for turn in range(20):
        work = comm.recv(source=far, tag=1, async_op=True)
        comm.send(np.array([turn, 1]), far, 1)
        comm.send(np.array([turn, 2]), far, 1)
        assert comm.recv(source=far, tag=1)[0].tolist() == [turn, 2]
        assert work.wait()[0].tolist() == [turn, 1]
        comm.send(np.array([turn, 3]), far, 1)
        assert comm.recv(source=far)[0].tolist() == [turn, 3]


def from_anybody(comm: Any) -> None:
    """A receive from ANY gets what comes first of what fits; what does not fit stays."""
    near, far = near_and_far(comm)
    for turn in range(30):
        for peer in (near, far) if turn % 2 else (far, near):
            comm.send(np.array([turn, comm.rank]), peer, 1)
        comm.send_object(turn, far, 2)
        comm.send(np.full(INLINE_BYTES, turn, np.uint8), far, 3)
        assert comm.recv_object(tag=2) == (turn, far, 2)
        out = np.zeros(INLINE_BYTES + turn % 2, np.uint8)
        assert comm.recv(out, tag=3)[1:] == (far, 3) and (out[:INLINE_BYTES] == turn).all()
        found = [comm.recv(tag=1), comm.recv(None if turn % 3 else np.zeros(2, np.int64))]
        assert {source: array.tolist() for array, source, _ in found} == {rank: [turn, rank] for rank in (near, far)}
        comm.barrier()  # a quick rank sends no messages of the next turn
    comm.send(np.ones(3), far, 1)
    comm.send_object("object", far, 2)
    comm.barrier()
    assert isinstance(raised(lambda: comm.recv(tag=-2)), ValueError)
    assert isinstance(raised(lambda: comm.recv(np.zeros(2))), ValueError)
    assert isinstance(raised(lambda: comm.recv(np.zeros(3, np.int32), tag=1)), TypeError)
    assert isinstance(raised(lambda: comm.recv_object(tag=1)), TypeError)
    assert isinstance(raised(lambda: comm.recv(tag=2)), TypeError)
    assert comm.recv_object(tag=2) == ("object", far, 2)
    out = np.zeros((3, 2))
    assert comm.recv(out[:, 1])[1:] == (far, 1) and out[:, 1].tolist() == [1, 1, 1]


def beside_one_that_waits(comm: Any) -> None:
    """A thread that waits for a message keeps no other thread from calling."""
    for peer in near_and_far(comm):
        for way, wait in WAITS.items():
            for call in CALLS.values():
                found = in_thread(lambda wait=wait, peer=peer: wait(comm, peer))  # type: ignore[misc]
                call(comm, peer)
                comm.barrier()
                (comm.send_object if way == "recv_object" else comm.send)(X, peer, 7)
                assert (found() == X).all()
                take_all(comm)
                comm.barrier()


def threads_from_anybody(comm: Any) -> None:
    """Threads that receive from ANY at once get each message once."""
    near, far = near_and_far(comm)
    received: list[tuple[int, int]] = []

    def receive() -> None:
        for _ in range(40):
            array, source, tag = comm.recv()
            assert array.tolist() == [source, tag]
            received.append((source, tag))

    running = [threading.Thread(target=receive) for _ in range(3)]
    for thread in running:
        thread.start()
    for tag in range(60):
        for peer in (near, far):
            comm.send(np.array([comm.rank, tag]), peer, tag)
    for thread in running:
        thread.join()
    assert sorted(received) == sorted((rank, tag) for rank in (near, far) for tag in range(60))


CASES: tuple[Callable[[Any], None], ...] = (
    many_before_they_are_wanted,
    every_shape_and_dtype,
    lengths_around_the_limits,
    strided,
    may_be_changed_at_once,
    the_wrong_one_first,
    bytes_come_late,
    matched_and_late,
    left_sends,
    from_the_array_itself,
    to_one_that_does_not_wait,
    ready_too_late,
    both_send_first,
    threads,
    beside_one_that_waits,
    native_and_posted,
    from_anybody,
    threads_from_anybody,
)


if __name__ == "__main__":
    run(CASES)
