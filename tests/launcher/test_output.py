"""`--tag-output`: whole lines, the rank before each, stdout and stderr apart, and nobody held up by a slow reader."""

import os
import subprocess

import pytest
from shmrun.watch.output import Sink

from tests.support.patience import PATIENCE
from tests.support.waiting import until


@pytest.mark.parametrize("way", [(), ("--fresh",)])
def test_lines_are_tagged_and_streams_apart(shmrun, way):
    script = shmrun.write("""
        import os, sys
        for i in range(50):
            print("out", os.environ["RANK"], i)
            print("err", i, file=sys.stderr)
        print("no newline", end="")
    """)
    told = shmrun("-n", 3, "-l", *way, script)
    assert told.returncode == 0
    out, err = told.stdout.splitlines(), told.stderr.splitlines()
    for rank in range(3):
        mine = [line for line in out if line.startswith(f"[{rank}] ")]
        assert mine == [f"[{rank}] out {rank} {i}" for i in range(50)] + [f"[{rank}] no newline"]
        assert [line for line in err if line.startswith(f"[{rank}] ")] == [f"[{rank}] err {i}" for i in range(50)]
    assert (len(out), len(err)) == (153, 150)


def test_lines_come_when_they_are_printed(shmrun):
    """Line buffered, though stdout is a pipe: the line is there while the rank still waits for input."""
    job = shmrun.start("-n", 1, "--tag-output", shmrun.write("print('ready?'); print(input())"), stdin=subprocess.PIPE)
    assert job.stdout.readline() == "[0] ready?\n"
    assert shmrun.finish(job, "yes\n").stdout == "[0] yes\n"


def test_executables_are_tagged(shmrun):
    told = shmrun("-n", 2, "-l", "sh", "-c", "echo $RANK; echo oops >&2")
    assert sorted(told.stdout.splitlines()) == ["[0] 0", "[1] 1"]
    assert sorted(told.stderr.splitlines()) == ["[0] oops", "[1] oops"]


def test_much_output_arrives_whole(shmrun):
    """More than all pipes and buffers hold together, while the reader does not read until all ranks have begun."""
    job = shmrun.start("-n", 2, "-l", "sh", "-c", "seq 200000")
    told = shmrun.finish(job)
    numbers = [str(i) for i in range(1, 200001)]
    for rank in (0, 1):
        assert [line[4:] for line in told.stdout.splitlines() if line.startswith(f"[{rank}] ")] == numbers


def test_a_reader_that_leaves_ends_the_ranks_output(shmrun):
    job = shmrun.start("-n", 2, "-l", "yes")
    assert job.stdout.readline().endswith("] y\n")
    job.stdout.close()
    assert job.wait(timeout=PATIENCE) == 128 + 13
    assert job.stderr.read() == ""


def test_a_reader_that_stops_does_not_stop_the_time_limit(shmrun):
    job = shmrun.start("-n", 2, "-l", "--timeout", "0.3", "--grace", "0.1", "yes")
    assert job.wait(timeout=PATIENCE) == 124  # without anybody reading stdout
    assert "still running: ranks 0, 1" in job.stderr.read()


def test_a_process_left_behind_does_not_hold_up_the_end(shmrun):
    """It has the pipe of its rank; the launcher does not wait for the end of that."""
    told = shmrun("-n", 1, "-l", "sh", "-c", "sleep 60 & echo $!")
    assert told.returncode == 0
    left = int(told.stdout.removeprefix("[0] "))
    os.kill(left, 9)
    until(lambda: os.waitpid(left, os.WNOHANG)[0])  # the tests adopt orphans


def test_sink_writes_what_is_taken():
    read, write = os.pipe()
    os.set_blocking(write, False)
    sink = Sink(write)
    sink.pending += bytes(1 << 20)
    while sink.pending:
        before = len(sink.pending)
        sink.write_some()
        if len(sink.pending) == before:  # the pipe is full: nothing lost, nothing waited for
            os.read(read, 1 << 16)
    sink.pending += b"last"
    os.close(read)
    sink.write_some()
    assert sink.broken
    assert not sink.pending
    os.close(write)
