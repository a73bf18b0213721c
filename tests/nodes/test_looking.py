"""`shmrun ps` and `shmrun inspect` on a job over nodes: all nodes of this machine are one job."""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.nodes import started
from tests.support.patience import PATIENCE

JOB = str(started.ROOT / "tests/nodes/failures_job.py")


@contextlib.contextmanager
def running(folder: Path, case: str) -> "Iterator[subprocess.Popen[str]]":
    """A job of four ranks on two nodes."""
    command = started.command(JOB, started.LAYOUTS["2x2"], [case, str(folder)])
    environment = started.environment(SHMCOLL_TIMEOUT=str(PATIENCE))
    with subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        try:
            yield job
        finally:
            job.kill()


def shmrun(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "shmrun", *map(str, words)],
        env=started.environment(PYTHONPATH=f"{started.ROOT}/launcher:{started.ROOT}"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def until(job: "subprocess.Popen[str]", look: Callable[[], Any]) -> Any:
    """Look until what is seen is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if job.poll() is not None:
            raise AssertionError("".join(job.communicate()))
        if found := look():
            return found
        time.sleep(1)  # mpiexec's ranks and each look want a core
    raise AssertionError(shmrun("ps") + shmrun("inspect"))


def listed_by_ps(job: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    """What `ps` says of this job. Other programs may run jobs at the same time."""
    own = {process.pid for process in psutil.Process(job.pid).children(recursive=True)}
    return [one for one in json.loads(shmrun("ps", "--json"))["jobs"] if own & set(one["pids"])]


def ranks_that_wait(job: "subprocess.Popen[str]", *expected: int) -> dict[str, Any]:
    """The document of `inspect` once these ranks have waited for a second."""
    (listed,) = listed_by_ps(job)

    def look() -> dict[str, Any] | None:
        document = json.loads(shmrun("inspect", listed["pids"][0], "--json", "--stacks"))
        waiting = tuple(one["rank"] for one in document["ranks"] if one["waits_for"] and one["since"] > 1)
        return document if waiting == expected else None

    return until(job, look)


@pytest.mark.any_mpi
def test_all_nodes_of_this_machine_are_one_job(tmp_path):
    with running(tmp_path, "absent") as job:
        until(job, lambda: len(listed_by_ps(job)) == 1)
        document = ranks_that_wait(job, 0, 1, 2)
        ranks = document["ranks"]
        assert [(one["rank"], one["node"], one["waits_for"]) for one in ranks] == [
            (0, "a", [3]),
            (1, "a", [3]),
            (2, "b", [3]),
            (3, "b", []),
        ]
        assert [(one["call"], one["sequence"], one["state"]) for one in ranks[:3]] == [("all_reduce", 5, "waits")] * 3
        assert (ranks[3]["call"], ranks[3]["state"]) == ("all_reduce", "outside")
        assert any("failures_job.py:" in line and " in absent" in line for line in ranks[3]["stack"])
        assert document["unseen"] == []
        assert document["culprits"] == [{"rank": 3, "keeps_waiting": [0, 1, 2]}]
        assert document["verdict"].startswith("Rank 3 (node b) keeps ranks 0, 1, 2 waiting, for ")
        assert "it has not arrived at all_reduce #5" in document["verdict"]

        (listed,) = listed_by_ps(job)
        assert (listed["ranks"], listed["state"], listed["waits_for"]) == (4, "waits", [3])
        assert listed["nodes"] == [{"node": "a", "ranks": [0, 1]}, {"node": "b", "ranks": [2, 3]}]
        assert listed["unseen"] == []
        assert re.search(r" 4 +\d+ s  waits \d+ s for rank 3 on nodes a, b ", shmrun("ps"))

        table = shmrun("inspect", ranks[3]["pid"], "-v").splitlines()
        assert table[0].split() == ["rank", "pid", "node", "state", "for", "where", "waits", "for"]
        assert re.fullmatch(r" +2 +\d+  b +waits +\d+\.\d s  in all_reduce #5 +3", table[3])

        (tmp_path / "enough").touch()
        document = ranks_that_wait(job, 0, 2)
        ranks = document["ranks"]
        assert (ranks[0]["call"], ranks[0]["waits_for"]) == ("recv(source=3, tag=5)", [3])
        assert (ranks[2]["call"], ranks[2]["group"], ranks[2]["waits_for"]) == ("barrier()", [2, 3], [3])
        assert "does not continue" not in document["verdict"]

        (tmp_path / "more").touch()
        out, err = job.communicate(timeout=PATIENCE)
        assert (job.returncode, out) == (0, "")
        assert "shmcoll" not in err
