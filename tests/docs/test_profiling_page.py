"""The page "What is my job doing?": its program has the slow rank that the page finds, by both ways."""

import json
import re
from pathlib import Path

from tests.support.late import LATE
from tests.support.launched import Shmrun, shmrun
from tests.support.trace_events import load

__all__ = ["shmrun"]

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "what-is-my-job-doing.md").read_text()


def test_the_slow_rank_of_the_page_is_found(shmrun: Shmrun) -> None:
    (program,) = re.findall(r"```python\n# train.py\n(.*?)```", PAGE, re.DOTALL)
    (part,) = re.findall(r"```python\n(with comm.trace.*?)```", PAGE, re.DOTALL)
    sleep = "time.sleep(0.006 if comm.rank == 2 else 0.002)"
    assert sleep in program
    program = program.replace(sleep, "until_others_wait(comm, 0.01) if comm.rank == 2 else None")
    shmrun.write(LATE + program.replace("range(100)", "range(20)") + part, "train.py")
    done = shmrun("-n", 4, "--stats=stats.json", "--trace", "train.json", "train.py")
    assert done.returncode == 0, done.stderr
    assert json.loads((shmrun.folder / "stats.json").read_text())["slow_rank"] == 2
    found = load(shmrun.folder / "train.json")
    for rank in range(4):
        assert [s["name"] for s in found.on(rank, "program")] == ["load", "forward"] * 20
    slow = sum(s["dur"] for s in found.named("load", 2))
    assert all(sum(s["dur"] for s in found.named("load", rank)) < slow for rank in (0, 1, 3))
    arrows = found.joined("came last")
    assert [source for source, _ in arrows].count(2) >= 3 * 20
    assert len(load(shmrun.folder / "step.json.gz").named("all_reduce")) == 4
    assert "all_reduce" in done.stdout  # the statistics of the block


def test_the_tracks_and_arrows_of_the_page_are_those_of_the_files() -> None:
    from shmcoll.profiling import recorder, timeline

    assert f"{timeline.HELD_UP // 1000} us or longer" in PAGE
    assert f"{recorder.SPANS:,} calls" in PAGE
