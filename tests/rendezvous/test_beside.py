"""Two groups of processes join a job: what each of them learns, and that nobody waits for one that does not come.

The processes are forks of pytest. Each is a group of its own, and ends with what it has learnt as its exit code.
"""

import os
import socket
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pytest

from shmcoll.communicator import Communicator
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.group import Group
from shmcoll.errors import RankFailed
from shmcoll.runtime.local_rank import LocalRank
from shmcoll.startup import beside, greeting, ports, rendezvous
from tests.support.patience import PATIENCE

JOINED, NOT_MET, RANK_FAILED, ELSEWHERE = range(10, 14)


def alone() -> Communicator:
    arena = arenas.create(1, timeout=PATIENCE)
    return Communicator(LocalRank(arena, 0, "test"), Group.world(arena), "world")


def outcome(join: Callable[[Communicator, greeting.Process], beside.Joined]) -> int:
    """What comes of a call; a job that is joined is used and left."""
    comm = alone()
    try:
        joined = join(comm, beside.this_process(comm))
    except beside.Elsewhere:
        return ELSEWHERE
    except beside.NotMet:
        return NOT_MET
    except RankFailed:
        return RANK_FAILED
    assert joined.world.all_reduce(np.array([joined.world.rank])).tolist() == [1]
    assert joined.members[joined.world.rank] == beside.this_process(comm)
    joined.world.close()
    joined.world.close()
    return JOINED


def forked(
    join: Callable[[Communicator, greeting.Process], beside.Joined], before: Callable[[], None] = lambda: None
) -> int:
    pid = os.fork()
    if pid == 0:
        _run(join, before)
    return pid


def _run(join: Callable[[Communicator, greeting.Process], beside.Joined], before: Callable[[], None]) -> NoReturn:
    code = 1
    try:
        before()
        code = outcome(join)
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def accepting(port: ports.Port, before: Callable[[], None] = lambda: None, limit: float | None = PATIENCE) -> int:
    mine = os.dup(port.listener.fileno())  # a fork closes the ports of its parent

    def begin() -> None:
        port.listener = socket.socket(fileno=mine)
        before()

    def join(comm: Communicator, me: greeting.Process) -> beside.Joined:
        return beside.accept(comm, 0, me, lambda: port, limit=limit, look=lambda: None)

    pid = forked(join, begin)
    os.close(mine)
    return pid


def connecting(name: str) -> Callable[..., beside.Joined]:
    return lambda comm, me: beside.connect(comm, 0, me, lambda: ports.connect(name), "1")


@pytest.fixture
def port():
    made = ports.Port()
    yield made
    made.close()


def test_a_port(port: ports.Port) -> None:
    """Strangers who say nothing, nonsense, or go away, change nothing."""
    silent = ports.connect(port.name)
    silent.close()
    with ports.connect(port.name) as rude:
        rude.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        sides = [accepting(port), forked(connecting(port.name))]
        assert [ended(side) for side in sides] == [JOINED, JOINED]


def test_nobody_comes(port: ports.Port) -> None:
    assert ended(accepting(port, limit=0.1)) == NOT_MET


def test_the_other_side_gives_up(port: ports.Port) -> None:
    """Its hello is there, and nobody goes on with it."""
    with ports.connect(port.name) as line:
        greeting._send(line, greeting.hello([]))
    accepts = accepting(port)
    assert ended(forked(connecting(port.name))) == JOINED
    assert ended(accepts) == JOINED


def test_a_refusal(port: ports.Port) -> None:
    accepts = accepting(port)
    greeting.refuse(ports.connect(port.name), "there is no such program")
    assert ended(accepts) == NOT_MET


def test_another_machine(port: ports.Port) -> None:
    sides = [accepting(port), forked(connecting(port.name), lambda: os.environ.update(SHMCOLL_NODE="other"))]
    assert [ended(side) for side in sides] == [ELSEWHERE, ELSEWHERE]


@pytest.mark.parametrize("dies", [0, 1])
def test_a_process_that_ends_before_it_has_joined(port: ports.Port, dies: int) -> None:
    def end(*_: object, **__: object) -> None:
        os._exit(0)

    def before(side: int) -> Callable[[], None]:
        return lambda: setattr(rendezvous, "meet", end) if side == dies else None

    sides = [accepting(port, before(0)), forked(connecting(port.name), before(1))]
    codes = [ended(side) for side in sides]
    assert codes[1 - dies] == RANK_FAILED and codes[dies] == 0


def test_a_descriptor_of_the_program() -> None:
    ends = socket.socketpair()
    ends[0].setblocking(False)

    def joining(end: socket.socket) -> Callable[..., beside.Joined]:
        def join(comm: Communicator, me: greeting.Process) -> beside.Joined:
            with greeting.of_descriptor(end.fileno()) as line:
                joined = beside.connect(comm, 0, me, lambda: line, "")
            assert os.get_blocking(end.fileno()) is (end is ends[1])
            return joined

        return join

    assert [ended(side) for side in [forked(joining(end)) for end in ends]] == [JOINED, JOINED]
    for end in ends:
        end.close()


def test_names(port: ports.Port) -> None:
    name = f"tests {os.getpid()}"
    with pytest.raises(ports.NoName, match="is not published"):
        ports.look_up(name)
    ports.publish(name, port.name)
    for _ in range(5000):  # more than may wait to be served
        assert ports.look_up(name) == port.name
    with pytest.raises(ports.NoName, match="already"):
        ports.publish(name, port.name)
    with pytest.raises(ports.NoName, match="has not published"):
        ports.unpublish(name, "shmcoll:0")
    ports.unpublish(name, port.name)
    with pytest.raises(ports.NoName, match="is not published"):
        ports.look_up(name)


def test_a_fork_keeps_no_port_open(port: ports.Port) -> None:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        theirs.send(b".")
        theirs.recv(1)
        os._exit(0)
    theirs.close()
    assert ours.recv(1) == b"."
    port.close()
    try:
        with pytest.raises(ports.NoPort, match="is closed"):
            ports.connect(port.name)
    finally:
        ours.close()
        assert ended(pid) == 0


def test_a_port_of_another_user_is_not_there(port: ports.Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user can listen at any address."""
    name = f"foreign {os.getpid()}"
    ports.publish(name, port.name)
    monkeypatch.setattr(ports, "is_ours", lambda _: False)
    with pytest.raises(ports.NoName):
        ports.look_up(name)
    with pytest.raises(ports.NoPort, match="another user"):
        ports.connect(port.name)
    assert port.take() is None
    monkeypatch.undo()
    ports.unpublish(name, port.name)
    with pytest.raises(ports.NoPort, match="is not the name of a port"):
        ports.connect("localhost:80")
