"""`--log-dir` and `--tee`: one file a rank, with all that it printed and the traceback that ended it."""

import re

import pytest

CHAT = """
    import os, sys
    rank = os.environ["RANK"]
    for i in range(3):
        print("out", rank, i)
        print("err", rank, i, file=sys.stderr)
"""
LINES = "".join(f"out {{0}} {i}\nerr {{0}} {i}\n" for i in range(3))


@pytest.mark.parametrize("way", [(), ("--fresh",)], ids=["fork", "fresh"])
def test_files_alone(shmrun, way):
    told = shmrun("-n", 2, "--log-dir", "some/logs", *way, shmrun.write(CHAT))
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    for rank in (0, 1):
        assert (shmrun.folder / f"some/logs/rank.{rank}.log").read_text() == LINES.format(rank)


@pytest.mark.parametrize("tagged", [True, False])
def test_both(shmrun, tagged):
    told = shmrun("-n", 2, "--log-dir", "logs", "--tee", *["-l"][:tagged], shmrun.write(CHAT))
    assert told.returncode == 0
    for stream, text in (("out", told.stdout), ("err", told.stderr)):
        lines = [f"{f'[{rank}] ' * tagged}{stream} {rank} {i}" for rank in (0, 1) for i in range(3)]
        assert sorted(text.splitlines()) == lines
    for rank in (0, 1):
        log = (shmrun.folder / f"logs/rank.{rank}.log").read_text()
        assert sorted(log.splitlines()) == sorted(LINES.format(rank).splitlines())
        assert re.findall(r"out \d (\d)", log) == re.findall(r"err \d (\d)", log) == ["0", "1", "2"]


def test_an_executable_and_an_old_file(shmrun):
    shmrun.write("old\n" * 100, "logs/rank.0.log")
    told = shmrun("-n", 1, "--log-dir", "logs", "sh", "-c", "echo one; echo two >&2; printf three")
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    assert (shmrun.folder / "logs/rank.0.log").read_text() == "one\ntwo\nthree"


@pytest.mark.parametrize("options", [(), ("--tee",)], ids=["alone", "tee"])
def test_the_traceback_stands_last_in_both_places(shmrun, options):
    script = shmrun.write("print('before')\nraise ValueError('bad thing')\n")
    told = shmrun("-n", 1, "--log-dir", "logs", *options, script)
    assert told.returncode == 1
    assert told.stdout == ("before\n" if options else "")
    head, trace = told.stderr.split("\n", 1)
    assert head == "shmrun: rank 0 failed first, with exit code 1; it printed to logs/rank.0.log:"
    assert trace.endswith("\nValueError: bad thing\n")
    assert (shmrun.folder / "logs/rank.0.log").read_text() == "before\n" + trace


def test_a_killed_rank_names_its_file(shmrun):
    told = shmrun("-n", 1, "--log-dir", "logs", "sh", "-c", "echo last; kill -KILL $$")
    assert told.returncode == 137
    assert told.stderr.endswith("; it printed to logs/rank.0.log\n")
    assert (shmrun.folder / "logs/rank.0.log").read_text() == "last\n"


@pytest.mark.parametrize("place", ["job.py", "job.py/logs", "/proc/no/logs"])
def test_no_such_place_is_one_clear_line(shmrun, place):
    told = shmrun("-n", 2, "--log-dir", place, shmrun.write("print('never')\n"))
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith(f"shmrun: cannot write the log file '{place}/rank.0.log' (--log-dir): ")
    assert told.stderr.count("\n") == 1


def test_tee_without_files_is_remarked(shmrun):
    told = shmrun("-n", 1, "--tee", "echo", "word")
    assert (told.stdout, told.stderr) == ("word\n", "shmrun: --tee without --log-dir has no files to write to\n")
