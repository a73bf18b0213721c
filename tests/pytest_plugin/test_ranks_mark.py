"""`@pytest.mark.ranks`, as a user has it: suites that pytest runs in a process of its own."""

import re
import textwrap
from pathlib import Path

import pytest

from shmcoll.pytest_plugin import marks
from tests.support.pytest_suites import Told, run

SUITE = """
import os, time, unittest, warnings
import numpy as np, pytest, shmcoll

log = []

@pytest.fixture(scope="session")
def whole(comm):
    log.append("session")
    return comm.size

@pytest.fixture(scope="module")
def module(whole):
    log.append("module")
    yield log
    print("torn down")

def test_plain():
    assert "RANK" not in os.environ and shmcoll.init().size == 1

@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("x", [1, 2])
def test_parameters(comm, x, module, whole):
    assert comm.all_reduce(np.full(1, x))[0] == x * comm.size == x * whole
    assert module == ["session", "module"]

@pytest.mark.ranks(2)
class TestClass:
    count = 0

    def test_first(self):
        TestClass.count += 1

    def test_second(self, capsys, monkeypatch, tmp_path, tmp_path_factory, comm):
        assert TestClass.count == 1
        print("x")
        assert capsys.readouterr().out == "x\\n"
        monkeypatch.setenv("A", "1")
        (tmp_path / str(comm.rank)).touch()
        comm.barrier()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
        tmp_path_factory.mktemp("data", numbered=False)

@pytest.mark.ranks(2)
class TestUnit(unittest.TestCase):
    def test_unit(self):
        self.assertEqual(shmcoll.init().size, 2)

@pytest.mark.ranks(4)
def test_alike(comm):
    print("out of all")
    print("out of", comm.rank)
    assert comm.all_reduce(np.ones(1))[0] == 5, "not five"

@pytest.mark.ranks(3)
def test_one(comm):
    assert comm.rank != 1
    comm.barrier()

@pytest.mark.ranks(3)
def test_killed(comm):
    print("last words of", comm.rank)
    if comm.rank == 1:
        os.kill(os.getpid(), 9)
    comm.barrier()

@pytest.mark.ranks(2)
def test_left(comm):
    if comm.rank == 1:
        os._exit(0)
    comm.barrier()

@pytest.mark.ranks(2, timeout=4)
def test_hangs(comm):
    while comm.rank == 1:
        time.sleep(1)
    comm.barrier()

@pytest.mark.ranks(2)
def test_never_joins():
    if os.environ["RANK"] == "0":
        shmcoll.init().barrier()

@pytest.mark.ranks(2)
def test_mismatch(comm):
    comm.barrier() if comm.rank else comm.all_reduce(np.ones(3))

@pytest.fixture
def bad(comm):
    yield
    assert comm.rank == 0
    comm.barrier()

@pytest.mark.ranks(2)
def test_bad_fixture(bad):
    pass

@pytest.mark.ranks(2)
def test_skips_one(comm):
    if comm.rank:
        pytest.skip("no file")

@pytest.mark.ranks(2)
def test_skips_all(comm):
    pytest.skip("no file at all")

@pytest.mark.ranks(2)
@pytest.mark.xfail(reason="known", strict=True)
def test_xfails_one(comm):
    assert comm.rank == 0

@pytest.mark.ranks(2)
@pytest.mark.xfail(reason="dies")
def test_xfails_dying(comm):
    os.abort() if comm.rank else comm.barrier()

@pytest.mark.ranks(2)
@pytest.mark.xfail(strict=True)
def test_xpasses(comm):
    pass

@pytest.mark.ranks(2)
def test_warns(comm, record_property):
    record_property("rank", comm.rank)
    warnings.warn("careful")

@pytest.mark.ranks(2)
def test_child_comes_back(comm):
    if pid := os.fork():
        os.waitpid(pid, 0)

@pytest.mark.ranks(2)
def test_leaves_a_message(comm):
    if comm.rank == 0:
        comm.send(np.ones(1), 1)

@pytest.mark.ranks(2)
def test_next(comm):
    out = np.zeros(1)
    comm.send(np.full(1, 7.0), 1) if comm.rank == 0 else comm.recv(out, 0)
    assert out[0] == 7 * comm.rank

@pytest.mark.ranks(2)
def test_leaves_a_call(comm):
    if comm.rank == 0:
        comm.all_reduce(np.ones(2), async_op=True)

def test_no_mark(comm):
    pass
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return run(tmp_path_factory.mktemp("suite"), SUITE, "-rA")


def test_each_test_has_one_outcome(told: Told) -> None:
    """On each number of ranks, sorted by it; a failure of any kind is one failed test, and others run after it."""
    parameters = [f"test_parameters[{x}-{n} ranks]" for n in (2, 3) for x in (1, 2)]
    passed = ["test_plain", *parameters, "test_first[2 ranks]", "test_second[2 ranks]", "test_unit"]
    passed += [
        f"test_{name}[2 ranks]" for name in ("skips_one", "warns", "child_comes_back", "leaves_a_message", "next")
    ]
    failed = ["test_alike[4 ranks]", "test_one[3 ranks]", "test_killed[3 ranks]", "test_left[2 ranks]"]
    failed += [f"test_{name}[2 ranks]" for name in ("hangs", "never_joins", "mismatch", "xpasses", "leaves_a_call")]
    errors = ["test_bad_fixture[2 ranks]", "test_no_mark"]
    skipped = [f"test_{name}[2 ranks]" for name in ("skips_all", "xfails_one", "xfails_dying")]
    expected = dict.fromkeys(passed, "passed") | dict.fromkeys(failed, "failure") | dict.fromkeys(errors, "error")
    assert told.outcomes == expected | dict.fromkeys(skipped, "skipped"), told.output
    order = list(told.outcomes)
    assert [name for name in order if name in parameters] == parameters
    assert f"{len(failed)} failed, {len(passed) + 1} passed, 1 skipped, 2 xfailed, 2 warnings, 2 errors" in told.output


def test_equal_failures_are_told_once(told: Told) -> None:
    text = told.of("test_alike[4 ranks]")
    assert text.count("AssertionError: not five") == 1 and "----- ranks 0-3 -----" in text
    assert text.count("assert np.float64(4.0) == 5") == 1
    assert "Captured stdout call (rank 2) ---" in text and "out of all\nout of 2\n" in text
    assert "FAILED test_suite.py::test_alike[4 ranks] - ranks 0-3: AssertionError: not five" in told.output


def test_a_failure_is_told_apart_from_what_follows_from_it(told: Told) -> None:
    text = told.of("test_one[3 ranks]")
    assert "----- rank 1 -----" in text and "assert 1 != 1" in text
    assert re.search(
        r"therefore, ranks 0, 2: shmcoll.errors.RankFailed: barrier #\d: rank 1 raised AssertionError", text
    )


def test_a_killed_rank_is_told_with_its_last_words(told: Told) -> None:
    text = told.of("test_killed[3 ranks]")
    assert "rank 1 was killed by signal 9 (SIGKILL); it had called nothing yet" in text
    assert "Captured stdout call (rank 1) ---" in text and "last words of 1" in text
    assert "therefore, ranks 0, 2: shmcoll.errors.RankFailed" in text
    assert "rank 1 exited with code 0" in told.of("test_left[2 ranks]")


def test_a_hang_is_told_with_the_table(told: Told) -> None:
    text = told.of("test_hangs[2 ranks]")
    assert "ranks 0, 1 did not end within 4 s" in text
    assert "in barrier() #1" in text and "Rank 1 keeps rank 0 waiting" in text
    assert "test_suite.py:" in text and "_pytest" not in text


def test_ranks_that_do_different_things_fail_at_once(told: Told) -> None:
    assert "rank 1 has ended its part of the test" in told.of("test_never_joins[2 ranks]")
    assert "CollectiveMismatch" in told.of("test_mismatch[2 ranks]")
    text = told.of("ERROR at teardown of test_bad_fixture[2 ranks]")
    assert "assert 1 == 0" in text and "therefore, rank 0" in text


def test_outcomes_that_are_no_failures(told: Told) -> None:
    assert "Not run on rank 1 ---" in told.of("test_skips_one[2 ranks]")
    assert "SKIPPED [1] test_suite.py:" in told.output and "no file at all" in told.output
    assert "[XPASS(strict)]" in told.of("test_xpasses[2 ranks]")
    assert told.output.count("UserWarning: careful") == 1
    left = "messages that no rank has received, so that the next test has new ranks: rank 1: from rank 0: 1 with tag 0"
    assert left in told.output
    assert "in an asynchronous call that nobody waited for" in told.of("test_leaves_a_call[2 ranks]")
    assert told.properties["test_warns[2 ranks]"] == [("rank", "0"), ("rank", "1")]
    assert "mark it with @pytest.mark.ranks(2)" in told.of("ERROR at setup of test_no_mark")


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        ("ranks", "needs at least one number of ranks"),
        ("ranks(0)", "each number of ranks must be at least 1, got 0"),
        ("ranks('a')", "each number of ranks must be an int, got 'a' of type str"),
        ("ranks(2, 2)", "has a number of ranks twice, got 2, 2"),
        ("ranks(1 << 40)", "each number of ranks must be at most"),
        ("ranks(2, nprocs=3)", "has no argument 'nprocs'"),
        ("ranks(2, timeout=0)", "timeout must be a positive number of seconds, got 0"),
    ],
)
def test_a_wrong_mark_is_refused(mark: str, text: str, request: pytest.FixtureRequest) -> None:
    definition = request.node
    definition.add_marker(eval(f"pytest.mark.{mark}"))
    with pytest.raises(pytest.fail.Exception, match=re.escape(text)) as caught:
        marks.numbers(definition)
    assert caught.value.__suppress_context__  # pytest shows it once


@pytest.mark.slow
def test_wrong_marks_and_settings_of_a_suite(tmp_path: Path) -> None:
    source = """
    import pytest, unittest
    @pytest.mark.ranks(2, 3)
    class TestUnit(unittest.TestCase):
        def test_unit(self): pass
    @pytest.mark.ranks(2)
    def test_few(): pass
    @pytest.mark.ranks(4)
    def test_many(): pass
    """
    told = run(tmp_path, textwrap.dedent(source), "-rs", ini=["ranks_max = 3"])
    assert told.outcomes == {"test_unit": "error", "test_few[2 ranks]": "passed", "test_many[4 ranks]": "skipped"}
    assert "a method of unittest cannot be run for each; give it one" in told.output
    assert "needs 4 ranks, and ranks_max is 3" in told.output
    assert "test_many" in run(tmp_path, textwrap.dedent(source), "--collect-only", "-q", "-k", "4ranks").output
    for setting in ("ranks_timeout = soon", "ranks_max = -1", "ranks_start = thread"):
        told = run(tmp_path, textwrap.dedent(source), "-k", "test_few", ini=[setting])
        assert told.status == pytest.ExitCode.USAGE_ERROR and f"{setting.split()[0]} must be" in told.output
    told = run(tmp_path, textwrap.dedent(source), "--pdb-rank=-1")
    assert told.status == pytest.ExitCode.USAGE_ERROR and "--pdb-rank must be a rank, 0 or more" in told.output
    wrong = run(tmp_path, "import pytest\n@pytest.mark.ranks(0)\ndef test_x(): pass\n")
    assert wrong.status == pytest.ExitCode.INTERRUPTED and "must be at least 1, got 0" in wrong.output


def test_the_plug_in_costs_nothing_until_it_is_used(tmp_path: Path) -> None:
    """Of shmcoll only the file with the hooks is loaded, and nothing that it would need."""
    source = (
        "import sys\ndef test_x(): print([m for m in sys.modules if m.startswith(('shmcoll', 'numpy', 'numba'))])\n"
    )
    told = run(tmp_path, source, "-s")
    assert "['shmcoll', 'shmcoll.pytest_plugin']" in told.output
