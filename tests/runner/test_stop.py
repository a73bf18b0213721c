"""Time limits, Ctrl-C, and kill -9 of each process that takes part: ranks end, and nothing is left."""

import math
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import shmcoll
from tests.support import kills, leaks
from tests.support.waiting import until

DEADLINE = 60.0


def test_timeout_names_who_was_still_running() -> None:
    def dawdle() -> None:
        if shmcoll.init().rank != 1:
            time.sleep(600)

    with pytest.raises(TimeoutError) as caught:
        shmcoll.run(dawdle, 3, timeout=0.3)
    assert str(caught.value) == "shmcoll.run: 0.3 s are over; still running: ranks 0, 2 of 3"
    assert shmcoll.run(lambda: shmcoll.init().rank, 2, timeout=60) == [0, 1]


def test_timeout_kills_ranks_that_will_not_go() -> None:
    def stay() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)

    with pytest.raises(TimeoutError, match="still running: rank 0 of 1"):
        shmcoll.run(stay, 1, timeout=0.3)


def test_timeout_ends_what_ranks_have_started() -> None:
    """The leak check finds it otherwise."""

    def start() -> None:
        subprocess.Popen(["sleep", "600"])
        time.sleep(600)

    with pytest.raises(TimeoutError):
        shmcoll.run(start, 2, timeout=0.5)


@pytest.fixture
def on_alarm() -> Iterator[Callable[..., None]]:
    """`on_alarm(handler)`: what SIGALRM does in this process."""
    previous = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGALRM, previous)


def ring_and_stay(caller: int) -> Callable[[], None]:
    def work() -> None:
        if shmcoll.init().rank == 1:
            os.kill(caller, signal.SIGALRM)
        time.sleep(600)

    return work


def test_exception_in_the_caller_stops_the_ranks(on_alarm: Any) -> None:
    def handler(*_: object) -> None:
        raise OSError("alarm")

    on_alarm(handler)
    with pytest.raises(OSError, match="alarm"):
        shmcoll.run(ring_and_stay(os.getpid()), 2)
    assert shmcoll.run(int, 2) == [0, 0]


def test_run_within_a_run_of_the_same_thread_is_refused(on_alarm: Any) -> None:
    on_alarm(lambda *_: shmcoll.run(int, 1))
    with pytest.raises(RuntimeError, match=r"during another shmcoll.run of this thread"):
        shmcoll.run(ring_and_stay(os.getpid()), 2)


INTERRUPTED = """
    import os, signal, sys, time
    import shmcoll

    def work():
        comm = shmcoll.init()
        comm.barrier()
        if {stubborn}:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            print("running")
            time.sleep(600)
        except KeyboardInterrupt:
            print("told")
            raise

    try:
        shmcoll.run(work, 3)
    except KeyboardInterrupt as e:
        print("interrupted", e.args)
    print(shmcoll.run(lambda: shmcoll.init().rank, 3))
"""


@pytest.mark.parametrize("stubborn", [False, True])
def test_ctrl_c_stops_the_ranks_and_the_next_run_works(scripts: Any, stubborn: bool) -> None:
    script = scripts.start(INTERRUPTED.format(stubborn=stubborn))
    for _ in range(3):
        assert script.stdout.readline() == "running\n"
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=DEADLINE)
    assert out == ("" if stubborn else "told\n" * 3) + "interrupted ()\n[0, 1, 2]\n"
    assert (err, script.returncode) == ("", 0)


def test_ctrl_c_while_nobody_catches_it(scripts: Any) -> None:
    script = scripts.start(
        """
        import time, shmcoll
        shmcoll.run(lambda: print("running") or time.sleep(600), 1)
        """
    )
    assert script.stdout.readline() == "running\n"
    script.send_signal(signal.SIGINT)
    _, err = script.communicate(timeout=DEADLINE)
    assert "\nKeyboardInterrupt\n" in err
    assert script.returncode == -signal.SIGINT


def test_ctrl_c_that_another_thread_takes(tmp_path: Path) -> None:
    """It does not wake the main thread. Neither does a signal that comes just before the main thread sleeps."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def interrupt() -> None:
        pipe.read_bytes()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def work() -> None:
        pipe.write_bytes(b"")
        time.sleep(600)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        shmcoll.run(work, 1)
    thread.join()


@pytest.mark.slow
def test_killed_server_is_named_and_replaced() -> None:
    def kill() -> None:
        shmcoll.init().barrier()
        if os.environ["RANK"] == "1":
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)

    with pytest.raises(shmcoll.RankFailed) as caught:
        shmcoll.run(kill, 3)
    assert str(caught.value) == (
        "the server of shmcoll.run was killed by signal 9 (SIGKILL), and all 3 ranks with it; "
        "the next run starts another"
    )
    assert shmcoll.run(lambda: shmcoll.init().rank, 2) == [0, 1]


def test_server_that_was_killed_while_idle_is_replaced() -> None:
    [server] = shmcoll.run(os.getppid, 1)
    os.kill(server, signal.SIGKILL)
    until(lambda: psutil.Process(server).status() == psutil.STATUS_ZOMBIE)
    assert shmcoll.run(os.getppid, 1) != [server]


BUSY = """
    import shmcoll

    def work():
        comm = shmcoll.init()
        for _ in range(20):
            comm.barrier()

    print("begun", flush=True)
    while True:
        try:
            shmcoll.run(work, 3)
            print("done", flush=True)
        except (shmcoll.RankFailed, shmcoll.ShmcollError) as e:
            print("failed", flush=True)
"""


def kill_at_random_instants(scripts: Any, seed: int, times: int, limit: float = math.inf) -> None:
    """Kill caller, server or a rank; after the latter two the caller goes on. In the end nothing is left of it."""
    draw = random.Random(seed)
    before = leaks.snapshot()
    for number, instant in enumerate(kills.instants(draw, times, 0.8, limit)):
        script = scripts.start(BUSY)
        assert script.stdout.readline() == "begun\n"
        victim = ("caller", "server", "rank")[number % 3]
        print(f"seed {seed}: kill {number}: {victim}, {instant:.4f} s after its start")
        time.sleep(instant)
        if victim != "caller":
            kills.kill_one(draw, lambda caller=script.pid, what=victim: _below(caller, what))
            lines = [script.stdout.readline() for _ in range(2)] + [_line_after_failure(script)]
            assert lines[-1] == "done\n"
        script.kill()
        script.communicate(timeout=DEADLINE)
        kills.nothing_left(before)


def _below(caller: int, what: str) -> list[psutil.Process]:
    """The caller's server, or its ranks."""
    servers = kills.children(caller)
    return servers if what == "server" else [rank for server in servers for rank in kills.children(server.pid)]


def _line_after_failure(script: Any) -> str:
    """The next line that is not about a failure."""
    while (line := script.stdout.readline()) == "failed\n":
        pass
    return str(line)


@pytest.mark.slow
def test_kill_9_leaves_nothing(scripts: Any, seed: int) -> None:
    kill_at_random_instants(scripts, seed, 3, kills.LIMIT)


@pytest.mark.stress
def test_kill_9_leaves_nothing_often(scripts: Any, seed: int) -> None:
    kill_at_random_instants(scripts, seed, 100)


@pytest.mark.stress
@pytest.mark.parametrize("victim", ["caller", "server"])
def test_kill_9_while_routines_are_compiled(scripts: Any, tmp_path: Any, victim: str) -> None:
    before = leaks.snapshot()
    script = scripts.start(BUSY, SHMCOLL_CACHE_DIR=str(tmp_path / "cache"))
    assert "compiling" in script.stderr.readline()
    if victim == "server":
        kills.kill_one(random.Random(0), lambda: _below(script.pid, "server"))
        assert script.stdout.readline() == "begun\n"
        assert script.stdout.readline() == "failed\n"
    script.kill()
    script.communicate(timeout=DEADLINE)
    kills.nothing_left(before)
