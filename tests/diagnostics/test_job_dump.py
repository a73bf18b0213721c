"""What is kept of a job that fails, by the ranks themselves: no launcher watches these jobs (SHMCOLL_DUMP)."""

import json
import os
import resource
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from shmcoll.errors import CollectiveMismatch, CollectiveTimeout, Deadlock, RankFailed
from tests.support.waiting import until_ended


@pytest.fixture
def failed(ranks, tmp_path, monkeypatch):
    """Run a job of so many ranks; returns the documents that are kept, by the names of their folders."""
    monkeypatch.setenv("SHMCOLL_DUMP", str(tmp_path / "kept"))

    def run(n, function, *args, **options):
        ranks.start(n, function, *args, **options).finish()
        folders = sorted((tmp_path / "kept").iterdir())
        for folder in folders:
            assert sorted(one.name for one in folder.iterdir()) == ["job.json", *(f"rank_{i}" for i in range(n))]
        return {folder.name: json.loads((folder / "job.json").read_text()) for folder in folders}

    return run


def only(found):
    (document,) = found.values()
    assert document["format"] == 1 and document["host"] and document["versions"]["shmcoll"] and document["groups"]
    return document


def comes_late(comm):
    if comm.rank == 1:
        until_ended(comm)
        return
    comm.timeout = 0.3
    with pytest.raises(CollectiveTimeout):
        comm.all_reduce(np.ones(4))


def test_a_wait_that_times_out(failed):
    document = only(failed(3, comes_late, timeout=0.3))
    assert document["cause"]["kind"] == "timeout" and document["cause"]["rank"] in (0, 2)
    assert "timed out after 0.3 s; rank 1 did not arrive" in document["verdict"]
    assert "Rank 1 keeps ranks 0, 2 waiting" in document["verdict"]
    assert document["culprits"] == [{"rank": 1, "keeps_waiting": [0, 2]}]
    assert [one["state"] for one in document["ranks"]] == ["waits", "outside", "waits"]
    assert any("comes_late" in line for line in document["ranks"][0]["stack"])
    assert document["ranks"][0]["last"][-1]["call"] == "all_reduce(4 x float64, sum)"


def raises(comm):
    comm.barrier()
    if comm.rank == 1:
        raise ValueError("bad \udce9 sample")
    with pytest.raises(RankFailed):
        comm.barrier()


def test_an_exception(failed):
    document = only(failed(2, raises))
    assert document["cause"] == {"kind": "exception", "rank": 1, "text": "rank 1 raised ValueError: bad \\udce9 sample"}
    assert document["verdict"].startswith("Rank 1 raised ValueError: bad \\udce9 sample.")


def disagrees(comm):
    with pytest.raises(CollectiveMismatch):
        comm.all_reduce(np.ones(2 + comm.rank))


def test_a_mismatch(failed):
    document = only(failed(2, disagrees))
    assert (
        document["cause"]["kind"] == "mismatch" and "rank 1 called all_reduce(float64[3], sum)" in document["verdict"]
    )


def waits_in_a_circle(comm):
    with pytest.raises(Deadlock):
        comm.recv(source=1 - comm.rank)


def test_a_deadlock(failed):
    document = only(failed(2, waits_in_a_circle))
    assert document["cause"]["kind"] == "deadlock"
    assert document["verdict"].startswith("Ranks 0, 1 wait for one another: rank 0 in recv(source=1, tag=ANY) at ")


def is_killed(comm):
    comm.barrier()
    if comm.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RankFailed):
        comm.barrier()


def test_a_rank_that_is_killed(failed):
    """A survivor keeps it, because there is no launcher."""
    document = only(failed(3, is_killed))
    assert document["cause"]["kind"] == "rank gone" and document["cause"]["rank"] == 0
    assert document["ranks"][0]["state"] == "gone"
    assert document["ranks"][1]["place"].endswith("barrier() #2")


def ends_a_group_and_the_job(comm):
    group = comm.subgroup([0, 2]) if comm.rank != 1 else None
    if group:
        with pytest.raises(CollectiveMismatch):
            group.all_reduce(np.ones(2 + comm.rank))
    comm.barrier()
    if comm.rank == 1:
        raise KeyError("x")
    with pytest.raises(RankFailed):
        comm.barrier()


def test_each_group_that_ends_is_kept(failed):
    """The first failure of the job is not lost because a group has ended before."""
    found = failed(3, ends_a_group_and_the_job)
    job, group = found.values()  # the name of the group's begins with that of the job's
    assert job["cause"]["kind"] == "exception" and group["cause"]["kind"] == "mismatch"
    assert any("disagree" in one["text"] and one["group"] == [0, 2] for one in job["failures"])
    assert [0, 2] in group["groups"]


def ends_well(comm):
    comm.barrier()
    if comm.rank == 1:
        raise KeyboardInterrupt
    raise SystemExit(0)


def test_no_failure_keeps_nothing(failed, tmp_path):
    (tmp_path / "kept").mkdir()
    assert failed(2, ends_well) == {}


def raises_elsewhere(comm, folder):
    os.chdir(folder)
    raises(comm)


def test_a_folder_relative_to_where_the_rank_has_joined(ranks, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHMCOLL_DUMP", "kept")
    ranks.start(2, raises_elsewhere, tmp_path / "elsewhere").finish()
    assert len(list(tmp_path.glob("kept/*/job.json"))) == 1


def has_no_room(comm):
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
    comm.timeout = 0.2
    if comm.rank == 1:
        until_ended(comm)
        return None
    with pytest.raises(CollectiveTimeout) as caught:
        comm.barrier()
    return [note for note in caught.value.__notes__ if "cannot keep" in note]


def test_a_full_disk(ranks, tmp_path, monkeypatch):
    """It is one line, the error is the same, and no half of a file is left."""
    monkeypatch.setenv("SHMCOLL_DUMP", str(tmp_path / "kept"))
    (note,) = ranks.start(2, has_no_room, timeout=0.2).finish()[0].value
    assert note.startswith("cannot keep what the ranks did in ") and "File too large" in note
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_folder_that_is_a_file(ranks, tmp_path, monkeypatch, capfd):
    (tmp_path / "kept").write_text("mine")
    monkeypatch.setenv("SHMCOLL_DUMP", str(tmp_path / "kept"))
    outcomes = ranks.start(2, raises).finish()
    assert isinstance(outcomes[1].error, ValueError)
    assert f"cannot keep what the ranks did in '{tmp_path / 'kept'}" in capfd.readouterr().err
    assert (tmp_path / "kept").read_text() == "mine"


@pytest.mark.parametrize("value", ["", "off"])
def test_jobs_without_the_variable_keep_nothing(ranks, tmp_path, monkeypatch, value):
    monkeypatch.setenv("SHMCOLL_DUMP", value)
    monkeypatch.chdir(tmp_path)
    ranks.start(2, disagrees).finish()
    assert list(Path().iterdir()) == []


def times_out_again_and_again(comm):
    for number in range(20):
        group = comm.subgroup([0, 1], name=str(number))
        with pytest.raises(CollectiveMismatch):
            group.all_reduce(np.ones(2 + comm.rank))
    return time.monotonic()


def test_not_more_than_a_few_folders(ranks, tmp_path, monkeypatch):
    monkeypatch.setenv("SHMCOLL_DUMP", str(tmp_path / "kept"))
    ranks.start(2, times_out_again_and_again).finish()
    assert len(list((tmp_path / "kept").iterdir())) == 16
