"""`--buffers` and `--disturb`: what they do, and that every report names them and none mixes them up."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from shmbench.__main__ import main as shmbench_main
from shmbench.cli import options
from shmbench.cli.conditions import Conditions, Neighbour, conditions_of
from shmbench.collectives import Case
from shmbench.commands import compare, diff
from shmbench.report import curves, differences
from shmbench.timing import launch, neighbour
from shmbench.timing.measure import Bench, Plan
from shmbench.timing.other_load import Others
from shmbench.timing.peers import PEERS, Home

from tests.bench.test_diff import document
from tests.bench.test_measure import Alone
from tests.support.patience import PATIENCE
from tests.support.waiting import until

WORDS = {
    Conditions(): "buffers: auto (up to 16 pairs of arrays in turn, within 256M of a rank)",
    Conditions(1): "buffers: 1 (the same arrays in every call)",
    Conditions(3, Neighbour(30)): "buffers: 3 (pairs of arrays in turn); neighbour: 30% of one core",
    Conditions(
        2, Neighbour(50, 1, True)
    ): "buffers: 2 (pairs of arrays in turn); neighbour: 50% of core 1, copying memory",
    Conditions(1, Neighbour(100, 0)): "buffers: 1 (the same arrays in every call); neighbour: 100% of core 0",
    Conditions(1, share_arrays=True): "buffers: 1 (the same arrays in every call); shmcoll's arrays in shared memory",
    Conditions(2, beside=1): "buffers: 2 (pairs of arrays in turn); beside: 1 more job of the same library",
}


@pytest.mark.parametrize("conditions", WORDS)
def test_flags_words_and_json_say_the_same(conditions):
    assert str(conditions) == WORDS[conditions]
    assert options.parse(["gather", *conditions.flags()]).conditions == replace(conditions, beside=0)
    table = json.loads(json.dumps({"options": {"conditions": asdict(conditions)}}))
    assert conditions_of(table) == conditions


def test_tables_that_name_none_were_measured_as_by_default():
    assert conditions_of({}) == conditions_of({"options": {"algorithm": None}}) == Conditions()
    assert options.parse(["gather"]).conditions == Conditions()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--buffers 0", "'0' is no whole number of at least 1"),
        ("--buffers many", "'many' is no whole number"),
        ("--buffers 1000000 --sizes 64M", "2 ranks with as many pairs of arrays of 64M need 250000.0 GiB"),
        ("--disturb 0", "'0' is not a percentage of a core"),
        ("--disturb 101", "'101' is not a percentage of a core"),
        ("--disturb 30@x", "'30@x' is not a percentage of a core"),
        ("--disturb 30@9999", "--disturb 30@9999: core 9999 is not allowed here; choose one of "),
    ],
)
@pytest.mark.parametrize("parse", [options.parse, compare.main])
def test_mistakes_are_one_line(parse, line, told, capsys, tmp_path):
    for name in PEERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "installed").touch()
    where = ["--peers", str(tmp_path)] if parse is compare.main else []
    with pytest.raises(SystemExit) as caught:
        parse(["gather", *line.split(), *where])
    assert caught.value.code == 2
    complaint = capsys.readouterr().err
    assert told in complaint and complaint.count("\n") == 1


@pytest.mark.parametrize(("buffers", "pairs"), [(1, 1), (3, 3), ("auto", 16)])
def test_so_many_pairs_are_used_in_turn(monkeypatch, buffers, pairs):
    monkeypatch.setattr("shmbench.timing.measure.gc.collect", lambda: 0)
    library, seen = Alone(), []
    found = library.collective("all_gather")

    def run(comm, case, arrays, n):
        found.run(comm, case, arrays, n)
        seen.append([out.ctypes.data for _, out in arrays])

    case = Case(np.dtype(np.float32), "none", -1, 0, 1, found.counts(100, 1))
    timing = Bench(library, replace(found, run=run)).measure(case, Plan(20, 2, 2, True, buffers))
    assert timing.pairs == pairs and timing.wrong == 0
    assert len(set(map(tuple, seen))) == 1 and len(set(seen[0])) == pairs


def conditioned(conditions, times=(1.0, 1.1, 1.2), **other):
    return document({8: list(times)}, options={"conditions": asdict(conditions)}, **other)


@pytest.mark.parametrize(
    "other", [Conditions(1), Conditions(neighbour=Neighbour(30)), Conditions(16), Conditions(beside=1)]
)
def test_different_conditions_are_not_put_side_by_side(other, tmp_path, capsys):
    """Neither in a table of differences nor in a picture; within one set of conditions both go on."""
    both = [conditioned(Conditions()), conditioned(other)]
    for place in (lambda: differences.compare(both[:1], both[1:]), lambda: curves.chart(both)):
        with pytest.raises(ValueError, match="these times were measured under 2 conditions: ") as caught:
            place()
        assert str(caught.value).endswith(f": {Conditions()} | {other}")
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, content in zip(paths, both, strict=True):
        path.write_text(json.dumps(content))
    with pytest.raises(SystemExit) as end:
        diff.main([*map(str, paths), "--fail-above", "1000%"])
    assert end.value.code == 2
    assert "under 2 conditions" in capsys.readouterr().err
    assert differences.compare(both[1:], both[1:]).rows
    assert curves.chart(both[1:]).conditions == str(other)


def test_a_comparison_measures_all_libraries_alike(monkeypatch, tmp_path, capsys):
    """Under the same conditions, beside the same neighbour, which is gone afterwards."""
    (tmp_path / "mpich").mkdir()
    (tmp_path / "mpich" / "installed").touch()
    seen = []

    def run(library, folder, arguments, ranks, timeout):
        at = arguments.index("--buffers")
        pid = int(arguments[at + 5])
        assert neighbour.seconds_used(pid) >= 0
        seen.append((library, arguments[0], tuple(arguments[at : at + 5]), pid))
        found = options.parse(arguments).conditions
        Path(arguments[arguments.index("-J") + 1]).write_text(json.dumps(conditioned(found)))

    monkeypatch.setattr(compare, "run", run)
    line = ["gather", "--rounds", "1", "--libraries", "mpich", "--peers", str(tmp_path), "--sizes", "64K"]
    assert compare.main([*line, "--buffers", "1", "--disturb", "7%", "--json", str(tmp_path / "x.json")]) == 0
    assert [one[:2] for one in seen] == [(one, "gather") for one in ("shmcoll", "mpich", "shmcoll")]  # and the limit
    ((words, pid),) = {one[2:] for one in seen}
    assert words == ("--buffers", "1", "--disturb", "7", "--neighbour")
    assert capsys.readouterr().out.splitlines()[1] == f"# {Conditions(1, Neighbour(7))}"
    kept = json.loads((tmp_path / "x.json").read_text())["results"]
    assert {conditions_of(result["table"]) for result in kept} == {Conditions(1, Neighbour(7))}
    assert has_ended(pid)


def has_ended(pid):
    try:
        neighbour.seconds_used(pid)
    except RuntimeError:
        return True
    return False


def await_end(pid):
    until(lambda: has_ended(pid), f"the neighbour {pid} is left behind")


@pytest.mark.parametrize("memory", [False, True])
def test_a_neighbour_computes_for_its_share_and_sleeps(memory):
    with neighbour.running(Neighbour(20, min(os.sched_getaffinity(0)), memory)) as pid:
        assert os.sched_getaffinity(pid) == {min(os.sched_getaffinity(0))}
        assert os.getsid(pid) == pid  # a session of its own
        began, used = time.monotonic(), neighbour.seconds_used(pid)
        until(lambda: neighbour.seconds_used(pid) - used >= 0.05, pause=0.05)
        took, used = time.monotonic() - began, neighbour.seconds_used(pid) - used
        assert used <= 0.3 * took + 0.02  # of each period of 10 ms at most 2 ms, and what a look at the clock takes
    assert has_ended(pid)


def test_a_neighbour_is_not_counted_as_load_of_others(monkeypatch):
    """0.5 s of two cores' 2 s are the neighbour's, 0.4 s are those of others."""
    seconds, ticks = iter([7.0, 7.5]), iter([100.0, 100.9])
    monkeypatch.setattr("shmbench.timing.other_load.seconds_used", lambda pid: next(seconds))
    monkeypatch.setattr("shmbench.timing.other_load.own_seconds", lambda: 0.0)
    monkeypatch.setattr(Others, "stolen_seconds", lambda _: 0.0)
    monkeypatch.setattr(Others, "worked_seconds", lambda _: next(ticks))
    monkeypatch.setattr(time, "monotonic", iter([10.0, 11.0]).__next__)
    assert Others({0, 1}, neighbour=123).share() == pytest.approx(0.2)


def test_times_beside_a_neighbour_that_has_ended_are_refused():
    process = neighbour.start(Neighbour(1))
    process.kill()
    process.wait()
    with pytest.raises(RuntimeError, match=f"the neighbour of --disturb \\(process {process.pid}\\) has ended"):
        Others(neighbour=process.pid)


STARTER = """
import signal
from shmbench.cli.conditions import Neighbour
from shmbench.timing import neighbour

print(neighbour.start(Neighbour(5)).pid, flush=True)
signal.pause()
"""


def test_a_neighbour_does_not_outlive_the_process_that_started_it():
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True) as starter:
        pid = int(starter.stdout.readline())
        assert not has_ended(pid)
        starter.send_signal(signal.SIGKILL)
        await_end(pid)


def neighbour_of(starter):
    """The process id of the neighbour that `starter` has started; None if there is none."""
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"shmbench.timing.neighbour" in words and str(starter).encode() in words:
            return int(folder.name)
    return None


def test_shared_arrays_are_in_the_arena(tmp_path):
    """The process that measures makes its arrays there, and says so."""
    out = tmp_path / "x.json"
    command = ["all_gather", "-n", "2", "--sizes", "1M", "--rounds", "1", "--share-arrays", "-J", out]
    environment = os.environ | {"SHMCOLL_REPORT": "1"}
    words = [sys.executable, "-m", "shmbench", *map(str, command)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert run.returncode == 0, run.stderr
    assert (
        "# buffers: auto (up to 16 pairs of arrays in turn, within 256M of a rank); shmcoll's arrays in" in run.stdout
    )
    assert json.loads(out.read_text())["options"]["conditions"]["share_arrays"] is True
    table = [line.split() for line in (run.stdout + run.stderr).splitlines()]
    (head,) = [words for words in table if words[:2] == ["rank", "exit"]]
    assert head[-2:] == ["shared", "unshared"]
    assert all(float(words[-3]) > 1 for words in table if words[:2] in (["0", "0"], ["1", "0"]))


def test_ranks_that_run_already_cannot_share_their_arrays(tmp_path):
    words = [sys.executable, "-m", "shmrun", "-n", "2", "-m", "shmbench", "barrier", "--share-arrays"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 2
    assert "shmbench: --share-arrays needs ranks that shmbench starts, or SHMCOLL_SHARE_ARRAYS=1 in" in run.stderr


def test_a_disturbed_run_names_its_conditions_and_leaves_nothing(tmp_path):
    out = tmp_path / "out.json"
    core = max(os.sched_getaffinity(0))  # ranks may be bound to another one
    command = ["all_reduce", "-n", 2, "--sizes", "8,4K", "--iters", 5, "--rounds", 1, "--buffers", 2]
    words = [sys.executable, "-m", "shmbench", *map(str, command), "--disturb", f"20@{core}", "-J", str(out)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        told, complaint = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, complaint
    asked = Conditions(2, Neighbour(20, core))
    assert told.splitlines()[2] == f"# {asked}"
    table = json.loads(out.read_text())
    assert conditions_of(table) == asked
    assert [row[placement]["pairs"] for row in table["rows"] for placement in ("out_of_place", "in_place")] == [2] * 4
    assert "neighbour_pid" not in table["options"]
    assert neighbour_of(run.pid) is None


@pytest.mark.slow
def test_a_killed_run_leaves_no_neighbour():
    words = ["all_reduce", "-n", "2", "--sizes", "8", "--rounds", "100000", "--disturb", "10"]
    with subprocess.Popen([sys.executable, "-m", "shmbench", *words], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline().startswith("# shmcoll ")
        pid = neighbour_of(run.pid)
        assert pid and not has_ended(pid)
        run.kill()
        await_end(pid)


def test_a_job_that_is_given_a_neighbour_starts_no_second_one(monkeypatch):
    """As `shmbench compare` starts shmcoll: else shmcoll would be measured beside two, and its peers beside one."""

    def become(_file, command, _environment):
        assert neighbour_of(os.getpid()) is None
        assert command[-2:] == ["--neighbour", "123"]
        raise SystemExit(0)

    monkeypatch.delenv("SHMCOLL_ARENA", raising=False)
    monkeypatch.setattr(os, "execve", become)
    with pytest.raises(SystemExit, match="0"):
        shmbench_main(["barrier", "-n", "2", "--disturb", "10", "--neighbour", "123"])


@pytest.mark.slow
def test_ranks_that_run_already_take_no_neighbour():
    command = [sys.executable, "-m", "shmrun", "-n", "2", "-m", "shmbench", "barrier", "--disturb", "30"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and done.stdout == ""
    told = "shmbench: --disturb needs ranks that shmbench starts: the neighbour comes before them\n"
    assert done.stderr.count(told) == 1


ENDLESS = "import time\nprint('# a table', flush=True)\ntime.sleep(1000)"


@pytest.fixture
def started(monkeypatch):
    """Run Python code in place of libraries; returns the list of what was run."""
    calls = []

    def install(code):
        def commands(library, folder, arguments, ranks):
            calls.append((library, *arguments[:1], ranks))
            return [([sys.executable, "-c", code], dict(os.environ))]

        monkeypatch.setattr(launch, "_commands", commands)
        return calls

    return install


def test_jobs_beside_run_from_the_start_to_the_end_of_the_block(started, monkeypatch):
    calls, ended = started(ENDLESS), []
    end = launch._end
    monkeypatch.setattr(launch, "_end", lambda process: (ended.append(process), end(process)))
    with launch.beside("mpich", {}, 2, 3, timeout=30):
        assert calls == [("mpich", "all_reduce", 3)] * 2 and not ended
    assert len(ended) == 2 and all(process.returncode for process in ended)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise SystemExit('no room')", "a job beside it: exit code 1: no room"),
        ("import time; time.sleep(1000)", "a job beside it has not started after 0.2 s"),
    ],
)
def test_jobs_beside_must_start(started, code, told):
    started(code)
    with pytest.raises(launch.Failed, match=told), launch.beside("mpich", {}, 1, 2, timeout=0.2):
        pytest.fail("there is no other job")


def test_jobs_beside_must_not_end_before_the_block(started):
    started("print('# a table', flush=True)")
    with pytest.raises(launch.Failed, match="a job beside it: exit code 0"), launch.beside("mpich", {}, 1, 2, 30):
        time.sleep(1)


@pytest.mark.slow
def test_a_comparison_beside_another_job(tmp_path, capsys):
    """For real, of shmcoll alone: the peer's environment is broken."""
    home = tmp_path / "gloo"
    (home / "bin").mkdir(parents=True)
    (home / "installed").touch()
    (home / "bin" / "python").write_text(f"#!{sys.executable}\nraise SystemExit('ImportError: no torch here')\n")
    (home / "bin" / "python").chmod(0o755)
    out = tmp_path / "x.json"
    line = ["broadcast", "--libraries", "gloo", "--peers", str(tmp_path), "--sizes", "64K", "--rounds", "1"]
    assert compare.main([*line, "--iters", "5", "--beside", "1", "--json", str(out)]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[1] == f"# {Conditions(beside=1)}"
    assert "# left out of broadcast: gloo: a job beside it: exit code 1: ImportError: no torch here\n" in told
    assert "busy" not in told
    tables = [result["table"] for result in json.loads(out.read_text())["results"] if result["table"]]
    assert [conditions_of(table) for table in tables] == [Conditions(beside=1)] * 2  # broadcast and its limit


IMPORT = """
import sys
import importlib.util

sys.path.append({numpy!r})
assert importlib.util.find_spec("numpy")
import shmbench.commands.worker
"""


def test_a_peer_without_shmcoll_installed_finds_the_harness(tmp_path):
    """Its environment has only numpy and the peer. `-S`: no .pth files, by which a checkout is installed here."""
    ((_, environment),) = launch._commands("mpich", {"mpich": Home.of(tmp_path)}, [], 2)
    (tmp_path / "numpy").symlink_to(Path(np.__file__).parent)
    libraries = Path(np.__file__).parents[1] / "numpy.libs"
    if libraries.exists():
        (tmp_path / "numpy.libs").symlink_to(libraries)
    code = IMPORT.format(numpy=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
