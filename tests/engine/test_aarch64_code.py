"""Machine code for aarch64, emitted on whatever machine the tests run on: all of it can be emitted, and what orders
memory there is in it."""

import faulthandler
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shmcoll.collectives import ROUTINES
from shmcoll.engine.compiler import compile as code

pytestmark = pytest.mark.slow

EM_AARCH64 = 183

ALL_KERNELS = tuple(f"{reduction}_{dtype.name}" for dtype, reduction in code.all_kernels())

#: one of each kind. The others are made of the same parts, and are emitted under stress
USUAL = (
    "gate",
    "tensor_entry",
    "profile",
    "barrier",
    "prod_complex64",
    "avg_float16",
    "sum_bfloat16",
    "argmin_pair_of_int64",
)


def emitted(*names: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("aarch64_emitter.py")
    faulthandler.cancel_dump_traceback_later()  # numba may take longer on a busy machine
    return subprocess.run([sys.executable, script, *names], capture_output=True, text=True, timeout=900)


def check_emitted(*names: str) -> None:
    done = emitted(*names)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, _, _ in lines] == list(names)
    assert all(int(machine) == EM_AARCH64 and int(length) > 0 for _, machine, length in lines), lines


def test_routines_and_kernels_are_emitted() -> None:
    check_emitted(*USUAL)


@pytest.mark.stress
def test_all_routines_and_kernels_are_emitted() -> None:
    check_emitted("gate", *ROUTINES, *ALL_KERNELS)


def test_an_instruction_that_cannot_be_emitted_ends_the_process() -> None:
    """So the tests above find it."""
    done = emitted("--inline-assembly", "small_functions")
    assert done.returncode == -signal.SIGABRT
    assert "Inline asm not supported" in done.stderr


@pytest.fixture(scope="module")
def assembly() -> dict[str, str]:
    """The instructions of each of the small functions."""
    done = emitted("small_functions")
    assert done.returncode == 0, done.stderr
    bodies = re.findall(r"^(\w+):\n(.*?)^\.Lfunc_end", done.stdout, re.MULTILINE | re.DOTALL)
    return {name: re.sub(r"\s+", " ", body) for name, body in bodies}


@pytest.mark.parametrize(
    ("function", "instruction"),
    [
        ("acquired", r"\blda(p)?r x"),
        ("released", r"\bstlr x"),
        ("idled", r"\bisb\b.*\bdmb ish\b(?!l)"),
        ("ordered", r"\bldr x.*\bdmb ishld\b.*\blda(p)?r x"),
        ("streamed", r"\bstnp\b.*\bdmb ish\b(?!l)"),
    ],
)
def test_memory_is_ordered(assembly: dict[str, str], function: str, instruction: str) -> None:
    assert re.search(instruction, assembly[function]), assembly[function]


def test_the_counter_that_programs_may_read_is_read(assembly: dict[str, str]) -> None:
    """PMCCNTR_EL0, which LLVM reads for a cycle counter, is the kernel's."""
    assert re.search(r"\bmrs x\d+, CNTVCT_EL0\b", assembly["counted"], re.IGNORECASE), assembly["counted"]
