"""Asynchronous calls that fail while nobody waits, receives that get nothing, and programs that end meanwhile."""

import time

import pytest

pytestmark = pytest.mark.slow

JOINS = """
    import asyncio, atexit, gc, os, sys, threading, time
    import numpy as np
    import shmcoll
    comm = shmcoll.init()
"""
WAYS = pytest.mark.parametrize("way", [(), ("--fresh",)], ids=["fork", "fresh"])


@WAYS
def test_a_failure_that_nobody_waits_for_is_told_and_ends_with_1(shmrun, way):
    script = shmrun.write(
        JOINS
        + """
    work = comm.all_reduce(np.ones(3), "median", async_op=True)
    while not work.done():
        time.sleep(0.001)
    print(repr(work))
    """
    )
    told = shmrun("-n", 1, *way, script)
    assert told.stdout.startswith("<shmcoll.Work failed: ValueError: all_reduce on rank 0: unknown op 'median'")
    assert told.returncode == 1
    line = "shmcoll: an asynchronous call of rank 0 at job.py:7 has failed, and nobody waited for it: ValueError:"
    assert line in told.stderr


def test_it_is_told_when_the_handle_goes_not_later(shmrun):
    """The exception refers to itself, and the handle goes in another thread."""
    script = shmrun.write(
        JOINS
        + """
    class Bad:
        def __array__(self, *a, **k):
            error = ValueError("bad")
            error.itself = error
            raise error
    gc.disable()
    comm.barrier(async_op=True).wait()
    held = [comm.all_reduce(Bad(), async_op=True)]
    while not held[0].done():
        time.sleep(0.001)
    print("failed", file=sys.stderr, flush=True)
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    print("dropped", file=sys.stderr, flush=True)
    """
    )
    told = shmrun("-n", 1, script)
    lines = [line for line in told.stderr.splitlines() if not line.startswith("shmrun")]
    assert lines[0] == "failed" and "nobody waited for it" in lines[1] and lines[-1] == "dropped", told.stderr
    assert told.returncode == 1


def test_who_has_seen_it_is_not_told(shmrun):
    """By `wait`, by `await`, or by another call that has raised why the group has ended."""
    script = shmrun.write(
        JOINS
        + """
    for wait in (lambda work: work.wait(), lambda work: asyncio.run(waited(work))):
        async def waited(work):
            await work
        try:
            wait(comm.all_reduce(np.ones(3), "median", async_op=True))
        except ValueError:
            pass
    works = [comm.barrier(async_op=True) for _ in range(3)] if comm.rank == 0 else []
    if comm.rank == 1:
        comm.abort("enough")
    try:
        comm.barrier()
    except shmcoll.RankFailed as error:
        print("enough" in str(error))
    """
    )
    told = shmrun("-n", 2, script)
    assert (told.returncode, told.stdout, told.stderr) == (0, "True\n" * 2, "")


def test_other_exit_handlers_run_and_output_is_written(shmrun):
    script = shmrun.write(
        """
    import atexit, sys
    atexit.register(lambda: print("before", end="."))
    import numpy as np
    import shmcoll
    comm = shmcoll.init()
    atexit.register(lambda: print("after", end="."))
    comm.all_reduce(np.ones(3), "median", async_op=True)
    """
    )
    told = shmrun("-n", 1, script)
    assert (told.returncode, told.stdout) == (1, "after.before.")


@WAYS
def test_a_receive_that_gets_nothing_is_withdrawn_at_the_end(shmrun, way):
    """From this rank itself nothing can come any more; from another one it may, for a while."""
    script = shmrun.write(
        JOINS
        + """
    comm.recv(source=comm.rank, tag=3, async_op=True)
    if comm.rank == 0:
        comm.recv(tag=4, async_op=True)
    if comm.rank == 1:
        comm.recv(source=0, tag=5, async_op=True)
        begin = time.monotonic()
        atexit.register(lambda: print(time.monotonic() - begin))
    """
    )
    told = shmrun("-n", 2, *way, script)
    assert told.returncode == 0, told.stderr
    assert float(told.stdout) < 10
    for line in ("job.py:7", "job.py:9", "job.py:11"):
        assert line in told.stderr
    assert "rank 0 withdraws receives without a message" in told.stderr


def test_a_message_that_comes_at_the_end_is_received(shmrun):
    script = shmrun.write(
        JOINS
        + """
    if comm.rank == 0:
        out = np.zeros(3)
        work = comm.recv(out, 1, async_op=True)
        atexit.register(lambda: print(out.tolist(), work.done()))
    else:
        time.sleep(0.5)
        comm.send(np.arange(3.0), 0)
    """
    )
    told = shmrun("-n", 2, script)
    assert (told.returncode, told.stdout, told.stderr) == (0, "[0.0, 1.0, 2.0] True\n", "")


def test_a_program_of_asyncio_that_ends_with_pending_work(shmrun):
    """The event loop has been closed when the work ends."""
    script = shmrun.write(
        JOINS
        + """
    async def main():
        task = asyncio.ensure_future(wait(comm.barrier(async_op=True)))
        await asyncio.sleep(0.1)
    async def wait(work):
        await work
    if comm.rank == 0:
        asyncio.run(main())
    else:
        time.sleep(0.5)
        comm.barrier()
    """
    )
    told = shmrun("-n", 2, script)
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


def test_a_daemon_thread_that_waits_at_the_end(shmrun):
    script = shmrun.write(
        JOINS
        + """
    work = comm.recv(source=comm.rank, async_op=True)
    def wait():
        try:
            work.wait()
        except shmcoll.Cancelled:
            pass  # a daemon thread that prints while the interpreter ends can abort it
    threading.Thread(target=wait, daemon=True).start()
    time.sleep(0.2)
    """
    )
    begin = time.monotonic()
    told = shmrun("-n", 2, script)
    assert told.returncode == 0, told.stderr
    assert "job.py:7" in told.stderr
    assert time.monotonic() - begin < 100  # and not until the limit of a wait, 300 s
