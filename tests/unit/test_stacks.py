"""Stacks of ranks as they are shown: what faulthandler writes, made shorter."""

import ctypes
import os
import time
from pathlib import Path

import pytest

from shmcoll import asking, stacks

PACKAGE = Path(asking.__file__).parent


def test_the_programs_own_frames_are_shown():
    text = f"""\
Current thread 0x00007f0000000000 (most recent call first):
  File "{PACKAGE}/methods.py", line 3 in barrier
  File "/usr/lib/python3.11/contextlib.py", line 137 in __enter__
  File "{PACKAGE}/verdicts.py", line 90 in _timeout
  File "{Path.cwd()}/train.py", line 7 in step
  File "/data/other (1).py", line 12 in <module>
  File "<frozen runpy>", line 88 in _run_code
"""
    assert asking._shown(text) == ["train.py:7 in step", "/data/other (1).py:12 in <module>"]


def test_threads_are_named_when_there_are_several():
    text = """\
Thread 0x00007f0000000002 (most recent call first):
  File "/a.py", line 1 in work

Current thread 0x00007f0000000001 [python] (most recent call first):
  File "/a.py", line 2 in wait
  File "/a.py", line 3 in <module>
"""
    assert asking._shown(text) == [
        "main thread:",
        "/a.py:2 in wait",
        "/a.py:3 in <module>",
        "thread 1:",
        "/a.py:1 in work",
    ]


def test_the_worker_of_asynchronous_work_is_no_thread_of_the_program():
    text = f"""\
Thread 0x00007f0000000002 (most recent call first):
  File "{PACKAGE}/work.py", line 90 in _run
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f0000000001 (most recent call first):
  File "/a.py", line 3 in <module>
"""
    assert asking._shown(text) == ["/a.py:3 in <module>"]


def test_deep_stacks_are_cut_and_empty_ones_said():
    frames = "".join(f'  File "/a.py", line {i} in recur\n' for i in range(90))
    shown = asking._shown(f"Current thread 0x1 (most recent call first):\n{frames}")
    assert len(shown) < 20
    assert shown[-1] == "..."
    for nothing in ("", "nonsense\n", "Thread 0x1 (most recent call first):\n  <no Python frame>\n"):
        assert asking._shown(nothing) == ["(no Python code of the program's own)"]


def test_a_process_that_has_ended_is_not_asked():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert asking.ask({3: (pid, 1)}, 1) == {3: ["(its process has ended)"]}
    assert asking.ask({0: (os.getppid(), 1)}, 1) == {0: ["(its process has ended)"]}  # the pid is another's


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_a_rank_may_be_kept_from_its_core_while_it_writes(pause):
    """As faulthandler does it, a handler in C writes the stack in pieces; here it sleeps between two of them."""
    libc = ctypes.CDLL(None)
    told, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        fd = os.memfd_create(stacks.FILE)

        @ctypes.CFUNCTYPE(None, ctypes.c_int)
        def write(_number: int) -> None:
            os.write(fd, b'Current thread 0x1 (most recent call first):\n  File "/a.py", line 1 in work\n')
            time.sleep(pause)
            os.write(fd, b'  File "/a.py", line 2 in <module>\n')

        libc.signal(stacks.SIGNAL, write)
        os.write(ready, b"1")
        while True:
            libc.pause()
    os.read(told, 1)
    try:
        assert asking.ask({5: (pid, 0)}, 5.0) == {5: ["/a.py:1 in work", "/a.py:2 in <module>"]}
        assert asking.ask({5: (pid, 0)}, 5.0) == {5: ["/a.py:1 in work", "/a.py:2 in <module>"]}
        if pause:
            assert asking.ask({5: (pid, 0)}, pause / 10) == {5: [f"(no stack within {pause / 10:g} s)"]}
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(told)
        os.close(ready)
