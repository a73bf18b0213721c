"""Ranks of the plug-in beside other plug-ins, the debugger, and launchers."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE
from tests.support.pytest_suites import Told, line, run
from tests.support.waiting import comes_true

pytestmark = pytest.mark.slow

WAYS = pytest.mark.parametrize("way", ["fork", "spawn"])

LIBRARY = """
def of(rank):
    if rank == 1:
        return "one"
    if rank == 0:
        return "zero"
    return "more"
"""

SUITE = """
import warnings
import numpy as np, pytest

def test_plain():
    import library

@pytest.mark.ranks(2)
def test_library(comm):
    import library
    assert library.of(comm.rank) == ["zero", "one"][comm.rank]
    warnings.warn("careful")

@pytest.mark.ranks(2)
def test_bad(comm):
    value = 40 + comm.rank
    assert comm.rank == 0
    comm.barrier()

@pytest.mark.ranks(2, 3)
def test_last(comm):
    assert comm.all_reduce(np.ones(1))[0] == comm.size
"""


def of_suite(folder: Path, *arguments: str, way: str = "fork") -> Told:
    (folder / "library.py").write_text(LIBRARY)
    return run(folder, SUITE, *arguments, ini=[f"ranks_start = {way}"])


def expected(told: Told) -> None:
    passed = ("test_plain", "test_library[2 ranks]", "test_last[2 ranks]", "test_last[3 ranks]")
    assert told.outcomes == dict.fromkeys(passed, "passed") | {"test_bad[2 ranks]": "failure"}, told.output
    assert "----- rank 1 -----" in told.output and "therefore, rank 0: " in told.output
    assert told.output.count("UserWarning: careful") == 1
    assert "FAILED test_suite.py::test_bad[2 ranks] - rank 1: assert 1 == 0" in told.output


@WAYS
def test_coverage_is_measured_in_the_ranks(way: str, tmp_path: Path) -> None:
    pytest.importorskip("pytest_cov")
    told = of_suite(tmp_path, "--cov=library", "--cov-report=term-missing", way=way)
    expected(told)
    assert re.search(r"library\.py +6 +1 +83% +7", told.output), told.output
    assert not list(tmp_path.glob(".coverage.*"))


def test_each_worker_of_xdist_has_ranks(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    expected(of_suite(tmp_path, "-n", "2"))


def test_it_ends_after_the_first_failure(tmp_path: Path) -> None:
    told = of_suite(tmp_path, "-x")
    assert "test_last[2 ranks]" not in told.outcomes and "stopping after 1 failures" in told.output


def test_pytest_timeout_ends_a_test_on_ranks(tmp_path: Path) -> None:
    pytest.importorskip("pytest_timeout")
    source = """
import time
import pytest
@pytest.mark.timeout(4)
@pytest.mark.ranks(2)
def test_hangs(comm):
    while comm.rank == 1: time.sleep(1)
    comm.barrier()
@pytest.mark.ranks(2)
def test_after(comm):
    comm.barrier()
"""
    told = run(tmp_path, source)
    assert told.outcomes == {"test_hangs[2 ranks]": "failure", "test_after[2 ranks]": "passed"}
    assert "did not end: Timeout" in told.output and "Rank 1 keeps rank 0 waiting" in told.output


@WAYS
def test_a_rank_has_the_terminal_for_its_debugger(way: str, tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    of_suite(tmp_path, "--collect-only", way=way)  # writes the files

    def talk(*arguments: str, words: list[tuple[str, str]]) -> tuple[int, str]:
        command, *rest = line("-p", "no:cacheprovider", "--color=no", "-k", "test_bad", *arguments)
        child = pexpect.spawn(command, rest, timeout=PATIENCE, encoding="utf-8", cwd=tmp_path)
        told = ""
        for expects, answer in words:
            child.expect(expects)
            told += child.before + child.after
            child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        return child.exitstatus, told + child.before

    status, told = talk("--pdb", words=[(r"\(Pdb\)", "p value + 900"), ("941", "c")])
    assert status == pytest.ExitCode.TESTS_FAILED and "rank 1 has the terminal" in told
    assert "therefore, rank 0: " in told
    status, told = talk("--trace", "--pdb-rank=0", words=[(r"\(Pdb\)", "p comm.rank + 700"), ("700", "q")])
    assert status == pytest.ExitCode.INTERRUPTED and "rank 0 has the terminal" in told


def test_a_job_of_a_launcher_runs_the_tests_for_its_number_of_ranks(tmp_path: Path) -> None:
    """Also where shmcoll is installed from a wheel, whose modules pytest would rewrite, and warn of."""
    wheel = tmp_path / "site" / "shmcoll_as_wheel-1.dist-info"
    wheel.mkdir(parents=True)
    (wheel / "METADATA").write_text("Metadata-Version: 2.1\nName: shmcoll-as-wheel\nVersion: 1\n")
    (wheel / "entry_points.txt").write_text("[pytest11]\nshmcoll = shmcoll.pytest_plugin\n")
    (wheel / "RECORD").write_text("".join(f"{name}/__init__.py,,\n" for name in ("shmcoll", "shmrun", "shmbench")))
    source = """
import sys
import pytest
@pytest.mark.ranks(2, 3)
def test_x(comm, tmp_path):
    assert comm.size == 2
    (tmp_path / str(comm.rank)).touch()
    comm.barrier()
    assert len(list(tmp_path.iterdir())) == 2
    assert type(sys.modules["shmcoll.communicator"].__loader__).__name__ == "SourceFileLoader"
"""
    before = ["env", f"PYTHONPATH={tmp_path / 'site'}", sys.executable, "-m", "shmrun", "-n", "2"]
    told = run(tmp_path, source, "-rs", "-W", "error", before=before)
    assert told.outcomes == {"test_x[2 ranks]": "passed", "test_x[3 ranks]": "skipped"}, told.output
    assert told.output.count("needs 3 ranks, and this job has 2") == 2
    assert told.status == 0


def test_ranks_that_do_not_start_or_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
import threading, time
import pytest
@pytest.mark.ranks(2)
def test_x(comm):
    threading.Thread(target=time.sleep, args=(1e6,)).start()
def test_plain(): pass
"""
    told = run(tmp_path, source)
    assert told.outcomes == {"test_x[2 ranks]": "error", "test_plain": "passed"}
    assert "ranks 0, 1 did not end within 2 s after its last test: a thread or an exit handler" in told.output
    monkeypatch.setenv("SHMCOLL_HEAP", "many")
    told = run(tmp_path, source)
    assert told.outcomes == {"test_x[2 ranks]": "error", "test_plain": "passed"}
    assert "the ranks could not be started: SHMCOLL_HEAP='many' is not an amount" in told.output


def test_subtests_are_told_with_their_ranks(tmp_path: Path) -> None:
    source = """
import pytest
@pytest.mark.ranks(3)
def test_x(comm, subtests):
    for i in range(3):
        with subtests.test(i=i):
            assert i != 1, "one"
            assert i != 2 or comm.rank == 0
"""
    if pytest.version_tuple < (9, 0):
        pytest.skip("pytest has subtests since 9.0")
    told = run(tmp_path, source)
    assert told.status == pytest.ExitCode.TESTS_FAILED and told.output.count("SUBFAILED") == 3
    assert "test_x[3 ranks] - ranks 0-2: AssertionError: one" in told.output
    assert "----- rank 1 -----" in told.output and "----- rank 2 -----" in told.output


def test_an_interrupt_shows_where_the_ranks_were(tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    source = """
import time
import pytest
@pytest.mark.ranks(2)
def test_hangs(comm):
    if comm.rank == 1:
        open("started", "w")
    while comm.rank == 1: time.sleep(1)
    comm.barrier()
"""
    run(tmp_path, source, "--collect-only")
    command, *rest = line("-p", "no:cacheprovider", "--color=no")
    child = pexpect.spawn(command, rest, timeout=PATIENCE, encoding="utf-8", cwd=tmp_path)
    assert comes_true((tmp_path / "started").exists, PATIENCE)
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == pytest.ExitCode.INTERRUPTED
    assert "where the ranks were" in child.before and "KeyboardInterrupt" in child.before
