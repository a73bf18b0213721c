"""shmrun verdict, with files that are damaged, hostile, or of another version."""

import json
import os
import signal
from pathlib import Path

import pytest
from shmrun.commands import verdict

RANK = {"rank": 0, "pid": 7, "state": "waits", "since": 1.25, "place": "in barrier() #2", "waits_for": [1]}
GOOD = {
    "format": 1,
    "pid": 7,
    "ranks": [RANK | {"stack": ["job.py:3 in step"]}, RANK | {"rank": 1, "state": "gone", "waits_for": []}],
    "verdict": "Rank 1 was killed by signal 9 (SIGKILL).",
    "host": "there",
    "written": "2026-01-02T03:04:05+00:00",
    "versions": {"shmcoll": "0.1.0"},
}


@pytest.fixture
def say(tmp_path, capsys):
    """Write a document into a folder of its own; returns the exit code, the output and the errors."""

    def run(contents, *, name="ab12cd34", **options):
        (tmp_path / name).mkdir(exist_ok=True)
        data = contents if isinstance(contents, bytes) else json.dumps(contents).encode()
        (tmp_path / name / "job.json").write_bytes(data)
        code = verdict.show(str(tmp_path), **{"verbose": False} | options)
        return code, *capsys.readouterr()

    return run


def test_the_verdict_is_last(say):
    code, out, err = say(GOOD)
    assert (code, err) == (0, "")
    title, head, first, stack, second, last = out.splitlines()
    assert "job 7 of 2 ranks on there, 2026-01-02T03:04:05+00:00, shmcoll 0.1.0" in title
    assert first.split()[:3] == ["0", "7", "waits"] and first.split()[-1] == "1" and "for" in head
    assert stack.strip() == "job.py:3 in step" and "gone" in second and last == GOOD["verdict"]


def test_several_come_in_the_order_of_their_times(say):
    say(GOOD | {"written": "2026-01-02T03:04:06+00:00", "verdict": "Second."}, name="a")
    out = say(GOOD | {"verdict": "First."}, name="b")[1]
    assert out.index("First.") < out.index("Second.")


def test_json(say):
    assert json.loads(say(GOOD, as_json=True)[1]) == {"format": 1, "jobs": [GOOD]}


@pytest.mark.parametrize(
    ("contents", "what"),
    [
        (json.dumps(GOOD).encode()[:-20], "is damaged"),
        (b"", "is damaged"),
        (b"\xff\xfe\x00", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b"9" * 10_000, "is damaged"),
        (b"[]", "is not a document of shmcoll"),
        (b"{}", "is not a document of shmcoll"),
        ({"format": 1}, "is damaged: it says nothing about ranks"),
        (GOOD | {"ranks": [3]}, "is damaged: it says nothing about ranks"),
        (GOOD | {"format": 2, "versions": {"shmcoll": "9.9"}}, "has format 2, of shmcoll 9.9; this one reads format 1"),
        (GOOD | {"format": "\x1b[31m", "versions": 3}, r"has format \x1b[31m, of shmcoll another version"),
    ],
)
def test_a_file_that_cannot_be_used(say, tmp_path, contents, what):
    code, out, err = say(contents)
    assert (code, out) == (1, "")
    assert err.startswith(f"shmrun: {tmp_path}/ab12cd34/job.json: ") and what in err and err.count("\n") == 1


def test_a_good_one_is_said_beside_a_bad_one(say):
    say(GOOD, name="good")
    code, out, err = say(b"", name="bad")
    assert code == 1 and GOOD["verdict"] in out and "bad/job.json: is damaged" in err


def test_a_good_one_is_said_beside_a_folder_of_another_user(say, monkeypatch, tmp_path):
    (tmp_path / "theirs").mkdir()

    def exists(path, real=Path.exists):
        if path.parent.name == "theirs":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(Path, "exists", exists)
    code, out, err = say(GOOD)
    assert code == 1 and GOOD["verdict"] in out and "theirs/job.json" in err and err.count("\n") == 1


def test_what_is_nested_too_deeply_for_json(say):
    deep = json.dumps(GOOD)[:-1] + ', "more": ' + "[" * 5000 + "]" * 5000 + "}"
    code, _, err = say(deep.encode(), as_json=True)
    assert code == 1 and "is damaged" in err and err.count("\n") == 1


def test_values_of_other_types_are_shown_as_they_are(say):
    odd = {"rank": [1], "pid": {"a": 1}, "state": "\x1b[2J\n\u202e", "since": "nan", "waits_for": 7, "stack": "x"}
    code, out, err = say(
        {"format": 1, "ranks": [odd, {}], "verdict": ["\x07"], "versions": [], "age": 1e400, "failures": [3, {}]},
        verbose=True,
    )
    assert (code, err) == (0, "")
    assert out.isprintable() or all(line.isprintable() for line in out.splitlines())
    assert r"\x1b[2J\n\u202e" in out


def test_what_is_no_regular_file(tmp_path, capsys):
    os.mkfifo(tmp_path / "job.json")
    signal.alarm(20)  # opening it must not wait
    assert verdict.show(str(tmp_path / "job.json"), verbose=False) == 1
    signal.alarm(0)
    assert "not a regular file" in capsys.readouterr().err


def test_a_writer_that_was_killed(tmp_path, capsys):
    (tmp_path / "ab12cd34").mkdir()
    (tmp_path / "ab12cd34" / ".job.json").write_text("{")
    assert verdict.show(str(tmp_path), verbose=False) == 1
    assert "it is missing: who was about to write it was killed, or had no room" in capsys.readouterr().err


def test_nothing_there(tmp_path, capsys):
    assert verdict.show(str(tmp_path), verbose=False) == 1
    assert capsys.readouterr().err.startswith(f"shmrun: no job.json in '{tmp_path}'")
    assert verdict.show(str(tmp_path / "none"), verbose=False) == 1
    assert "No such file" in capsys.readouterr().err
    assert verdict.show(None, verbose=False) == 2
