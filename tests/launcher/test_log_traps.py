"""`--log-dir` in a directory that others may write: nothing is written into a file that they have chosen."""

import os

import pytest

from tests.support.users import as_them, common, needs_two_users

pytestmark = pytest.mark.slow

__all__ = ["common"]


@pytest.fixture(params=[(), ("--fresh",), ("--tee",)], ids=["fork", "fresh", "tee"])
def log(shmrun, request):
    """`log(folder)`: run a rank that prints and fails, and read its log, which is a file of ours afterwards."""

    def run(folder):
        script = shmrun.write("print('printed')\nraise ValueError('bad')\n")
        told = shmrun("-n", 1, "--log-dir", folder, *request.param, script)
        assert told.returncode == 1
        path = folder / "rank.0.log"
        assert path.is_file() and not path.is_symlink()
        assert (path.stat().st_uid, path.stat().st_nlink) == (os.geteuid(), 1)
        return path.read_text()

    return run


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (tmp_path / "precious").write_text("mine")
    yield folder
    assert (tmp_path / "precious").read_text() == "mine"


def is_whole(text):
    assert text.startswith("printed\nTraceback") and text.endswith("ValueError: bad\n")


def test_a_link(log, folder):
    (folder / "rank.0.log").symlink_to("../precious")
    is_whole(log(folder))


def test_a_second_name_of_another_file(log, folder):
    (folder / "rank.0.log").hardlink_to(folder.parent / "precious")
    is_whole(log(folder))


def test_a_fifo(log, folder):
    os.mkfifo(folder / "rank.0.log")
    is_whole(log(folder))


def test_a_directory_is_named(shmrun, folder):
    (folder / "rank.0.log").mkdir()
    told = shmrun("-n", 1, "--log-dir", folder, "true")
    path = folder / "rank.0.log"
    assert told.returncode == 1
    assert told.stderr == f"shmrun: cannot write the log file '{path}' (--log-dir): Is a directory\n"


@needs_two_users
def test_a_file_of_another_user(log, common):
    folder = common / "logs"
    folder.mkdir()
    folder.chmod(0o777)
    as_them(lambda: os.close(os.open(folder / "rank.0.log", os.O_CREAT | os.O_WRONLY, 0o644)))
    is_whole(log(folder))
