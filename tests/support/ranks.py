"""A job whose ranks are forks of the test process: quick to start, and any Python function can be what they run."""

import atexit
import contextlib
import ctypes
import faulthandler
import logging
import os
import pickle
import selectors
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import shmcoll.startup.join
from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.runtime import uncaught
from tests.support.patience import PATIENCE
from tests.support.waiting import comes_true

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Outcome:
    """How a rank ended. `value`: what the function returned; `error`: what it raised; neither when the process died.

    `status` is what `os.waitstatus_to_exitcode` says: an exit code, or minus a signal number.
    """

    rank: int
    value: Any
    error: BaseException | None
    traceback: str
    status: int


class Job:
    """n ranks that run `function(comm, *args)`.

    environment: for the creator of the arena and the ranks. timeout: seconds of one wait. tell: whether this process
    does what a launcher does and writes a record about each rank that ends; else ranks must find out by themselves.
    """

    def __init__(
        self,
        n: int,
        function: Callable[..., Any],
        args: tuple = (),
        *,
        environment: dict[str, str] | None = None,
        timeout: float = PATIENCE / 2,
        tell: bool = False,
    ):
        self.size = n
        self._tell = tell
        self._ended = False
        shmcoll.startup.join.preload()
        with _environment(environment or {}):
            self.arena = arenas.create(n, timeout=timeout)
            sys.stdout.flush()
            sys.stderr.flush()
            self._stacks = [tempfile.TemporaryFile() for _ in range(n)]  # noqa: SIM115 - closed in kill()
            self.pids: list[int] = []
            self._pipes: dict[int, int] = {}
            self._answers: dict[int, bytes] = {}
            self._statuses: dict[int, int] = {}
            for rank in range(n):
                theirs = self._start(rank, function, args)
                self._pipes[theirs] = rank

    def _start(self, rank: int, function: Callable[..., Any], args: tuple) -> int:
        read, write = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
            for other in (read, *self._pipes):
                os.close(other)
            logging.getLogger().handlers.clear()  # pytest's: a program of the user's has none
            _be_rank(self.arena, rank, function, args, write, self._stacks[rank])
        os.close(write)
        self.pids.append(pid)
        return read

    # --- looking on ---------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Poll until `condition()`; fails with the ranks' stacks when it does not come about."""
        if not comes_true(condition, seconds):
            self._fail(f"in {seconds} s never: {what}")

    def parked(self, rank: int) -> bool:
        """Whether the rank sleeps, waiting for another."""
        return self.arena.load(mailbox(self.arena, rank) + layout.PARKED) != 0

    def progress(self, rank: int) -> int:
        return self.arena.load(mailbox(self.arena, rank) + layout.PROGRESS)

    def sequence(self, rank: int) -> int:
        """Number of the last collective that the rank has published."""
        return published(self.arena, rank)

    def ended(self, rank: int) -> bool:
        """Whether the rank's process has ended; it is not waited for."""
        return Path(f"/proc/{self.pids[rank]}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self, deadline: float = PATIENCE, look: Callable[[], None] = lambda: None) -> list[Outcome]:
        """Wait for all ranks. After `deadline` seconds it fails with the stacks of all. look: called when they have
        ended, before the arena is closed."""
        __tracebackhide__ = True
        end = time.monotonic() + deadline
        with selectors.DefaultSelector() as selector:
            for pipe in self._pipes:
                selector.register(pipe, selectors.EVENT_READ)
            while self._pipes:
                ready = selector.select(max(0.0, end - time.monotonic()))
                if not ready:
                    selector.close()
                    late = sorted(self._pipes.values())
                    self._fail(f"ranks {late} did not finish in {deadline} s")
                for key, _ in ready:
                    self._read(key.fd, selector)
        outcomes = []
        for rank in range(self.size):
            if not comes_true(partial(self._reap, rank), max(1.0, end - time.monotonic())):
                self._fail(f"rank {rank} answered but did not exit")
            raw = self._answers.get(rank, b"")
            value, error, text = pickle.loads(raw) if raw else (None, None, "(the process died)")
            outcomes.append(Outcome(rank, value, error, text, self._statuses[rank]))
        look()
        self.kill()
        return outcomes

    def _read(self, pipe: int, selector: selectors.BaseSelector) -> None:
        rank = self._pipes[pipe]
        data = os.read(pipe, 1 << 20)
        self._answers[rank] = self._answers.get(rank, b"") + data
        if not data:
            selector.unregister(pipe)
            os.close(pipe)
            del self._pipes[pipe]
            if self._tell:
                comes_true(lambda: self._reap(rank), 5.0)

    def _reap(self, rank: int) -> bool:
        """Wait for the rank's process; without a launcher's part it stays a zombie until all ranks are done."""
        if rank in self._statuses:
            return True
        pid, status = os.waitpid(self.pids[rank], os.WNOHANG)
        if pid == 0:
            return False
        code = self._statuses[rank] = os.waitstatus_to_exitcode(status)
        if self._tell:
            self._write_record(rank, code)
        return True

    def _write_record(self, rank: int, code: int) -> None:
        if code == 0:
            records.write(self.arena, rank, layout.BY_LAUNCHER, records.DEPARTED)
            Group.world(self.arena).ring()
            return
        cause = records.EXITED if code > 0 else records.KILLED
        text = f"exited with {code}" if code > 0 else f"was killed by signal {-code}"
        records.write(self.arena, rank, layout.BY_LAUNCHER, records.FAILED, cause, abs(code), text)
        Group.world(self.arena).abort()

    def _fail(self, message: str) -> None:
        """Kill the ranks and fail, with their stacks."""
        for pid in self._alive():
            os.kill(pid, signal.SIGUSR1)
            os.kill(pid, signal.SIGCONT)
        comes_true(lambda: all(os.fstat(f.fileno()).st_size for f in self._stacks), 1.0)
        stacks = []
        for rank, file in enumerate(self._stacks):
            file.seek(0)
            stacks.append(f"--- rank {rank}, operation {self.sequence(rank)}\n{file.read().decode()}")
        self.kill()
        raise AssertionError(message + "\n" + "\n".join(stacks))

    def _alive(self) -> list[int]:
        return [pid for rank, pid in enumerate(self.pids) if rank not in self._statuses]

    def kill(self) -> None:
        """End what still runs and close everything. Again: nothing."""
        for pid in self._alive():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._statuses = dict.fromkeys(range(self.size), 0)
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes.clear()
        for file in self._stacks:
            file.close()
        if not self._ended:
            self._ended = True
            close(self.arena)


def close(arena: arenas.Arena) -> None:
    """Give back what an arena holds in this process; to touch it afterwards is an error."""
    arena.close()
    arena.address = 0


def mailbox(arena: arenas.Arena, rank: int) -> int:
    return Group.world(arena).mailbox(rank)


def published(arena: arenas.Arena, rank: int) -> int:
    """Number of the last collective that the rank has published."""
    return Group.world(arena).published(rank)


# --- in the rank ------------------------------------------------------------------------------------------------------


def _be_rank(arena: arenas.Arena, rank: int, function: Callable[..., Any], args: tuple, pipe: int, stacks: Any) -> None:
    """Run the function as the main program of a rank, answer, and end as the interpreter would."""
    code, answer = 1, b""
    try:
        atexit._clear()  # those of the test process
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ["SHMCOLL_ARENA"] = f"{arena.fd}:{arena.nonce}:{os.getppid()}"
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(arena.ranks), OMP_NUM_THREADS="1")
        try:
            answer = pickle.dumps((function(shmcoll.startup.join.init(), *args), None, ""))
            code = 0
        except BaseException as error:
            answer = _tell(error)
            code = _exit_code(error)
            if not isinstance(error, SystemExit):
                uncaught.ends_by(error)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        answer, code = _tell(sys.exception() or RuntimeError("unknown")), 1
    finally:
        with contextlib.suppress(OSError), open(pipe, "wb") as answers:
            answers.write(answer)
        os._exit(code)


def _tell(error: BaseException) -> bytes:
    text = "".join(traceback.format_exception(error))
    error.__traceback__ = error.__context__ = error.__cause__ = None
    try:
        data = pickle.dumps((None, error, text))
        pickle.loads(data)
    except Exception:
        data = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}"), text))
    return data


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 1


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    kept = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
