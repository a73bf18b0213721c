"""`make demo` compiles ahead, on all cores, what its five jobs call."""

import re
from pathlib import Path

import pytest

from shmcoll.startup.warm import ALL, kernels

MAKEFILE = Path(__file__).parents[2] / "Makefile"
CALLS = {"alltoall.py": "all_to_all", "allreduce.py": "all_reduce", "gather.py": "gather"}


@pytest.mark.skipif(not MAKEFILE.exists(), reason="not in the sources")
def test_what_the_demo_compiles_is_what_it_calls() -> None:
    (demo,) = re.findall(r"^demo:.*\n((?:\t.*\n)+)", MAKEFILE.read_text(), re.MULTILINE)
    (names,) = re.findall(r"^\t@shmrun warm (.*)$", demo, re.MULTILINE)
    named = set(names.split())
    assert named <= {*ALL, *kernels()}
    programs = re.findall(r"^\t@shmrun .*examples/(\w+\.py)$", demo, re.MULTILINE)
    measured = re.findall(r"^\t@shmbench (\w+)", demo, re.MULTILINE)
    called = {CALLS.get(program, program.removesuffix(".py")) for program in programs} | set(measured)
    assert named == called | {"barrier", "sum_float32"}  # shmbench waits in barriers
