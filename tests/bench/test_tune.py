"""`shmbench tune`: when a threshold is moved, from made-up measurements; and a short run of it."""

import os
import subprocess
import sys
from math import log

import pytest
from shmbench.commands import tune as command
from shmbench.commands.thresholds import choose, crossings
from shmbench.timing.other_load import Others

from shmcoll.engine.layout import CELL_BYTES
from shmcoll.engine.memory import thresholds
from shmcoll.engine.system.cores import usable_cores
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

DEFAULT = 32
ORDER = ("ring_bytes", "flat_bytes", "stream_bytes", "exchange_bytes", "direct_bytes")


def ratios(**told):
    """Ten rounds for each edge: one ratio of short over long, or several that come in turn."""
    rounds = {int(edge[1:]): value if isinstance(value, tuple) else (value,) for edge, value in told.items()}
    return {edge: [[log(value[i % len(value)])] for i in range(10)] for edge, value in rounds.items()}


@pytest.mark.parametrize(
    ("told", "chosen"),
    [
        (ratios(_8=0.5, _16=0.7, _32=0.9, _64=1.1, _128=1.5), 32),  # as it is
        (ratios(_8=0.5, _16=0.7, _32=0.8, _64=0.9, _128=1.1), 64),
        (ratios(_8=0.5, _16=0.7, _32=0.8, _64=0.9, _128=0.9), 128),
        (ratios(_8=0.5, _16=0.7, _32=0.8, _64=1.02, _128=0.7), 128),  # what it loses at one is but noise
        (ratios(_8=0.5, _16=0.7, _32=0.8, _64=1.1, _128=0.7), 32),
        (ratios(_8=0.5, _16=0.9, _32=1.2, _64=1.1, _128=1.1), 16),
        (ratios(_8=1.5, _16=1.2, _32=1.2, _64=1.1, _128=1.1), 4),  # never
        (ratios(_8=0.5, _16=0.7, _32=0.8, _64=0.98, _128=0.99), 32),  # no more than the noise
        (ratios(_8=0.5, _16=0.7, _32=0.8, _64=0.9, _128=0.99), 64),  # what is gained beyond is none
        (ratios(_8=0.5, _16=0.7, _32=0.8, _64=(0.5, 0.5, 0.5, 1.1), _128=1.1), 32),  # not in all rounds
    ],
)
def test_a_threshold_is_moved_only_for_what_is_clearly_gained(told, chosen):
    assert choose(DEFAULT, told) == chosen


def test_one_round_of_ten_may_be_spoilt():
    told = ratios(_32=0.8, _64=0.8, _128=1.2)
    told[64][3] = [log(5)]
    assert choose(DEFAULT, told) == 64
    told[64][7] = [log(5)]
    assert choose(DEFAULT, told) == DEFAULT


def test_no_call_may_lose_what_another_gains():
    told = ratios(_32=0.8, _64=0.8, _128=1.2)
    assert choose(DEFAULT, {edge: [[*one, log(1.02)] for one in rounds] for edge, rounds in told.items()}) == 64
    assert choose(DEFAULT, {edge: [[*one, log(1.04)] for one in rounds] for edge, rounds in told.items()}) == DEFAULT


def test_a_default_between_the_edges():
    told = ratios(_20=0.9, _40=0.9, _80=1.1)
    assert [choose(30, told), choose(50, told), choose(500, told)] == [40, 50, 40]


@pytest.mark.parametrize("n", [2, 3, 4, 8, 64])
def test_what_is_measured_fits_the_cells(n):
    found = {crossing.name: crossing.calls for crossing in crossings(n, n - 1)}
    assert [crossing.name for crossing in crossings(n, n)] == [name for name in found if name != "exchange_bytes"]
    assert set(found) == set(thresholds.TUNED) - ({"ring_bytes"} if n == 2 else set())
    for edge, calls in found["flat_bytes"].items():
        assert all(size * (n / 2 if name == "all_reduce" else 1) <= edge <= CELL_BYTES for name, size in calls)
    for edge, calls in found.get("ring_bytes", {}).items():
        assert all(edge * (n - 2) >= size > (edge - 1) * (n - 2) and size <= CELL_BYTES for _, size in calls)
    for edge, calls in found["stream_bytes"].items():
        assert all(size == edge - 1 for _, size in calls)
    for name in ("exchange_bytes", "direct_bytes"):
        for edge, calls in found[name].items():
            assert all(size // (1 if call == "collective_permute" else n) == edge - 1 for call, size in calls)
        assert len({len(calls) for calls in found[name].values()}) == 1


def tune(folder, *arguments, expect=0, **variables):
    environment = os.environ | {"SHMCOLL_CACHE_DIR": str(folder)} | variables
    line = [sys.executable, "-m", "shmbench", "tune", *map(str, arguments)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout if expect == 0 else done.stderr


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.stress)])
def test_a_short_run(ranks):
    """In the cache that has the compiled code; what another run has left there is put back."""
    path = thresholds.tuning_file()
    before = path.read_bytes() if path.exists() else None
    try:
        told = tune(path.parent, "-n", ranks, "--rounds", 1, "--anyway")
        measured = [line.split(";")[0].split()[:3] for line in told.splitlines() if ";" in line]
        missing = {"ring_bytes": ranks == 2, "exchange_bytes": ranks <= usable_cores()}
        assert measured == [[str(ranks), "ranks:", name] for name in ORDER if not missing.get(name)]
        assert told.splitlines()[-1] == f"kept in {path}"
        assert ranks in thresholds.known()
        assert tune(path.parent, "--show").splitlines()[-2:] == told.splitlines()[-2:]
        assert tune(path.parent, "--forget") == f"removed {path}\n"
    finally:
        if before is not None:
            path.write_bytes(before)


@pytest.mark.parametrize(("share", "arguments", "code"), [(0.09, [], 0), (0.5, [], 1), (0.5, ["--anyway"], 0)])
def test_what_was_measured_beside_others_is_not_kept(monkeypatch, tmp_path, capfd, share, arguments, code):
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(command, "_run_job", lambda ranks, _: ({"flat_bytes": 4096 * ranks}, 0))
    monkeypatch.setattr(Others, "share", lambda _: share)
    monkeypatch.setattr(command, "_look", lambda: 0.0)
    assert command.main(["-n", "4", "2", *arguments]) == code
    assert thresholds.known() == ({} if code else {2: {"flat_bytes": 8192}, 4: {"flat_bytes": 16384}})
    told = "shmbench tune: 4 ranks: not kept, as others used 50% of the cores; try again later, or with --anyway\n"
    assert capfd.readouterr().err.endswith(told if code else "")


def test_nothing_is_measured_on_a_busy_machine(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(command, "_run_job", None)
    monkeypatch.setattr(Others, "share", lambda _: 0.5)
    assert command.main(["-n", "2"]) == 1
    text = "shmbench tune: nothing was measured, as others use 50% of the cores; try again later, or with --anyway\n"
    assert capsys.readouterr().err == text


def test_a_job_that_fails_is_the_end(monkeypatch, tmp_path):
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(command, "_look", lambda: 0.0)
    monkeypatch.setattr(command, "_run_job", lambda ranks, _: ({}, 3))
    assert command.main(["-n", "2"]) == 3
    assert thresholds.known() == {}


def test_who_has_used_the_cores(monkeypatch):
    """20 s on two cores, on which 15 s were worked: 5 of them by us."""
    told = iter([(100.0, 7.0, 1.0), (120.0, 22.0, 6.0)])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(Others, "_now", lambda _: next(told))
    assert Others().share() == 0.25


def test_the_clocks_of_the_cores_go_forward():
    others = Others()
    began = others._now()
    sum(range(3_000_000))
    assert all(now > then for now, then in zip(others._now(), began, strict=True))
    assert others.share() >= 0


def test_nothing_to_show_and_nothing_to_forget(tmp_path):
    assert tune(tmp_path, "--show").startswith(f"nothing has been measured: there is no {tmp_path}/tuning-")
    assert tune(tmp_path, "--forget").startswith(f"there was no {tmp_path}/tuning-")


def test_what_could_not_be_kept_is_not_measured(tmp_path):
    tmp_path.chmod(0o777)
    told = tune(tmp_path, "-n", 2, expect=1)
    assert told == f"shmbench tune: others may write {tmp_path} (mode 777); chmod go-w it\n"


@pytest.mark.parametrize("line", ["-n 1", "-n two", "--rounds 0", "--show --forget", "all_reduce"])
def test_wrong_options(tmp_path, line):
    told = tune(tmp_path, *line.split(), expect=2)
    assert told.startswith("shmbench tune: ")
    assert told.endswith("(see shmbench tune --help)\n")
