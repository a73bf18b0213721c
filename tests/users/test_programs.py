"""A small program of each kind of user, run as that user runs it, and compared with what it should give.

The MindSpore and the NKI user's programs are the examples: see `tests/frontends/test_examples.py`.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.patience import PATIENCE
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def run(directory: Path, *command: str, status: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=directory, env=os.environ | variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended


def script(directory: Path, text: str, name: str = "program.py") -> str:
    (directory / name).write_text(textwrap.dedent(text))
    return name


def test_a_scientist_who_comes_from_mpi4py(tmp_path: Path) -> None:
    """The heat equation: rows to each rank, borders between neighbours, rows back."""
    name = script(tmp_path, """\
        import numpy as np, shmcoll
        comm = shmcoll.init()
        plate = np.random.default_rng(1).random((10, 7)) if comm.rank == 0 else None
        mine = comm.scatter_v(plate, send_counts=[4, 3, 3], axis=0)
        before = comm.rank - 1 if comm.rank else None
        after = comm.rank + 1 if comm.rank + 1 < comm.size else None
        for step in range(20):
            above, below = np.zeros(7), np.zeros(7)
            comm.sendrecv(mine[-1], after, above, before)
            comm.sendrecv(mine[0], before, below, after)
            padded = np.vstack([above, mine, below])
            mine = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
        heat = comm.all_reduce(float(mine.sum()))
        gathered = comm.gather_v(mine, axis=0)
        if comm.rank == 0:
            whole, counts = gathered
            assert counts.tolist() == [4, 3, 3]
            np.save("whole.npy", whole)
            print(f"{heat:.6f}")
    """)  # fmt: skip
    printed = run(tmp_path, "shmrun", "-n", "3", name).stdout
    plate = np.random.default_rng(1).random((10, 7))
    for _ in range(20):
        padded = np.pad(plate, ((1, 1), (0, 0)))
        plate = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    assert np.array_equal(np.load(tmp_path / "whole.npy"), plate)
    assert printed == f"{plate.sum():.6f}\n"


def test_an_engineer_who_trains_a_model(tmp_path: Path) -> None:
    """The gradients' mean while the next are computed; a checkpoint as an object; None off the root."""
    name = script(tmp_path, """\
        import numpy as np, shmcoll
        comm = shmcoll.init()
        rng = np.random.default_rng(comm.rank)
        x, truth = rng.standard_normal((64, 5)), np.arange(5.0)
        weights = comm.broadcast(np.zeros(5) if comm.rank == 0 else None)
        for step in range(400):
            gradient = 2 * x.T @ (x @ weights - x @ truth) / len(x)
            work = comm.all_reduce(gradient, "avg", async_op=True)
            loss = comm.all_reduce(((x @ weights - x @ truth) ** 2).mean(), "avg")
            weights = weights - 0.05 * work.wait()
        state = comm.broadcast_object({"step": step, "weights": weights} if comm.rank == 0 else None)
        assert (state["weights"] == weights).all(), "ranks differ"
        assert isinstance(loss, float)
        if comm.rank == 1:
            print((np.abs(weights - truth) < 1e-6).all(), bool(loss < 1e-8))
    """)  # fmt: skip
    assert run(tmp_path, "shmrun", "-n", "2", name).stdout == "True True\n"


def test_somebody_with_a_notebook(tmp_path: Path) -> None:
    """Functions on ranks, ranks that keep state, an array that parent and ranks share."""
    name = script(tmp_path, """\
        import numpy as np, shmcoll

        def moments(x, *, power):
            comm = shmcoll.init()
            return float(comm.all_reduce((x[comm.rank :: comm.size] ** power).sum()))

        def load(n):
            global data
            comm = shmcoll.init()
            data = np.arange(n) + comm.rank

        def step():
            return int(shmcoll.init().all_reduce(data).sum())

        def fill(x):
            comm = shmcoll.init()
            x[comm.rank] = comm.rank + 1

        if __name__ == "__main__":
            print(shmcoll.run(moments, 2, np.arange(5.0), power=2))
            print(shmcoll.map(lambda item: item * item, range(5), n=2))
            with shmcoll.ranks(2) as ranks:
                ranks.run(load, 3)
                print(ranks.run(step))
            both = shmcoll.shared(np.zeros(2))
            shmcoll.run(fill, 2, both)
            print(both)
    """)  # fmt: skip
    ended = subprocess.run(
        [sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.stdout == "[30.0, 30.0]\n[0, 1, 4, 9, 16]\n[9, 9]\n[1. 2.]\n", ended.stderr


STUCK = {
    "every rank receives first": ("comm.recv(source=1 - comm.rank)", "recv"),
    "a collective under if": ("if comm.rank == 0:\n    comm.barrier()\ncomm.all_reduce(1.0)", "barrier"),
    "an exception": ("if comm.rank == 1:\n    {}['lr']\ncomm.barrier()", "KeyError: 'lr'"),
    "a signal": (
        "import os\nif comm.rank == 1:\n    os.kill(os.getpid(), 9)\ncomm.barrier()",
        "SIGKILL); its last call, barrier() #1, had returned",
    ),
}


@pytest.mark.parametrize("name", STUCK)
def test_somebody_whose_program_hangs_or_crashes(tmp_path: Path, name: str) -> None:
    """It ends by itself, not with 0, and says which call and which rank; and the line, if Python could still say it."""
    text, words = STUCK[name]
    program = tmp_path / "stuck.py"
    program.write_text(f"import shmcoll\ncomm = shmcoll.init()\ncomm.barrier()\n{text}\n")
    ended = subprocess.run(
        [sys.executable, "-m", "shmrun", "-n", "2", "--wait-timeout", "5", "stuck.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert ended.returncode not in (0, 124)
    said = ended.stderr
    assert words in said and "rank 1" in said and ("stuck.py" in said or name == "a signal"), said


def test_an_engineer_with_a_pipeline(tmp_path: Path) -> None:
    """A test file that starts ranks, and a comparison of two measurements that fails above a limit."""
    script(tmp_path, """\
        import pytest, shmcoll

        def mean():
            comm = shmcoll.init()
            return comm.all_reduce(float(comm.rank), "avg")

        @pytest.mark.parametrize("n", [1, 2])
        def test_mean(n):
            assert shmcoll.run(mean, n) == [(n - 1) / 2] * n
    """, "test_mean.py")  # fmt: skip
    assert "2 passed" in run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "test_mean.py").stdout
    run(tmp_path, "shmbench", "all_reduce", "-n", "2", "-b", "8", "-e", "8", "-J", "before.json")
    run(tmp_path, "shmbench", "diff", "before.json", "before.json", "--fail-above", "10%")
    results: Any = json.loads((tmp_path / "before.json").read_text())
    assert results["date"]
    results["load"] |= {"others": 0.0, "stolen": 0.0}  # beside other programs, nothing is judged
    (tmp_path / "before.json").write_text(json.dumps(results))
    (tmp_path / "after.json").write_text(json.dumps(_slower(results)))
    told = run(tmp_path, "shmbench", "diff", "before.json", "after.json", "--fail-above", "10%", status=1).stdout
    assert "all_reduce" in told


def _slower(value: Any, key: str = "") -> Any:
    """The same results, each time three times as long."""
    if isinstance(value, dict):
        return {name: _slower(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_slower(one, key) for one in value]
    return 3 * value if isinstance(value, float) and key in ("time", "rounds") else value


def test_an_administrator(tmp_path: Path) -> None:
    """What runs, for whom, in JSON; a job that is ended leaves nothing."""
    doctor = json.loads(run(tmp_path, "shmrun", "doctor", "--json").stdout)
    assert doctor
    script(tmp_path, "import shmcoll, time\ncomm = shmcoll.init()\ncomm.barrier()\ntime.sleep(60)\n", "long.py")
    job = subprocess.Popen([sys.executable, "-m", "shmrun", "-n", "2", "long.py"], cwd=tmp_path)
    try:
        until(lambda: f'"pid": {job.pid}' in run(tmp_path, "shmrun", "ps", "--json").stdout)
    finally:
        job.send_signal(signal.SIGTERM)
        assert job.wait(20) in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert f'"pid": {job.pid}' not in run(tmp_path, "shmrun", "ps", "--json").stdout
    warned = run(tmp_path, "shmrun", "-n", "1", "true", SHMCOLL_TIMOUT="5").stderr
    assert "SHMCOLL_TIMOUT" in warned and "SHMCOLL_TIMEOUT" in warned
