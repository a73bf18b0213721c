"""Stacks of ranks as they are shown: what faulthandler writes, made shorter."""

import contextlib
import ctypes
import itertools
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

import numba
import pytest

import shmcoll
from shmcoll.diagnostics import stack_client, stack_server
from tests.support import sparks
from tests.support.patience import PATIENCE

PACKAGE = Path(shmcoll.__file__).parent


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
    assert stack_client._shown([text]) == ["train.py:7 in step", "/data/other (1).py:12 in <module>"]


def test_libraries_through_which_the_program_has_called_us_are_left_out():
    torch = ("/opt/site-packages/torch/distributed/distributed_c10d.py", 3245, "all_reduce")
    queue = ("/usr/lib/python3.11/queue.py", 171, "get")
    inner = ("train.py", 3, "plus")
    text = stack(inner, (f"{PACKAGE}/calls/x.py", 4, "call"), torch, ("train.py", 9, "step"), queue)
    shown = stack_client._shown([text])
    assert shown == ["train.py:3 in plus", "train.py:9 in step", "/usr/lib/python3.11/queue.py:171 in get"]
    assert stack_client._shown([stack((f"{PACKAGE}/x.py", 4, "call"), torch)]) == [f"{torch[0]}:3245 in all_reduce"]


def test_threads_are_named_when_there_are_several():
    main = stack(("/a.py", 2, "wait"), ("/a.py", 3, "<module>"))
    assert stack_client._shown([main, stack(("/a.py", 1, "work"))]) == [
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
    assert stack_client._shown([stack(("/a.py", 3, "<module>")), worker]) == ["/a.py:3 in <module>"]


def test_deep_stacks_are_cut_and_empty_ones_said():
    shown = stack_client._shown([stack(*(("/a.py", i, "recur") for i in range(90)))])
    assert len(shown) < 20
    assert shown[-1] == "..."
    for nothing in ("", "nonsense\n", "Stack (most recent call first):\n  <no Python frame>\n"):
        assert stack_client._shown([nothing]) == ["(no Python code of the program's own)"]


BUSY = """
import ctypes, os, sys, threading
sys.path[:] = {path}
from shmcoll.diagnostics import stack_server

def deep(n):
    return [deep(n - 1) for _ in range(1)] if n else exec("def one(): return (lambda: 1)()\\none()")

def busy():
    while True:
        deep(20)

stack_server.offer()
for _ in range(2):
    threading.Thread(target=busy, daemon=True).start()
libc = ctypes.CDLL(None)
thread, semaphore = ctypes.c_ulong(), ctypes.create_string_buffer(64)
libc.pthread_create(ctypes.byref(thread), None, libc.sem_wait, semaphore)  # a thread that runs no Python
os.write(1, b"ready")
threading.Event().wait()
"""


def has_taken_all(pid: int) -> bool:
    """Whether no signal waits for a process, or is being handled."""
    masks = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        masks += re.findall(r"^(?:SigPnd|ShdPnd|SigBlk):\t(.*)", (task / "status").read_text(), re.MULTILINE)
    return not any(int(mask, 16) >> (stack_server.SIGNAL - 1) & 1 for mask in masks)


@pytest.mark.slow
def test_threads_that_run_python_code_are_asked_without_harm():
    """Where faulthandler writes the stacks of all threads at once, this process crashes within some 4000 times."""
    process = subprocess.Popen([sys.executable, "-c", BUSY.format(path=sys.path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.read(5) == b"ready"
        for _ in range(10_000):
            process.send_signal(stack_server.SIGNAL)
            time.sleep(1e-4)
        looks = 0
        while looks < 20:  # between taking a signal and entering its handler is a moment
            looks = looks + 1 if has_taken_all(process.pid) else 0
            time.sleep(1e-3)
        told = stack_client.ask({0: (process.pid, 0)}, PATIENCE)[0]
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
    assert stack_client.ask({3: (pid, 1)}, 1) == {3: ["(its process has ended)"]}
    assert stack_client.ask({0: (os.getppid(), 1)}, 1) == {0: ["(its process has ended)"]}  # the pid is another's


TOLD = ["/a.py:1 in work", "/a.py:2 in <module>"]


@pytest.fixture
def slow_writer():
    """A function that forks a process whose handler, in C as faulthandler's, sleeps between two pieces of the stack."""
    libc = ctypes.CDLL(None)
    libc.write.argtypes = ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t
    write, usleep = libc.write, libc.usleep
    usleep.argtypes = (ctypes.c_uint,)
    pieces = [
        b'Stack (most recent call first):\n  File "/a.py", line 1 in work\n',
        b'  File "/a.py", line 2 in <module>\n',
    ]
    (first, n_first), (second, n_second) = [
        (ctypes.cast(ctypes.c_char_p(piece), ctypes.c_void_p).value, len(piece)) for piece in pieces
    ]
    pids = []
    fd = os.memfd_create(stack_server.FILE)

    def fork(pause: float) -> int:
        nap = int(pause * 1e6)

        @numba.cfunc("void(intc)")
        def handler(_number):
            write(fd, first, n_first)
            usleep(nap)
            write(fd, second, n_second)

        libc.signal.restype = ctypes.c_void_p
        before = libc.signal(stack_server.SIGNAL, ctypes.c_void_p(handler.address))
        pids.append(os.fork())
        if pids[-1] == 0:
            while True:
                libc.pause()
        libc.signal(stack_server.SIGNAL, ctypes.c_void_p(before))
        return pids[-1]

    yield fork
    for pid in pids:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    os.close(fd)


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_a_rank_may_be_kept_from_its_core_while_it_writes(slow_writer, pause):
    pid = slow_writer(pause)
    assert stack_client.ask({5: (pid, 0)}, PATIENCE) == {5: TOLD}
    assert stack_client.ask({5: (pid, 0)}, PATIENCE) == {5: TOLD}
    if pause:
        assert stack_client.ask({5: (pid, 0)}, pause / 10) == {5: [f"(no stack within {pause / 10:g} s)"]}


class Rank(stack_client._Asked):
    """A rank of one thread, which does its next steps whenever somebody looks, as many as a schedule says."""

    HANDLER = ("take the signal", "enter the handler", "begin", "end", "return")

    def __init__(self, file: FileIO, schedule: tuple[int, ...], speaks: bool) -> None:
        super().__init__(1, file, [], now=1)
        self.schedule = iter(schedule)
        self.speaks = speaks
        self.text = ""
        self.pending = self.step = 0
        self._send()

    def let_run(self) -> None:
        for _ in range(next(self.schedule, 1)):
            if self.step or self.pending:
                self.pending -= self.step == 0
                self.text += {2: stack_client._HEADER + "a", 3: "b"}.get(self.step, "") if self.speaks else ""
                self.step = (self.step + 1) % 5

    def holds(self) -> bool:
        """As the kernel shows it: neither pending nor blocked between the first step and the second."""
        self.let_run()
        return self.pending > 0 or self.step > 1

    def _written(self) -> list[str]:
        self.let_run()
        return self.text.split(stack_client._HEADER)[1:]

    def _has_ended(self) -> bool:
        return False

    def _send(self) -> bool:
        self.sent += 1
        self.pending += 1
        return True


@pytest.mark.parametrize("speaks", [True, False])
def test_an_answer_is_whole_however_the_rank_runs_meanwhile(monkeypatch, speaks):
    with FileIO(os.devnull) as file:
        for schedule in itertools.product(range(6), repeat=6):
            rank = Rank(file, schedule, speaks)
            monkeypatch.setattr(stack_client, "_holds", lambda *_, rank=rank: rank.holds())
            for _ in range(30):
                if rank.is_complete():
                    break
            assert rank.told == (["ab"] if speaks else [""]), schedule
            assert (rank.pending, rank.step) == (0, 0) or not speaks, schedule


def test_two_may_ask_at_once(slow_writer):
    pid = slow_writer(0.1)
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda _: stack_client.ask({5: (pid, 0)}, PATIENCE), range(3))) == [{5: TOLD}] * 3


@pytest.mark.filterwarnings("ignore:Exception ignored in")  # files are closed when they are forgotten
def test_a_client_that_is_interrupted_leaves_no_lock_and_no_answer(slow_writer):
    """Its thread has yet to write when the next client comes; a process that was forked meanwhile lives."""
    pid = slow_writer(0.05)
    children = []
    life_read, life = os.pipe()

    class Stop(Exception):
        pass

    def stop() -> None:
        children.append(os.fork())
        if children[-1] == 0:
            os.close(life)
            os.read(life_read, 1)
            os._exit(0)
        raise Stop

    files = (Path(stack_client.__file__),)
    for step in range(961, 2500, 97):
        before = len(list(Path("/proc/self/fd").iterdir()))
        with contextlib.suppress(Stop):
            sparks.run(lambda: stack_client.ask({5: (pid, 0)}, PATIENCE), step, files, stop)
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        assert stack_client.ask({5: (pid, 0)}, PATIENCE) == {5: TOLD}, step
    os.close(life)
    os.close(life_read)
    for child in children:
        os.waitpid(child, 0)
    assert len(children) > 10


def test_an_answer_to_an_earlier_client_is_not_taken_for_one(monkeypatch):
    """Another thread of the rank writes it after this client has got the lock."""
    with FileIO(os.memfd_create("test"), "r+") as file:
        looks = iter([True, True, False])  # pending; in the handler; done

        def holds(_pid: int, thread: int) -> bool:
            return bool(sent) or (thread == 2 and next(looks))

        rank = stack_client._Asked(1, file, [2, 1])
        monkeypatch.setattr(stack_client, "_holds", holds)
        monkeypatch.setattr(stack_client._Asked, "_send", lambda _: not sent.append(rank.begin))
        sent: list[int] = []
        assert not rank.is_complete()
        assert (rank.now, sent) == (0, [])
        file.write((stack_client._HEADER + "of thread 2").encode())
        assert not rank.is_complete()
        assert (rank.now, sent) == (0, [])
        rank.is_complete()
        assert sent == [file.tell()]
