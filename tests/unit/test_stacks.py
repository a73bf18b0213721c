"""Stacks of ranks as they are shown: what faulthandler writes, made shorter."""

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shmcoll import asking, stacks

PACKAGE = Path(asking.__file__).parent


def stack(*frames: tuple[str, int, str]) -> str:
    lines = [f'  File "{path}", line {line} in {function}\n' for path, line, function in frames]
    return "Stack (most recent call first):\n" + "".join(lines)


def test_the_programs_own_frames_are_shown():
    text = stack(
        (f"{PACKAGE}/methods.py", 3, "barrier"),
        ("/usr/lib/python3.11/contextlib.py", 137, "__enter__"),
        (f"{PACKAGE}/verdicts.py", 90, "_timeout"),
        (f"{Path.cwd()}/train.py", 7, "step"),
        ("/data/other (1).py", 12, "<module>"),
        ("<frozen runpy>", 88, "_run_code"),
    )
    assert asking._shown([text]) == ["train.py:7 in step", "/data/other (1).py:12 in <module>"]


def test_threads_are_named_when_there_are_several():
    main = stack(("/a.py", 2, "wait"), ("/a.py", 3, "<module>"))
    assert asking._shown([main, stack(("/a.py", 1, "work"))]) == [
        "main thread:",
        "/a.py:2 in wait",
        "/a.py:3 in <module>",
        "thread 1:",
        "/a.py:1 in work",
    ]


def test_the_worker_of_asynchronous_work_is_no_thread_of_the_program():
    worker = stack(
        (f"{PACKAGE}/work.py", 90, "_run"),
        ("/usr/lib/python3.11/threading.py", 982, "run"),
        ("/usr/lib/python3.11/threading.py", 1002, "_bootstrap"),
    )
    assert asking._shown([stack(("/a.py", 3, "<module>")), worker]) == ["/a.py:3 in <module>"]


def test_deep_stacks_are_cut_and_empty_ones_said():
    shown = asking._shown([stack(*(("/a.py", i, "recur") for i in range(90)))])
    assert len(shown) < 20
    assert shown[-1] == "..."
    for nothing in ("", "nonsense\n", "Stack (most recent call first):\n  <no Python frame>\n"):
        assert asking._shown([nothing]) == ["(no Python code of the program's own)"]


BUSY = """
import os, sys, threading
sys.path[:] = {path}
from shmcoll import stacks

def deep(n):
    return [deep(n - 1) for _ in range(1)] if n else exec("def one(): return (lambda: 1)()\\none()")

def busy():
    while True:
        deep(20)

stacks.offer()
for _ in range(2):
    threading.Thread(target=busy, daemon=True).start()
os.write(1, b"ready")
threading.Event().wait()
"""


def test_threads_that_run_python_code_are_asked_without_harm():
    """Where faulthandler writes the stacks of all threads at once, this process crashes within some 4000 times."""
    process = subprocess.Popen([sys.executable, "-c", BUSY.format(path=sys.path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.read(5) == b"ready"
        for _ in range(10_000):
            process.send_signal(stacks.SIGNAL)
            time.sleep(1e-4)
        told = asking.ask({0: (process.pid, 0)}, 5.0)[0]
        assert process.poll() is None
        assert [line for line in told if line.endswith(":")] == ["main thread:", "thread 1:", "thread 2:"]
        assert sum(" in busy" in line or " in deep" in line for line in told) >= 2
    finally:
        process.kill()
        process.communicate()


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
            os.write(fd, b'Stack (most recent call first):\n  File "/a.py", line 1 in work\n')
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
