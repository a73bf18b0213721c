"""`shmbench compare`: who runs when, what is printed, what happens to those that fail. The peers here are stand-ins."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shmbench.cli.options import COLLECTIVES
from shmbench.commands import compare
from shmbench.timing.launch import Failed
from shmbench.timing.peers import PEERS

from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow


def table(library, collective, times, ranks=2):
    """What a run writes: {size: (microseconds out of place, in place)}, None where there is no such form."""

    def timing(size, time):
        bandwidth = time and size / time / 1e3
        return time and {"time": time, "algbw": bandwidth, "busbw": 0.5 * bandwidth, "wrong": 0}

    return {
        "format": 1,
        "library": library,
        "library_version": "1.0",
        "machine": {"processor": "Some CPU", "cores": 2},
        "options": {},
        "collective": collective,
        "ranks": ranks,
        "rows": [
            {
                "size": size,
                "type": "float32",
                "redop": "none",
                "out_of_place": timing(size, outside),
                "in_place": timing(size, inside),
            }
            for size, (outside, inside) in times.items()
        ],
        "wrong": 0,
    }


@pytest.fixture
def folder(tmp_path):
    """Environments that look complete."""
    for name in PEERS:
        (tmp_path / "peers" / name / "bin").mkdir(parents=True)
        (tmp_path / "peers" / name / "installed").touch()
    return tmp_path / "peers"


@pytest.fixture
def runs(monkeypatch):
    """Stand in for the runs of all libraries; returns the list of what was run. `figures` answers with a table."""
    calls = []

    def install(figures):
        def run(library, folder, arguments, ranks, timeout):
            measured, sizes = arguments[0], arguments[arguments.index("--sizes") + 1]
            calls.append(("limit" if "--limit" in arguments else library, measured, sizes))
            answer = figures(calls[-1][0], measured, len(calls))
            Path(arguments[arguments.index("-J") + 1]).write_text(json.dumps(answer))

        monkeypatch.setattr(compare, "run", run)
        return calls

    return install


def test_in_turn_round_after_round_and_medians(folder, runs, capsys):
    times = iter([3.0, 1.0, 2.0])

    def figures(library, measured, number):
        if library == "limit":
            return table("limit", measured, {98304: (0.5, 0.25)})
        ours = (next(times) if library == "shmcoll" else 8.0 + number, 7.0)
        return table(library, measured, {12: ours, 98304: ours})

    calls = runs(figures)
    line = ["all_gather", "-n", "3", "--sizes", "8,96K", "--libraries", "impi", "mpich", "--peers", str(folder)]
    assert compare.main([*line, "--rounds", "3"]) == 0
    assert calls == 3 * [
        ("shmcoll", "all_gather", "8,98304"),
        ("impi", "all_gather", "8,98304"),
        ("mpich", "all_gather", "8,98304"),
        ("limit", "all_gather", "98304"),
    ]
    out, progress = capsys.readouterr()
    assert out == (
        "# ranks: 3, rounds: 3. Microseconds a call, medians; ratio: shmcoll over the fastest peer.\n"
        "# buffers: auto (up to 16 pairs of arrays in turn, within 256M of a rank)\n"
        "# limit: the copies and sums that the ranks cannot avoid, each once, without a wait; from 64K on.\n"
        "#\n"
        "# collective            size  placement       shmcoll  Intel MPI      MPICH      limit   ratio\n"
        "  all_gather              12  out of place       2.00      14.00      15.00          -    0.14\n"
        "  all_gather              12  in place           7.00       7.00       7.00          -    1.00\n"
        "  all_gather             96K  out of place       2.00      14.00      15.00       0.50    0.14\n"
        "  all_gather             96K  in place           7.00       7.00       7.00       0.25    1.00\n"
        "# shmcoll 1.0; impi 1.0; mpich 1.0\n"
        "# Some CPU, 2 cores\n"
    )
    assert progress.splitlines()[:2] == ["round 1 of 3: all_gather, shmcoll", "round 1 of 3: all_gather, Intel MPI"]


@pytest.fixture
def kept(folder, runs, tmp_path, monkeypatch):
    """`kept(flag...)` measures a round of `gather` into a file; shmcoll takes 1 us more each time."""
    options = {"ranks": 2, "dtype": "float32", "op": "sum", "root": 0}
    times = iter(range(1, 9))

    def figures(library, measured, number):
        made = table(library, measured, {8: (float(next(times) if library == "shmcoll" else 4), None)})
        return {**made, "options": dict(options)}

    runs(figures)

    def measure(*flags, name="gather"):
        line = ["--libraries", "mpich", "--peers", str(folder), "--rounds", "1", "--json", str(tmp_path / "x.json")]
        return compare.main([name, *line, "--sizes", "8", *flags])

    return measure


def test_rounds_are_added_to_those_of_a_file(kept, tmp_path, capsys):
    file = tmp_path / "x.json"
    assert kept("--append") == 0  # there is no file yet
    assert kept("--append", name="scan") == 0
    pairs = [("gather", "shmcoll"), ("gather", "mpich"), ("scan", "shmcoll"), ("scan", "mpich")]
    assert [(one["collective"], one["library"]) for one in json.loads(file.read_text())["results"]] == pairs
    capsys.readouterr()
    assert kept("--append") == 0
    line = "gather 8 out of place 2.00 4.00 - 0.50"  # the median of 1 and 3
    assert capsys.readouterr().out.splitlines()[5].split() == line.split()
    assert len(json.loads(file.read_text())["results"]) == 6
    assert kept() == 0  # without --append the file begins again
    assert len(json.loads(file.read_text())["results"]) == 2


def test_rounds_are_not_added_to_those_of_another_measurement(kept, tmp_path, capsys):
    assert kept() == 0
    before = (tmp_path / "x.json").read_text()
    for flags, told in ((["--buffers", "1"], "measured with conditions"), (["-r", "1"], "measured with root 0, not 1")):
        with pytest.raises(SystemExit):
            kept("--append", *flags)
        assert told in capsys.readouterr().err
    assert (tmp_path / "x.json").read_text() == before


def test_who_lacks_or_fails_is_left_out(folder, runs, capsys):
    def figures(library, measured, number):
        if library == "openmpi" and number > 5:
            raise Failed("exit code 1: no slots")
        return table(library, measured, {65536: (4.0, None)})

    calls = runs(figures)
    line = ["scan", "--sizes", "64K", "--libraries", "openmpi", "gloo", "mpich", "--peers", str(folder)]
    assert compare.main([*line, "--rounds", "3"]) == 0
    first, others = ["shmcoll", "openmpi", "mpich", "limit"], ["shmcoll", "mpich", "limit"]
    assert [library for library, _, _ in calls] == [*first, *first, *others]  # gloo has no scan
    out, progress = capsys.readouterr()
    assert out.splitlines()[4:] == [
        "# collective            size  placement       shmcoll   Open MPI       gloo      MPICH      limit   ratio",
        "  scan                   64K  out of place       4.00          -          -       4.00       4.00    1.00",
        "# shmcoll 1.0; openmpi 1.0; mpich 1.0",
        "# Some CPU, 2 cores",
        "# left out of scan: Open MPI: exit code 1: no slots",
    ]
    assert "left out: exit code 1: no slots\n" in progress


def test_shmcoll_itself_must_not_fail(folder, runs, capsys):
    def figures(library, measured, number):
        if library == "shmcoll":
            raise Failed("exit code 1: # Out of bounds values : 1 FAILED")
        return table(library, measured, {0: (4.0, None)})

    runs(figures)
    assert compare.main(["barrier", "--libraries", "mpich", "--peers", str(folder), "--rounds", "1"]) == 1
    out = capsys.readouterr().out
    assert "  barrier                  -  out of place          -       4.00          -       -\n" in out
    assert out.endswith("# left out of barrier: shmcoll: exit code 1: # Out of bounds values : 1 FAILED\n")


def test_all_collectives_when_none_is_named(folder, runs, capsys):
    calls = runs(lambda library, measured, _: table(library, measured, {8: (1.0, 1.0)}))
    assert compare.main(["--libraries", "gloo", "--peers", str(folder), "--rounds", "1"]) == 0
    assert list(dict.fromkeys(measured for _, measured, _ in calls if measured in COLLECTIVES)) == list(COLLECTIVES)
    assert {measured for library, measured, _ in calls if library == "gloo"} == set(COLLECTIVES) - PEERS["gloo"].lacks


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gather_all", "unknown collective 'gather_all'"),
        ("gather -o avg", "unknown op 'avg'"),
        ("gather -n 2 -r 2", "-r 2 is not a rank of 2"),
        ("gather --libraries nccl", "unknown library 'nccl'"),
        ("gather --sizes 8Q", "'8Q' is no size"),
        ("gather --json no/such/folder/x.json", "there is no folder no/such/folder"),
        ("gather --peers /nowhere", "not installed in /nowhere: openmpi, mpich, impi, gloo; `make peers` does that"),
        ("gather --append", "--append needs --json FILE"),
        ("gather --peers /nowhere --libraries gloo", "not installed in /nowhere: gloo;"),
    ],
)
def test_mistakes_are_told_in_one_line(folder, line, told, capsys):
    arguments = line.split()
    with pytest.raises(SystemExit) as caught:
        compare.main(arguments if "--peers" in arguments else [*arguments, "--peers", str(folder)])
    assert caught.value.code == 2
    complaint = capsys.readouterr().err
    assert told in complaint and complaint.count("\n") == 1


FAKE_MPI = """
import sys
from shmbench.timing import library
from shmbench.cli import options
from shmbench.commands import worker

class Fake(library.Shmcoll):
    name, version = "Fake MPI", "0"

fake = Fake()
fake.version = "0"
sys.exit(worker.work(fake, options.parse(sys.argv[1:])))
"""


def test_for_real(folder, tmp_path):
    """Launchers, processes, tables: an mpiexec that starts shmcoll under another name, and a torch that is broken."""
    script = tmp_path / "fake_mpi.py"
    script.write_text(FAKE_MPI)
    programs = {
        "mpich/bin/mpiexec": "import os; os.execv(sys.executable, [sys.executable, '-m', 'shmrun', '-n', sys.argv[2], "
        f"{str(script)!r}, *sys.argv[5:]])",
        "gloo/bin/python": "sys.exit('ImportError: no torch here')",
    }
    for name, code in programs.items():
        (folder / name).write_text(f"#!{sys.executable}\nimport sys\n{code}\n")
        (folder / name).chmod(0o755)
    line = ["broadcast", "--libraries", "mpich", "gloo", "--peers", folder, "--sizes", "8,64K", "--iters", 3]
    line += ["--rounds", 1, "--json", tmp_path / "x.json"]
    command = [sys.executable, "-m", "shmbench", "compare", *map(str, line)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert [row[:4] for row in rows] == [["broadcast", "8", "in", "place"], ["broadcast", "64K", "in", "place"]]
    assert [row[7] == "-" for row in rows] == [True, False]  # the limit
    for _, _, _, _, ours, fake, gloo, _, ratio in rows:
        assert float(ours) > 0 and float(fake) > 0 and gloo == "-"
        rounded = 0.01 + 0.01 * (1 + float(ratio)) / float(fake)  # all three are printed with two digits or three
        assert float(ratio) == pytest.approx(float(ours) / float(fake), abs=rounded, rel=0.01)
    assert "; Fake MPI 0\n" in done.stdout
    told = "# left out of broadcast: gloo: exit code 1: ImportError: no torch here\n"
    assert done.stdout.endswith(told), done.stdout
    results = json.loads((tmp_path / "x.json").read_text())["results"]
    assert [(r["library"], r["error"] is None) for r in results] == [
        ("shmcoll", True),
        ("mpich", True),
        ("gloo", False),
        ("limit", True),
    ]
