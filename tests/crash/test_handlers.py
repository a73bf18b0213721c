"""Signal handlers that call the communicator while their rank is inside one of its calls: a call is refused with
`CallNotAllowed` or runs as if it had come between two others, and what the rank was about to do comes out right."""

import gc
import signal
import threading
import time

import numpy as np
import pytest

from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.errors import CallNotAllowed, CollectiveTimeout, RankFailed
from tests.support import switches
from tests.support.sleepers import signal_when_asleep
from tests.support.waiting import until, until_asleep, until_ended

pytestmark = pytest.mark.slow

LONG = 40_000  # elements: a message of so many asks for memory


def new_vector(comm) -> None:
    result, counts = comm.all_gather_v(np.full(5 + comm.rank, comm.rank))
    assert counts.tolist() == [5 + r for r in range(comm.size)]
    assert result.tolist() == [r for r in range(comm.size) for _ in range(5 + r)]


def exchange_v(comm) -> None:
    result, counts = comm.all_to_all_v(np.full(3 * comm.size, comm.rank), [3] * comm.size)
    assert counts.tolist() == [3] * comm.size
    assert result.tolist() == [r for r in range(comm.size) for _ in range(3)]


def collect_v(comm) -> None:
    result, _ = comm.gather_v(np.full(4, comm.rank), comm.size - 1)
    if comm.rank == comm.size - 1:
        assert result.tolist() == [r for r in range(comm.size) for _ in range(4)]


def deal_v(comm) -> None:
    root = comm.size - 1
    counts = [r + 2 for r in range(comm.size)] if comm.rank == root else None
    x = None if counts is None else np.arange(sum(counts))
    assert comm.scatter_v(x, root, send_counts=counts).size == comm.rank + 2


def deal(comm) -> None:
    got = comm.scatter(np.repeat(np.arange(comm.size), 3) if comm.rank == 0 else None)
    assert got.tolist() == [comm.rank] * 3


def receive(comm) -> None:
    """Of two messages that are there the one with tag 1."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.send(np.full(3, 7), right, tag=2)
    comm.send(np.full(4, comm.rank), right, tag=1)
    array, source, tag = comm.recv(source=left, tag=1)
    assert (array.tolist(), source, tag) == ([left] * 4, left, 1)
    assert comm.recv(source=left, tag=2)[0].tolist() == [7] * 3


def send(comm) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.send(np.full(LONG, comm.rank), right, tag=1)
    assert (comm.recv(source=left, tag=1)[0] == left).all()


def both_ways(comm) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = comm.sendrecv(np.full(LONG, comm.rank), right, source=left)
    assert (got[0] == left).all()


def objects(comm) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.send_object(("an object", comm.rank, np.full(LONG, 3)), right)
    value = comm.recv_object(left)[0]
    assert value[:2] == ("an object", left)
    assert (value[2] == 3).all()


def exchanged_objects(comm) -> None:
    got = comm.all_to_all_object([("x" * switches.LONGEST_ROW, np.ones(switches.LEAST_MOVED, np.uint8))] * comm.size)
    assert all(one.all() for _, one in got)


#: calls that go on after HALFWAY, on rank 1 of 2 at least
PHASED = {
    f.__name__: f
    for f in (new_vector, exchange_v, collect_v, deal_v, deal, receive, send, both_ways, objects, exchanged_objects)
}

ONES = np.ones(4)
#: what a handler may call: each method of a communicator that talks to others
CALLS = {
    "barrier": lambda comm: comm.barrier(),
    "all_reduce": lambda comm: comm.all_reduce(ONES),
    "all_reduce of a list": lambda comm: comm.all_reduce([1, 2, 3]),
    "reduce": lambda comm: comm.reduce(ONES, 0),
    "reduce_scatter": lambda comm: comm.reduce_scatter(ONES),
    "reduce_scatter_v": lambda comm: comm.reduce_scatter_v(ONES, [2, 2]),
    "scan": lambda comm: comm.scan(ONES),
    "exscan": lambda comm: comm.exscan(ONES),
    "all_to_all": lambda comm: comm.all_to_all(ONES),
    "gather": lambda comm: comm.gather(ONES),
    "broadcast": lambda comm: comm.broadcast(ONES.copy()),
    "all_gather": lambda comm: comm.all_gather(ONES),
    "scatter": lambda comm: comm.scatter(None),
    "collective_permute": lambda comm: comm.collective_permute(ONES, [(0, 1), (1, 0)]),
    "all_to_all_v": lambda comm: comm.all_to_all_v(ONES, [2, 2]),
    "gather_v": lambda comm: comm.gather_v(ONES, comm.size - 1),
    "scatter_v": lambda comm: comm.scatter_v(ONES, 1, send_counts=[2, 2]),
    "all_gather_v": lambda comm: comm.all_gather_v(ONES),
    "grid.exchange": lambda comm: comm.grid(comm.size).exchange(np.zeros(6)),
    "plan": lambda comm: comm.plan("barrier")(),
    "send": lambda comm: comm.send(ONES, 0, tag=9),
    "send of a list": lambda comm: comm.send([1, 2], 0, tag=9),
    "recv": lambda comm: comm.recv(source=0, tag=2),
    "send_object": lambda comm: comm.send_object("x", 0, tag=9),
    "recv_object": lambda comm: comm.recv_object(0, tag=2),
    "sendrecv": lambda comm: comm.sendrecv(ONES, 0, source=0),
    "long sendrecv": lambda comm: comm.sendrecv(np.ones(LONG), 0, source=0),
    "sendrecv_object": lambda comm: comm.sendrecv_object(1, 0, 0),
    "long sendrecv_object": lambda comm: comm.sendrecv_object(np.ones(LONG), 0, 0),
    "plan of counts": lambda comm: comm.plan("all_gather_v", ONES, out=np.zeros((comm.size, *ONES.shape)))(),
    "all_to_all_object": lambda comm: comm.all_to_all_object([1] * comm.size),
    "all_reduce_object": lambda comm: comm.all_reduce_object(1),
    "exscan_object": lambda comm: comm.exscan_object(1),
    "all_gather_object": lambda comm: comm.all_gather_object(1),
    "broadcast_object": lambda comm: comm.broadcast_object(1),
    "split": lambda comm: comm.split(0),
    "views": lambda comm: comm.views(comm.empty(3)),
}


def signal_between_phases(comm) -> None:
    """Have a signal come after each native call of this rank that answers HALFWAY, from now on."""

    def interrupted(entry):
        def enter(*arguments: object) -> int:
            status = entry(*arguments)
            if status == c.HALFWAY:
                signal.raise_signal(signal.SIGUSR2)
            return status

        return enter

    routine = comm._dispatcher.routine
    for owner in (comm, *comm._composite.values()):  # parts of composite calls have entries of their own
        for attribute, value in list(vars(owner).items()):
            if attribute.startswith("_") and callable(value):
                setattr(owner, attribute, interrupted(value))
    comm._dispatcher.routine = lambda operation: interrupted(routine(operation))


def between_phases(comm, name: str, calls: tuple[str, ...]) -> int:
    """How often a handler came between two phases of `name`; there it makes all calls, and each is refused."""
    words, met = comm._dispatcher.words, []

    def handle(*_: object) -> None:
        assert words[c.ACTIVE // WORD] == -threading.get_ident()
        for call in calls:
            with pytest.raises(CallNotAllowed, match=r"signal handler.* in the midst of "):
                CALLS[call](comm)
        met.append(1)

    PHASED[name](comm)
    for load in ("scatter", "send", "recv", "all_gather_v"):
        comm._dispatcher.routine(load)
    signal.signal(signal.SIGUSR2, handle)
    if comm.rank == 1:
        signal_between_phases(comm)
    for _ in range(3):
        PHASED[name](comm)
    comm.barrier()
    return len(met)


@pytest.mark.parametrize("name", PHASED)
def test_a_call_between_two_phases_is_refused(ranks, name):
    none, some = ranks(2, between_phases, name, tuple(CALLS))
    assert none == 0
    assert some >= 3, "no handler came between two phases"


@pytest.mark.parametrize("name", PHASED)
def test_the_same_of_the_plain_entry(ranks, monkeypatch, name):
    switches.use_entry(monkeypatch, fast=False)
    none, some = ranks(2, between_phases, name, ("barrier", "recv", "send", "all_gather_v"))
    assert (none, some >= 3) == (0, True)


# --- while a routine waits, and anywhere ------------------------------------------------------------------------------


def ticking(comm, name: str, call: str, seconds: float) -> tuple[int, int, int]:
    """A timer whose handler makes `call` whenever its rank is in the midst of `name`: how many signals came, how many
    of these calls were refused, how often `name` was called."""
    words, me, told = comm._dispatcher.words, threading.get_ident(), [0, 0]

    def handle(*_: object) -> None:
        told[0] += 1
        if abs(words[c.ACTIVE // WORD]) == me:  # else the call would run, and no other rank makes it
            with pytest.raises(CallNotAllowed):
                CALLS[call](comm)
            told[1] += 1
        if not is_over:  # not earlier: on a busy machine handlers would nest
            signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.001 * comm.rank)

    PHASED[name](comm)
    signal.signal(signal.SIGALRM, handle)
    is_over: list[None] = []
    signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.001 * comm.rank)
    times, end = 0, time.monotonic() + seconds
    while comm.all_reduce(np.array([time.monotonic() < end]), "min")[0]:
        PHASED[name](comm)
        times += 1
    is_over.append(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    comm.barrier()
    return (*told, times)


#: each call that goes on with one call of a handler; the long forms try all pairs
TICKED = [
    pytest.param(name, call, marks=() if i % 6 == j else pytest.mark.stress)
    for i, name in enumerate(PHASED)
    for j, call in enumerate(("barrier", "recv", "send", "all_gather_v", "split", "all_gather_object"))
]


@pytest.mark.parametrize(("name", "call"), TICKED)
def test_a_timer_whose_handler_calls(ranks, name, call):
    told = ranks(2, ticking, name, call, 0.05)
    print(name, call, told)
    assert all(signals > 0 for signals, _, _ in told)


def alone(comm, call: str) -> int:
    """As the only rank: there a handler's call may also run, wherever no other is inside."""
    ran = []

    def handle(*_: object) -> None:
        try:
            CALLS[call](comm)
            ran.append(1)
        except CallNotAllowed:
            pass
        if not is_over:  # not earlier: on a busy machine handlers would nest
            signal.setitimer(signal.ITIMER_REAL, 0.002)

    is_over: list[None] = []
    comm.send(np.ones(3), 0, tag=2)  # for `recv`
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    end = time.monotonic() + 0.7
    while len(ran) < 20 and time.monotonic() < end:
        new_vector(comm)
        send_to_itself(comm)
        assert comm.all_reduce(np.arange(3)).tolist() == [0, 1, 2]
    is_over.append(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return len(ran)


def send_to_itself(comm) -> None:
    comm.send(np.full(LONG, 5), 0, tag=1)
    array, _, tag = comm.recv(tag=1)
    assert tag == 1
    assert (array == 5).all()


#: each call by one of the two entries; the long forms try both
BETWEEN = [
    pytest.param(call, way, marks=() if i % 2 == j else pytest.mark.stress)
    for i, call in enumerate(("barrier", "all_reduce", "all_gather_v", "send", "gather_v", "all_gather_object"))
    for j, way in enumerate(("fast", "plain"))
]


@pytest.mark.parametrize(("call", "way"), BETWEEN)
def test_a_handlers_call_runs_between_two_calls(ranks, monkeypatch, call, way):
    switches.use_entry(monkeypatch, fast=way == "fast")
    assert ranks(1, alone, call)[0] > 0


# --- others that come between two phases ------------------------------------------------------------------------------


def beside_a_thread(comm) -> bool:
    """Between two phases of this thread's call another one makes a call: it queues."""
    told = []
    if comm.rank == 1:
        entry_of_recv, threads = comm._load("recv"), []

        def other() -> None:
            told.append(comm.recv(source=0, tag=2)[0].tolist())

        def slow(*arguments: object) -> int:
            status = entry_of_recv(*arguments)
            if status == c.HALFWAY and threading.current_thread() is threading.main_thread():
                threads.append(threading.Thread(target=other))
                threads[0].start()
                time.sleep(0.05)
                assert told == []
            return status

        comm._recv = slow
        array, _, tag = comm.recv(source=0, tag=1)
        assert (array.tolist(), tag) == ([1.0] * 5, 1)
        threads[0].join()
        comm.barrier()
        return told == [[2.0] * 3]
    comm.send(np.full(3, 2.0), 1, tag=2)
    comm.send(np.full(5, 1.0), 1, tag=1)
    comm.barrier()
    return True


def test_another_thread_queues_between_two_phases(ranks):
    assert ranks(2, beside_a_thread) == [True, True]


class Finalised:
    """In a cycle, so that the garbage collector finds it whenever it likes."""

    def __init__(self, comm, told: list):
        self.itself, self.comm, self.told = self, comm, told

    def __del__(self) -> None:
        try:
            self.comm.send(np.ones(2), self.comm.rank, tag=5)
            self.told.append("sent")
        except CallNotAllowed as error:
            self.told.append(str(error))


def with_a_finaliser(comm) -> list:
    told = []
    zeros = np.zeros

    def collecting(*arguments: object) -> np.ndarray:
        Finalised(comm, told)
        gc.collect()
        return zeros(*arguments)

    np.zeros = collecting
    new_vector(comm)
    np.zeros = zeros
    comm.barrier()
    return told


def test_a_finaliser_between_two_phases_is_refused(ranks):
    for rank, told in enumerate(ranks(2, with_a_finaliser)):
        assert len(told) == 1
        assert told[0].startswith(f"send on rank {rank}: called by a signal handler, or a finaliser, in the midst of")


# --- exceptions of handlers -------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stopped_after_success(comm) -> str:
    """A handler raises when the native part has succeeded: nobody enters again."""

    def handle(*_: object) -> None:
        raise Stop

    signal.signal(signal.SIGUSR2, handle)
    comm.barrier()
    if comm.rank == 1:
        barrier = comm._barrier

        def late() -> int:
            status = barrier()
            signal.raise_signal(signal.SIGUSR2)
            return status

        comm._barrier = late
        with pytest.raises(Stop):
            comm.barrier()
        comm._barrier = barrier
    with pytest.raises(RankFailed) as told:
        for _ in range(2000):
            comm.barrier()
    if comm.rank == 1:
        for name in ("all_reduce", "send", "recv", "all_gather_v", "plan", "grid.exchange"):
            with pytest.raises(RankFailed):
                CALLS[name](comm)
    return str(told.value)


def test_nobody_enters_after_an_exception_that_came_when_the_call_had_succeeded(ranks):
    told = ranks(2, stopped_after_success)
    assert all("rank 1 was interrupted in barrier #2" in text for text in told)


def stopped_between_phases(comm, name: str) -> str:
    def handle(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGUSR2, handle)
    PHASED[name](comm)
    if comm.rank == 1:
        signal_between_phases(comm)
        with pytest.raises(KeyboardInterrupt):
            PHASED[name](comm)
    with pytest.raises(RankFailed) as told:
        while True:
            PHASED[name](comm)
    return str(told.value)


@pytest.mark.parametrize("name", PHASED)
def test_an_exception_between_two_phases_ends_the_group(ranks, name):
    told = ranks(2, stopped_between_phases, name)
    assert all("rank 1 was interrupted in " in text for text in told)


def refused_in_a_queued_call(comm) -> str:
    """The exception that a handler lets out of a nested call ends the group, also of a call that goes the long way."""
    if comm.rank == 0:
        comm.recv(source=1, tag=3)
        until_ended(comm)
        with pytest.raises(RankFailed) as told:
            comm.barrier()
        return str(told.value)
    signal.signal(signal.SIGALRM, lambda *_: comm.barrier())
    comm.send(np.ones(1), 0, tag=3)
    signal_when_asleep(comm)
    with pytest.raises(CallNotAllowed, match=r"barrier on rank 1.* in the midst of all_reduce"):
        comm.all_reduce(np.ones(9)[::3])
    with pytest.raises(RankFailed) as told:
        comm.barrier()
    return str(told.value)


def test_a_refusal_that_a_handler_lets_out_ends_the_group(ranks):
    assert all("rank 1 was interrupted" in text for text in ranks(2, refused_in_a_queued_call, timeout=10.0))


def interrupted_twice(comm) -> str:
    """A second Ctrl-C while the peers are being told of the first."""
    if comm.rank == 1:
        interrupted = comm._dispatcher.failures.interrupted
        times = []

        def again(operation: str) -> None:
            times.append(operation)
            if len(times) == 1:
                raise KeyboardInterrupt
            interrupted(operation)

        comm._dispatcher.failures.interrupted = again
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal_when_asleep(comm)
        with pytest.raises(KeyboardInterrupt):
            comm.recv(source=0)
    begin = time.monotonic()
    with pytest.raises(RankFailed) as told:
        comm.barrier()
    assert time.monotonic() - begin < 5
    return str(told.value)


@pytest.mark.timing
def test_a_second_interrupt_does_not_keep_peers_waiting(ranks):
    assert all("rank 1 was interrupted in recv" in text for text in ranks(2, interrupted_twice))


# --- limits -----------------------------------------------------------------------------------------------------------


def beside_a_busy_thread(comm) -> float:
    """Rank 1 waits for 1 s while another thread of it keeps the GIL for 0.4 s at a time."""
    import ctypes

    if comm.rank == 0:
        until_ended(comm)
        return 0.0
    usleep, over = ctypes.PyDLL(None).usleep, threading.Event()

    def keep() -> None:
        while not over.is_set():
            usleep(400_000)

    thread = threading.Thread(target=keep)
    comm.timeout = 1.0
    thread.start()
    begin = time.monotonic()
    with pytest.raises(CollectiveTimeout):
        comm.barrier()
    spent = time.monotonic() - begin
    over.set()
    thread.join()
    return spent


def test_a_limit_passes_while_another_thread_keeps_the_gil(ranks):
    """The promise: 1 s and a few times 0.4, in which native code waits for the GIL and Python writes why."""
    spent = ranks(2, beside_a_busy_thread)[1]
    print(spent)
    assert 1.0 <= spent < 30.0


def awaited_beside_a_busy_thread(comm, board) -> bool:
    """What has come while the GIL was away counts, though the limit has passed then."""
    import ctypes

    comm.barrier()
    if comm.rank == 0:
        until(lambda: board[0])
        comm.barrier()
        return True
    usleep = ctypes.PyDLL(None).usleep
    comm.timeout = 1.0

    def keep() -> None:
        until_asleep(comm)
        board[0] = 1
        usleep(2_000_000)

    thread = threading.Thread(target=keep)
    thread.start()
    comm.barrier()
    thread.join()
    return True


def test_a_peer_that_came_while_the_gil_was_away_is_in_time(ranks, board):
    assert ranks(2, awaited_beside_a_busy_thread, board) == [True, True]
