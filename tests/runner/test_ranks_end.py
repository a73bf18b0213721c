"""When ranks that stay end: closed, forgotten, interrupted, with their caller; and in a fork of the caller."""

import gc
import os
import random
import signal
import subprocess
import time
from typing import Any

import psutil
import pytest

import shmcoll
from shmcoll.engine.system.processes import process_start
from tests.support import kills, leaks
from tests.support.waiting import until

pytestmark = pytest.mark.slow

DEADLINE = 60.0


def test_closed_ranks_refuse_calls() -> None:
    r = shmcoll.ranks(1)
    pids = r.run(os.getpid)
    r.close()
    r.close()
    assert [process_start(pid) for pid in pids] == [0]
    with pytest.raises(shmcoll.CallNotAllowed, match=r"these ranks are closed; open others with shmcoll.ranks"):
        r.run(int)
    with pytest.raises(shmcoll.CallNotAllowed, match="these ranks are closed"), r:
        pass


def test_an_exception_in_the_block_closes_them() -> None:
    with pytest.raises(KeyError), shmcoll.ranks(1) as r:
        [pid] = r.run(os.getpid)
        raise KeyError
    assert process_start(pid) == 0


def test_ranks_that_nobody_has_any_more_end() -> None:
    r = shmcoll.ranks(2)
    pids = r.run(os.getpid)
    del r
    gc.collect()
    until(lambda: not any(process_start(pid) for pid in pids))


def test_ranks_that_will_not_end_are_ended() -> None:
    def stay() -> None:
        import threading

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=time.sleep, args=(600,)).start()
        subprocess.Popen(["sleep", "600"])

    with shmcoll.ranks(2) as r:
        r.run(stay)


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_the_end_of_the_caller_ends_them(scripts: Any, end: str) -> None:
    before = leaks.snapshot()
    script = scripts.start(
        f"""
        import os, shmcoll
        r = shmcoll.ranks(2)
        r.run(lambda: shmcoll.init().barrier())
        print("running", flush=True)
        {end}
        """
    )
    out, err = script.communicate(timeout=DEADLINE)
    assert (out, err) == ("running\n", "")
    assert script.returncode == (-9 if "kill" in end else 0)
    kills.nothing_left(before)


def test_a_fork_of_the_caller_has_no_part_in_them() -> None:
    with shmcoll.ranks(2) as r:
        pids = r.run(os.getpid)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                try:
                    with r:
                        pass
                except shmcoll.CallNotAllowed as e:
                    os.write(write, str(e).encode())
                r.close()
                del r
                gc.collect()
                with shmcoll.ranks(1) as own:
                    os.write(write, str(own.run(int)).encode())
            except BaseException as e:
                os.write(write, repr(e).encode())
            finally:
                os._exit(0)
        os.close(write)
        with open(read) as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        assert told == (
            f"these ranks belong to process {os.getpid()}, of which this one is a fork; "
            f"open others here with shmcoll.ranks[0]"
        )
        assert r.run(os.getpid) == pids


INTERRUPTED = """
    import os, signal, sys, time
    import shmcoll

    state = 0

    def work(waits):
        global state
        comm = shmcoll.init()
        comm.barrier()
        state = 41 + comm.rank
        print("running")
        if waits and comm.rank == 0:
            comm.barrier()
        time.sleep(600)

    def look():
        return state

    with shmcoll.ranks(2) as r:
        for waits in (False, True):
            try:
                r.run(work, waits)
            except KeyboardInterrupt as e:
                print("interrupted", e.__notes__[0].splitlines()[0])
            try:
                print(r.run(look))
            except shmcoll.RankFailed as e:
                print("ended")
"""


def test_ctrl_c_leaves_their_state_unless_they_are_in_a_collective(scripts: Any) -> None:
    script = scripts.start(INTERRUPTED)
    for after in ("[41, 42]\n", "ended\n"):
        for _ in range(2):
            assert script.stdout.readline() == "running\n"
        script.send_signal(signal.SIGINT)
        assert script.stdout.readline() == "interrupted shmcoll.ranks: where the ranks were:\n"
        assert script.stdout.readline() == after
    out, err = script.communicate(timeout=DEADLINE)
    assert (out, err, script.returncode) == ("", "", 0)


def test_ctrl_c_of_ranks_that_will_not_stop(scripts: Any) -> None:
    text = """
        import signal, time, shmcoll

        def stay():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("running")
            time.sleep(600)

        with shmcoll.ranks(1) as r:
            try:
                r.run(stay)
            except KeyboardInterrupt:
                print("interrupted")
            try:
                r.run(int)
            except shmcoll.RankFailed as e:
                print(e)
    """
    script = scripts.start(text)
    assert script.stdout.readline() == "running\n"
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=DEADLINE)
    assert out == (
        "interrupted\nthese ranks take no more calls: rank 0 was killed by signal 9 (SIGKILL); "
        "open others with shmcoll.ranks\n"
    )
    assert (err, script.returncode) == ("", 0)


def test_a_call_within_a_call_of_the_same_thread_is_refused() -> None:
    caller = os.getpid()
    with shmcoll.ranks(1) as r:
        previous = signal.signal(signal.SIGALRM, lambda *_: r.run(int))
        try:
            with pytest.raises(shmcoll.CallNotAllowed, match=r"during another shmcoll.ranks of this thread"):
                r.run(lambda: os.kill(caller, signal.SIGALRM) or time.sleep(600))
        finally:
            signal.signal(signal.SIGALRM, previous)


BUSY = """
    import shmcoll

    def work():
        comm = shmcoll.init()
        for _ in range(20):
            comm.barrier()

    print("begun", flush=True)
    while True:
        try:
            with shmcoll.ranks(3) as r:
                while True:
                    r.run(work)
                    print("done", flush=True)
        except (shmcoll.RankFailed, shmcoll.ShmcollError) as e:
            print("failed", flush=True)
"""


@pytest.mark.slow
def test_kill_9_leaves_nothing(scripts: Any, seed: int) -> None:
    """Kill caller, server or a rank at a random moment; after the latter two the caller opens others."""
    draw = random.Random(seed)
    before = leaks.snapshot()
    for victim in ("caller", "server", "rank", "rank"):
        script = scripts.start(BUSY)
        assert script.stdout.readline() == "begun\n"
        assert script.stdout.readline() == "done\n"
        instant = draw.uniform(0, 0.05)
        print(f"seed {seed}: kill {victim}, {instant:.4f} s after the first call")
        time.sleep(instant)
        if victim != "caller":
            kills.kill_one(draw, lambda caller=script.pid, what=victim: _below(caller, what))
            while script.stdout.readline() != "failed\n":
                pass
            assert script.stdout.readline() == "done\n"
        script.kill()
        script.communicate(timeout=DEADLINE)
        kills.nothing_left(before)


def _below(caller: int, what: str) -> list[psutil.Process]:
    servers = kills.children(caller)
    return servers if what == "server" else [rank for server in servers for rank in kills.children(server.pid)]
