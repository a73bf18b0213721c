"""Collectives in exit handlers, finalizers and threads that are left over: the job ends all the same."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

JOINS = f"""
    import atexit, os, sys, threading, time
    sys.path.append({str(Path(__file__).parents[2])!r})
    from tests.support.waiting import until, until_asleep
    import numpy as np
    import shmcoll
"""
WAYS = pytest.mark.parametrize("way", [(), pytest.param(("--fresh",), marks=pytest.mark.stress)], ids=["fork", "fresh"])


@WAYS
def test_collectives_in_exit_handlers(shmrun, way):
    """One that was registered after init comes before the rank says that it leaves, another one comes afterwards: by
    then the others may have gone."""
    script = shmrun.write(
        JOINS
        + """
    def late():
        try:
            comm.barrier()
        except shmcoll.RankFailed as e:
            assert "left the job without taking part" in str(e), e
    atexit.register(late)
    comm = shmcoll.init()
    atexit.register(lambda: print(comm.all_reduce(1), flush=True))
    """
    )
    told = shmrun("-n", 3, *way, script)
    assert (told.returncode, told.stdout, told.stderr) == (0, "3\n" * 3, "")


@WAYS
def test_an_exit_handler_that_waits_in_vain(shmrun, way):
    script = shmrun.write(
        JOINS
        + """
    comm = shmcoll.init()
    if comm.rank == 0:
        atexit.register(comm.barrier)
    """
    )
    told = shmrun("-n", 2, *way, script)
    assert told.stdout == ""
    assert "rank 1 left the job without taking part" in told.stderr


@WAYS
def test_finalizers_that_call_collectives(shmrun, way):
    """In the midst of collectives, and as the interpreter ends, when all others may have gone."""
    script = shmrun.write(
        JOINS
        + """
    class Meeting:
        def __init__(self, call):
            self.call, self.me = call, self
        def __del__(self):
            try:
                self.call()
            except RuntimeError:
                pass
    comm = shmcoll.init()
    for i in range(200):  # each is garbage at once, and collected at some later time
        Meeting(lambda: comm.rank)
        comm.all_reduce(np.ones(3))
    import gc
    gc.collect()
    Meeting(comm.barrier)
    gc.collect()
    last = Meeting(comm.barrier)
    print(comm.all_reduce(1), flush=True)
    """
    )
    told = shmrun("-n", 2, *way, script)
    assert (told.returncode, told.stdout) == (0, "2\n" * 2)


@WAYS
@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_that_is_left_within_a_collective(shmrun, way, daemon):
    """Rank 1 never comes. A daemon thread is left behind; another one is waited for, and its error is printed."""
    script = shmrun.write(
        JOINS
        + f"""
    comm = shmcoll.init()
    if comm.rank == 0:
        threading.Thread(target=comm.barrier, daemon={daemon}).start()
        until_asleep(comm)
        open("asleep", "w").close()
    until(lambda: os.path.exists("asleep"))  # rank 0 may end before rank 1 has looked whether it sleeps
    """
    )
    told = shmrun("-n", 2, *way, script)
    assert told.returncode == 0
    assert ("rank 1 left the job without taking part" in told.stderr) is not daemon


@WAYS
def test_the_main_thread_fails_while_another_is_within_a_collective(shmrun, way):
    script = shmrun.write(
        JOINS
        + """
    comm = shmcoll.init()
    if comm.rank == 0:
        threading.Thread(target=comm.barrier).start()
        until_asleep(comm)
        raise ValueError("bad")
    time.sleep(60)
    """
    )
    told = shmrun("-n", 2, "--grace", 0.2, *way, script)
    assert told.returncode == 1
    assert "RankFailed: barrier #1 on rank 0: rank 0 raised ValueError: bad" in told.stderr
    assert told.stderr.splitlines()[-1] == "ValueError: bad"


@WAYS
def test_asynchronous_work_that_nobody_waits_for(shmrun, way):
    """It is completed before the rank leaves."""
    script = shmrun.write(
        JOINS
        + """
    comm = shmcoll.init()
    out = np.empty(100_000)
    work = [comm.all_reduce(np.ones(100_000), out=out, async_op=True) for _ in range(5)]
    atexit.register(lambda: print(out[0], work[-1].done()))
    """
    )
    told = shmrun("-n", 2, *way, script)
    assert (told.returncode, told.stdout, told.stderr) == (0, "2.0 True\n" * 2, "")


@WAYS
@pytest.mark.parametrize("before", ["pass", "comm.barrier(async_op=True).wait()"])
def test_threads_that_go_on_when_the_main_thread_has_ended(shmrun, way, before):
    """There is no worker any more that would have them take turns, and none can be started."""
    script = shmrun.write(
        JOINS
        + f"""
    comm = shmcoll.init()
    {before}
    def work():
        threading.main_thread().join()
        time.sleep(0.1)
        for _ in range(300):
            assert comm.all_reduce(np.ones(10000))[0] == 2
        try:
            comm.barrier(async_op=True)
        except RuntimeError as e:
            assert "async_op on rank" in str(e), e
            print("done", flush=True)
    threading.Thread(target=work).start()
    """
    )
    told = shmrun("-n", 2, *way, script)
    assert (told.returncode, told.stdout, told.stderr) == (0, "done\n" * 2, "")


def test_messages_of_threads_that_go_on_when_the_main_thread_has_ended(shmrun):
    """Also one whose receive gives way then; a daemon thread is left behind."""
    script = shmrun.write(
        """
        import threading, numpy as np, shmcoll
        comm = shmcoll.init()
        other = 1 - comm.rank
        def play(tag):
            threading.main_thread().join()
            for turn in range(50):
                if comm.rank == tag:
                    comm.send(np.array([turn]), other, tag)
                assert comm.recv(source=other, tag=tag)[0].tolist() == [turn]
                if comm.rank != tag:
                    comm.send(np.array([turn]), other, tag)
            print("done\\n", end="", flush=True)  # one write: other threads print, too
        def listen():
            try:
                comm.recv(tag=9)
            except shmcoll.RankFailed:  # the other rank has ended before
                pass
        threading.Thread(target=listen, daemon=True).start()
        for tag in range(2):
            threading.Thread(target=play, args=(tag,)).start()
        """
    )
    told = shmrun("-n", 2, script)
    assert (told.returncode, told.stdout, told.stderr) == (0, "done\n" * 4, "")


def test_what_keeps_a_rank_from_ending_is_told(shmrun):
    """Receives do not: see `test_lost_failures.py`."""
    script = shmrun.write(
        JOINS
        + """
    comm = shmcoll.init()
    if comm.rank == 0:
        comm.barrier(async_op=True)
    else:
        time.sleep(4)
        comm.barrier()
    """
    )
    told = shmrun("-n", 2, script)
    assert (told.returncode, told.stdout) == (0, "")
    assert told.stderr == "shmcoll: rank 0 ends when its asynchronous calls have: job.py:10\n"
