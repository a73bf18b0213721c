"""The limit copies what the collective has to copy: its results are those of the collective, exactly, in every way that
is timed. Times are not looked at."""

import json
import subprocess
import sys

import pytest
from shmbench.cli.options import LIMITED

from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

IN_ONE_JOB = """
import json, sys
from dataclasses import replace
import shmbench.timing.limit as limit
from shmbench.cli.options import parse
from shmbench.commands.worker import work

lines, fault = json.loads(sys.argv[1])

def spoilt(parts):
    if fault == "a part less":
        return parts[:-1]
    if fault == "an element less":
        return [replace(part, stop=part.stop - 1) for part in parts]
    if fault == "of another rank":
        shifted = lambda source: replace(source, rank=(source.rank + 1) % library.size)
        return [replace(part, sources=[*map(shifted, part.sources[:1]), *part.sources[1:]]) for part in parts]
    return parts

class Limit(limit.Limit):
    def collective(self, name):
        found = super().collective(name)
        return replace(found, parts=[lambda case, parts=parts: spoilt(parts(case)) for parts in found.parts])

library = Limit()
for line in lines:
    code = work(library, parse([*line, "--limit"], ranks=library.size), limit.LimitBench)
    if library.rank == 0:
        print("code", *line[:1], code)
"""

QUICK = ["--iters", "3", "--rounds", "1", "--buffers", "2"]


def codes(folder, ranks, lines, fault=""):
    """Return the worst exit code of each collective in these command lines."""
    script = folder / "in_one_job.py"
    script.write_text(IN_ONE_JOB)
    command = [sys.executable, "-m", "shmrun", "-n", str(ranks), str(script), json.dumps([lines, fault])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("code")]
    return {name: max(code for other, code in told if other == name) for name, _ in told}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_its_results_are_those_of_the_collective(ranks, tmp_path):
    lines = [[name, "--sizes", "8,300K", "-r", str(ranks - 1), *QUICK] for name in LIMITED]
    assert codes(tmp_path, ranks, lines) == dict.fromkeys(LIMITED, "0")


def test_of_other_types_and_operators(tmp_path):
    kinds = ("bfloat16 avg", "float32 avg", "bool prod", "complex64 sum", "int8 max")
    lines = [["all_reduce", "--sizes", "1,300K", "-d", d, "-o", op, *QUICK] for d, op in map(str.split, kinds)]
    assert codes(tmp_path, 3, lines) == {"all_reduce": "0"}


@pytest.mark.parametrize("fault", ["a part less", "an element less", "of another rank"])
def test_too_few_or_wrong_copies_are_found(fault, tmp_path):
    names = LIMITED if fault != "of another rank" else ("all_reduce", "scan", "all_gather", "all_to_all", "gather_v")
    lines = [[name, "--sizes", "300K", "-r", "1", *QUICK] for name in names]
    assert codes(tmp_path, 3, lines, fault) == dict.fromkeys(names, "1")
