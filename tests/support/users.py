"""A second user, for tests of what one user can do to another: a user id that no account has."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

THEM = 41002

needs_two_users = pytest.mark.skipif(os.geteuid() != 0, reason="takes two users, and only root can become another one")


def as_them(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function as the other user, in a process of its own. The test fails when it raises.

    It must need no further import: the other user may not be able to read our interpreter's files.
    """
    assert os.waitpid(_fork(function, arguments), 0)[1] == 0


def start_as_them(function: Callable[..., Any], *arguments: Any) -> Callable[[], None]:
    """The same, but stay there after the function has returned; returns what ends the process."""
    read, write = os.pipe()

    def stay() -> None:
        function(*arguments)
        os.write(write, b".")
        signal.pause()

    pid = _fork(stay, ())
    os.close(write)
    done = os.read(read, 1)
    os.close(read)
    assert done == b"."

    def end() -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    return end


def _fork(function: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(THEM, THEM, THEM)
            os.setresuid(THEM, THEM, THEM)
            function(*arguments)
            status = 0
        except BaseException as e:
            os.write(2, f"{type(e).__name__}: {e}\n".encode())
        finally:
            os._exit(status)
    return pid


def give(path: Path) -> Path:
    """Make a file or directory the other user's."""
    os.lchown(path, THEM, THEM)
    return path


@pytest.fixture
def common() -> Iterator[Path]:
    """A directory that every user can reach: pytest's own lie below one that others cannot enter."""
    folder = Path(tempfile.mkdtemp(prefix="shmcoll-users-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
