"""What every test gets: the leak check, the seed, ranks to run, and the choice between the short and the long forms.

SHMCOLL_SEED    seed of all random choices; printed at the start of a run, so that a failure can be repeated
--stress        run the long forms too (`-m stress`: these alone)
--shuffle       run the tests in random order, which the seed gives
--processes N   run the tests in N processes side by side, and what failed again, alone
--single        these processes take single tests, not files: for tests that are long, and have fixtures of their own
"""

import gc
import mmap
import os
import random
import secrets
import signal
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support import leaks, prepare, switches, tally
from tests.support.busy import Allowed
from tests.support.patience import PATIENCE
from tests.support.ranks import Job, Outcome
from tests.support.sharing import Sharing

#: words in the names of files with tests of all reductions
REDUCING = ("collectives", "reduce", "scan", "operators", "barrier")

SEED = int(os.environ.get("SHMCOLL_SEED") or secrets.randbelow(1 << 32))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stress", action="store_true", help="run the tests marked 'stress' too")
    parser.addoption("--shuffle", action="store_true", help="run the tests in random order")
    parser.addoption("--processes", type=int, default=0, help="run the tests in so many processes side by side")
    parser.addoption("--single", action="store_true", help="these processes take single tests, not files")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.processes:
        config.pluginmanager.register(Sharing(config.option.processes, leaks.adopt_orphans, config.option.single))
    leaks.adopt_orphans()
    os.environ["SHMCOLL_TUNING"] = "0"  # the same algorithms on every machine
    os.environ.pop("PYTHONUNBUFFERED", None)  # print() would write its line in pieces, between those of other ranks
    for name in ("CI", "BUILD_NUMBER"):
        os.environ.pop(name, None)  # with them pytest shows all differences of two values: of 8 KiB, a minute of work
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # thousands of processes import the same files
    sys.dont_write_bytecode = False
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell these would be ignored
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if _stress(config):
        config._inicache["faulthandler_timeout"] = 1800.0  # seconds; long forms take more than the usual limit


def _stress(config: pytest.Config) -> bool:
    return config.option.stress or "stress" in config.option.markexpr.replace("not stress", "")


def pytest_report_header() -> str:
    return f"shmcoll: SHMCOLL_SEED={SEED}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.shuffle:
        random.Random(SEED).shuffle(items)
    left_out = [item for item in items if item.get_closest_marker("stress")]
    if left_out and not _stress(config):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile here what the cache lacks: within a test it would count against the test's time."""
    needing = [item for item in session.items if "ranks" in getattr(item, "fixturenames", ())]
    if needing and not session.config.option.collectonly:
        prepare.load(any(set(REDUCING) & set(item.path.stem.split("_")) for item in needing))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # modules of command lines set the default action
    gc.collect()
    gc.freeze()  # a collection would look at all tests, and in a fork copy the memory in which they are


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.capture == "no":
        for line in tally.lines():
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Names in /dev/shm, processes, descriptors and threads are after each test what they were before."""
    before = leaks.snapshot()
    yield
    assert leaks.left_since(before) == []


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    """Ranks that report a mismatch wait long for where the others are: tests expect every line.

    Its patches are its own: with the test's `monkeypatch`, those of the test would last until every fixture had ended.
    """
    with pytest.MonkeyPatch.context() as patch:
        switches.set_limit("SITES_PATIENCE", 5.0, patch)
        yield


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that differs between tests and is the same for a test under the same SHMCOLL_SEED."""
    return zlib.crc32(request.node.nodeid.encode(), SEED)


class Ranks:
    """`ranks(n, function, *args)`: run `function(comm, *args)` on n ranks; the list of their results.

    It fails with the traceback of a rank that raised or died. `ranks.outcomes(...)` judges nothing, for tests in which
    ranks are meant to fail; `ranks.start(...)` gives the running `Job`. Keywords: see `Job`.
    """

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def __call__(self, n: int, function: Any, *args: Any, **options: Any) -> list[Any]:
        outcomes = self.outcomes(n, function, *args, **options)
        for outcome in outcomes:
            if outcome.error is not None or outcome.status != 0:
                pytest.fail(f"rank {outcome.rank} ended with {outcome.status}:\n{outcome.traceback}", pytrace=False)
        return [outcome.value for outcome in outcomes]

    def outcomes(self, n: int, function: Any, *args: Any, **options: Any) -> list[Outcome]:
        deadline = options.pop("deadline", PATIENCE)
        return self.start(n, function, *args, **options).finish(deadline)

    def start(self, n: int, function: Any, *args: Any, **options: Any) -> Job:
        job = Job(n, function, args, **options)
        self._jobs.append(job)
        return job

    def end(self) -> None:
        for job in self._jobs:
            job.kill()


@pytest.fixture
def allowed() -> Iterator[Allowed]:
    """`allowed(seconds)`: a promised limit, and what this machine makes any process wait at the moment."""
    allowed = Allowed()
    yield allowed
    allowed.end()


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    """Start ranks: forks of the test process, each with a communicator. None outlives the test."""
    started = Ranks()
    yield started
    started.end()


@pytest.fixture
def board() -> np.ndarray:
    """512 words that the test and its ranks share, beside the arena: who is where, and when what happened."""
    return np.frombuffer(mmap.mmap(-1, 4096), np.int64)
