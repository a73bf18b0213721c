"""A program that closes what a rank of `shmcoll.run` answers through, or the caller's socket, and opens its own files.

No answer is written into such a file; what is missing is said, and the next call works.
"""

import contextlib
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


JUNK = (b"\x80\x05junk", b"x" * 1000, b"N." * 400)  # no pickles, and one of something else


@pytest.mark.parametrize("fails", [False, True])
def test_a_program_that_writes_into_all_descriptors_answers(fails: bool) -> None:
    def write_into_all(junk: bytes) -> None:
        """Write into all descriptors that the program has not opened, but the job's memory."""
        for link in list(Path("/proc/self/fd").iterdir()):
            with contextlib.suppress(OSError):
                if int(link.name) > 2 and str(link.readlink()) != "/memfd:shmcoll (deleted)":
                    os.write(int(link.name), junk)

    def scribble(junk: bytes) -> int:
        comm = shmcoll.init()
        for _ in range(2):
            if comm.rank == 1:
                write_into_all(junk)
            comm.barrier()
        if fails:
            raise ValueError("the user's own")
        return comm.rank

    with shmcoll.ranks(2) as ranks:
        for call in (lambda junk: shmcoll.run(scribble, 2, junk), lambda junk: ranks.run(scribble, junk)):
            for junk in JUNK:
                with pytest.raises(ValueError, match="the user's own") if fails else contextlib.nullcontext():
                    assert call(junk) == [0, 1]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("junk", JUNK)
def test_an_answer_that_another_rank_has_overwritten(junk: bytes, fails: bool) -> None:
    def overwrite() -> None:
        links = list(Path("/proc/self/fd").iterdir())
        answers = next(int(link.name) for link in links if "shmcoll-answers" in os.path.realpath(link))
        if os.environ["RANK"] == "0":
            if fails:
                raise ValueError("the user's own")
            return
        while not os.pread(answers, 1000, 0).endswith(b"."):  # a whole pickle
            pass
        os.write(answers, junk)

    with pytest.raises(RankFailed) as caught:
        shmcoll.run(overwrite, 2, on_failure="stop")
    assert caught.value.rank == 0
    assert str(caught.value) == (
        "rank 0 of shmcoll.run answered with something else: its program, or another rank's, has written into a "
        "descriptor that it had not opened"
    )


def test_a_caller_that_writes_into_the_socket_of_its_server() -> None:
    assert shmcoll.run(int, 1) == [0]
    assert client._server
    for junk in JUNK:
        os.write(client._server.sock.fileno(), junk)
        before = client._server.process.pid
        assert shmcoll.run(int, 1) == [0]
        assert client._server.process.pid == before
