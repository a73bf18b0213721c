"""A program that closes what a rank of `shmcoll.run` answers through, or the caller's socket, and opens its own files.

No answer is written into such a file; what is missing is said, and the next call works.
"""

import os
import tempfile
from pathlib import Path

import pytest

import shmcoll
from shmcoll.errors import RankFailed
from shmcoll.runner import client

CONTENT = b"the user's own"


def take_numbers(folder: Path) -> None:
    """Put files of the program's own in place of all descriptors but the standard ones."""
    for number in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
        if number > 2:
            path = folder / f"{os.getpid()}-{number}"
            path.write_bytes(CONTENT)
            fd = os.open(path, os.O_RDWR)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)


def check(folder: Path, at_least: int) -> None:
    contents = [file.read_bytes() for file in folder.iterdir()]
    assert len(contents) >= at_least
    assert contents == [CONTENT] * len(contents)


def test_a_rank_that_cannot_answer_says_why(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def close() -> str:
        shmcoll.init().barrier()
        take_numbers(tmp_path)
        return "a result"

    with pytest.raises(RankFailed, match="exited with code 1, without a result"):
        shmcoll.run(close, 2)
    assert "cannot answer: its program has closed descriptors that it had not opened" in capfd.readouterr().err
    check(tmp_path, 2 * 3)  # the arena, the answers, the socket
    assert shmcoll.run(lambda: shmcoll.init().rank, 2) == [0, 1]


def test_an_exception_is_shown_where_it_cannot_be_sent(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def close() -> None:
        take_numbers(tmp_path)
        raise ValueError("the user's own")

    with pytest.raises(RankFailed):
        shmcoll.run(close, 1)
    shown = capfd.readouterr().err
    assert "ValueError: the user's own" in shown
    assert "cannot answer" in shown
    check(tmp_path, 2)


@pytest.mark.slow
def test_the_server_is_started_anew_when_its_socket_has_been_closed() -> None:
    assert shmcoll.run(lambda: 1, 1) == [1]
    server = client._server
    assert server
    number = server.sock.fileno()
    os.close(number)
    with tempfile.TemporaryFile() as file:
        if file.fileno() != number:
            os.dup2(file.fileno(), number)
        assert shmcoll.run(lambda: 2, 1) == [2]
        assert server.process.poll() is not None
        assert os.path.sameopenfile(number, file.fileno())
        if file.fileno() != number:
            os.close(number)
