"""The command for real: ranks, tables, JSON, exit codes; every collective, its results checked and not its times."""

import json
import subprocess
import sys

import pytest
from shmbench.cli.options import ALGORITHMS, COLLECTIVES, GROUPS

from tests.support.benched import shmbench
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

QUICK = ["--iters", "20", "--rounds", "2", "-w", "1"]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("all_reduce", [8, 128, 2048]),
        ("broadcast", [8, 128, 2048]),
        ("gather", [8, 128, 2048]),
        ("barrier", [0]),
    ],
)
def test_a_short_run_of_each(name, sizes, tmp_path):
    out = tmp_path / "table.json"
    done = shmbench(name, "-n", 2, "-b", 8, "-e", "4K", "-f", 16, *QUICK, "-J", out)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [int(line.split()[0]) for line in lines] == sizes
    assert "# Out of bounds values : 0 OK" in done.stdout
    assert done.stdout.endswith(f"# Collective test concluded: {name}\n")

    document = json.loads(out.read_text())
    assert (document["collective"], document["ranks"], document["wrong"]) == (name, 2, 0)
    assert [row["size"] for row in document["rows"]] == sizes
    for row, line in zip(document["rows"], lines, strict=True):
        assert (row["out_of_place"] is None) == (name == "broadcast")
        assert (row["in_place"] is None) == (name not in ("all_reduce", "broadcast"))
        figures = row["out_of_place"] or row["in_place"]
        assert figures["wrong"] == 0
        assert len(figures["rounds"]) == 2
        column = 5 if row["out_of_place"] else 9
        assert float(line.split()[column]) == pytest.approx(figures["time"], rel=0.01, abs=0.0051)


IN_ONE_JOB = """
import json, sys
from shmbench.timing.library import Shmcoll
from shmbench.cli.options import parse
from shmbench.commands.worker import work

library = Shmcoll()
codes = [work(library, parse(line, ranks=library.size)) for line in json.loads(sys.argv[1])]
if library.rank == 0:
    print("codes", *codes)
"""


def in_one_job(folder, ranks, lines):
    """The output of shmbench for several command lines, each of which must end well."""
    script = folder / "in_one_job.py"
    script.write_text(IN_ONE_JOB)
    command = [sys.executable, "-m", "shmrun", "-n", str(ranks), str(script), json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("codes" + len(lines) * " 0" + "\n")
    assert done.stdout.count("# Out of bounds values : 0 OK\n") == len(lines)
    return done.stdout


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.stress), 3])
def test_every_collective_and_algorithm(ranks, tmp_path):
    lines = [[name] for name in COLLECTIVES + GROUPS]
    lines += [[name, "--algorithm", one] for name, several in ALGORITHMS.items() for one in several]
    quick = ["--sizes", "8,300K", "-r", str(ranks - 1), "--iters", "3", "--rounds", "1", "-w", "0"]
    told = in_one_job(tmp_path, ranks, [[*line, *quick] for line in lines])
    assert told.count("validation: 1 algorithm: ring\n# buffers: auto (") == 3


def test_other_types_at_three_ranks(tmp_path):
    others = ("bfloat16 avg", "bool prod", "complex64 max", "int8 sum", "float16 sum")
    short = ["-b", "1", "-e", "256K", "-f", "512", *QUICK]
    in_one_job(tmp_path, 3, [["all_reduce", "-d", dtype, "-o", op, *short] for dtype, op in map(str.split, others)])


def test_as_a_rank_of_a_job_that_runs_already():
    command = [sys.executable, "-m", "shmrun", "-n", "3", "-m", "shmbench", "gather", "-r", "2", "-e", "8", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 3 ranks on " in done.stdout
    assert done.stdout.count("concluded") == 1


def test_a_mistake_starts_no_ranks():
    done = shmbench("all_reduce", "-d", "float31", expect=2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and "float31" in done.stderr


BROKEN = """
import sys
from dataclasses import replace
from shmbench.timing import library
from shmbench.commands import worker
from shmbench.cli.options import parse

class Off(library.Shmcoll):
    def collective(self, name):
        found = super().collective(name)

        def run(comm, case, buffers, n):
            found.run(comm, case, buffers, n)
            if case.rank == 1:
                for _, out in buffers:
                    out[0] += 1

        return replace(found, run=run)

off = Off()
sys.exit(worker.work(off, parse(sys.argv[1:], ranks=off.size)))
"""


def test_a_wrong_result_ends_in_exit_code_1(tmp_path):
    script = tmp_path / "broken.py"
    script.write_text(BROKEN)
    command = [sys.executable, "-m", "shmrun", "-n", "2", script, "all_to_all", "-b", "1K", "-e", "1K", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert "# Out of bounds values : 64 FAILED" in done.stdout  # out of place and in place
