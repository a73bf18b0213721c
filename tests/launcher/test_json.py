"""What shmrun prints and writes for programs: `--json` of ps, inspect and doctor, and `--report-json`."""

import json
import signal

import pytest

from shmcoll.errors import ArenaError
from tests.support.launched import Shmrun
from tests.support.waiting import until

HANG = """
    import os, time
    import numpy as np
    import shmcoll

    comm = shmcoll.init()
    comm.barrier()
    if comm.rank == 1:
        while not os.path.exists("enough"):
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
    comm.all_reduce(np.ones((2, 3), np.float32))
"""


@pytest.mark.slow
def test_a_job_that_hangs_from_its_start_to_its_end(shmrun: Shmrun) -> None:
    job = shmrun.start("-n", 2, "--report-json", "report.json", shmrun.write(HANG), env={"SHMCOLL_GRACE": "60"})

    def listed():
        return [one for one in document(shmrun("ps", "--json"))["jobs"] if one["pid"] == job.pid]

    (one,) = until(lambda: [one for one in listed() if one["state"] == "waits"], pause=0.2)
    assert one.keys() == {
        "pid", "nonce", "ranks", "age", "state", "waiting", "waits_for", "ranks_ended", "command", "caller", "pids",
        "nodes", "unseen",
    }  # fmt: skip
    assert (one["ranks"], one["waits_for"], one["ranks_ended"], one["caller"]) == (2, [1], [], None)
    assert one["age"] > one["waiting"] >= 1
    assert one["command"].endswith(" job.py")

    told = document(shmrun("inspect", job.pid, "--json", "--stacks", "-v"))
    assert told.keys() == {"format", "pid", "nonce", "caller", "ranks", "unseen", "culprits", "verdict"}
    assert (told["pid"], told["nonce"], told["culprits"]) == (
        job.pid,
        one["nonce"],
        [{"rank": 1, "keeps_waiting": [0]}],
    )
    assert told["verdict"].startswith("Rank 1 keeps rank 0 waiting")
    waits, outside = told["ranks"]
    assert waits.keys() == {
        "rank", "node", "pid", "state", "since", "place", "call", "sequence", "group", "waits_for", "stack", "last",
    }  # fmt: skip
    assert (waits["state"], waits["call"], waits["sequence"]) == ("waits", "all_reduce(float32[2, 3], sum)", 2)
    assert (waits["group"], waits["waits_for"]) == ([0, 1], [1])
    assert (outside["state"], outside["call"], outside["waits_for"]) == ("outside", "barrier()", [])
    assert {waits["pid"], outside["pid"]} <= set(one["pids"])
    assert "job.py:" in outside["stack"][0]
    assert [(last["call"], last["outcome"]) for last in outside["last"]] == [("barrier()", "done")]

    (shmrun.folder / "enough").touch()
    assert shmrun.finish(job).returncode == 128 + signal.SIGKILL
    report = json.loads((shmrun.folder / "report.json").read_text())
    first, second = report["ranks"]
    assert first.keys() == {
        "rank", "exit_code", "signal", "seconds", "memory_bytes", "collectives", "moved_bytes", "asleep",
        "shared_bytes", "unshared_arrays", "unshared_bytes",
    }  # fmt: skip
    assert (first["exit_code"], first["signal"], first["collectives"]) == (1, None, 2)
    assert 0 < first["asleep"] <= 1 and first["memory_bytes"] > 1 << 20 and first["seconds"] > 1
    assert (second["exit_code"], second["signal"], second["moved_bytes"]) == (None, "SIGKILL", None)


def test_doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the trial, which starts a job: an error is found before it."""
    from shmrun.commands import doctor, machine

    def broken(*_, **__):
        raise ArenaError("no room")

    monkeypatch.setattr(machine.arena, "create", broken)
    assert doctor.examine(as_json=True) == 1
    told = json.loads(capsys.readouterr().out)
    assert told.keys() == {"format", "errors", "warnings", "findings"}
    assert told["errors"] == 1
    (error,) = [finding for finding in told["findings"] if finding["level"] == "error"]
    assert error == {"level": "error", "subject": "arena", "text": "no room", "advice": ""}


def test_no_jobs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from shmrun.commands import ps

    monkeypatch.setattr(ps.observer, "_mapped", dict)
    assert ps.show(as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == {"format": 1, "jobs": []}


@pytest.mark.parametrize("name", ["no/such/folder/x.json", "."])
def test_a_report_that_could_not_be_written_is_refused_before_the_job(shmrun: Shmrun, name: str) -> None:
    done = shmrun("-n", 2, "--report-json", name, "true")
    assert done.returncode == 2
    assert done.stderr.startswith(f"shmrun: --report-json: {name!r} is not a file in a directory that exists")


def document(done):
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["format"] == 1
    return told
