"""The plug-in for pytest: `@pytest.mark.ranks(2, 4)` runs a test once on 2 ranks and once on 4.

pytest loads this file whenever shmcoll is installed, so it imports nothing but pytest. The other files are loaded by
the first test that has the mark.

    marks       the mark and the settings: what they may be
    protocol    one test on ranks, from pytest's point of view
    team        the ranks, seen from pytest's process: starting and watching them
    member      one of them, and how it was lost
    start       how they begin
    messages    what pytest's process and the ranks say to each other
    rank        a rank: it runs the tests by itself, with its own fixtures
    fixtures    what a rank does not share with the process that it is a fork of: fixtures, directories, captured output
    debugger    one rank has the terminal
    spawned     a rank with an interpreter of its own, which collects the tests again
    coverage    coverage in ranks
    merge       the reports of the ranks become one

How the test gets to the ranks. Ranks are forks of pytest's process, which has collected the tests. So a rank has the
module, the parameters and pytest's rewritten assertions without a second collection, ranks start in milliseconds, and a
debugger in a rank can have the terminal. Ranks of the server of `shmcoll.run` would have to import pytest, the
conftests and the modules again, about a second for each, and have no terminal. The price is that pytest's process must
be able to fork: with libraries that cannot (CUDA, threads of OpenMP that have started), and with mpi4py, which is
initialised when it is imported, `ranks_start = spawn` or `ranks_mpi = true` make each rank an interpreter of its own
that collects the module again.

Fixtures. A rank sets up all fixtures that its tests use, those of module and session scope too, and tears them down.
What pytest's process has set up for other tests is not used. The ranks stay as long as the tests that follow one
another want the same number of ranks, so a fixture of module scope is set up once on each rank, as usual. pytest sorts
the tests of a module by the number of ranks for that. After a test that failed there are new ranks.
"""

from __future__ import annotations  # any pytest can load this file

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from shmcoll.pytest_plugin.rank import RankSide

MARK = "ranks"
OLDEST = 8, 2  # the version of pytest
NUMBER = "_ranks"  # the parameter that stands for the number of ranks
here: RankSide | None = None  # in a rank of the plug-in


def pytest_addoption(parser: pytest.Parser, pluginmanager: Any) -> None:
    # pytest would rewrite every assertion in the packages that come with this plug-in, as if they were tests
    rewritten: set[str] = getattr(pluginmanager.rewrite_hook, "_must_rewrite", set())
    rewritten -= {"shmcoll", "shmrun", "shmbench"}
    group = parser.getgroup("shmcoll", "tests on ranks of shmcoll")
    group.addoption(
        "--pdb-rank",
        type=int,
        default=None,
        metavar="N",
        help="the rank whose debugger gets the terminal; by default the first that needs it",
    )
    parser.addini("ranks_timeout", "seconds that a test on ranks may take; 0: no limit", default="300")
    parser.addini("ranks_max", "tests that need more ranks are skipped; 0: none are", default="0")
    parser.addini("ranks_start", "how ranks are started: fork or spawn", default="fork")
    parser.addini("ranks_mpi", "let tests use mpi4py, with COMM_WORLD as the ranks", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if early_config.getini("ranks_mpi"):
        import shmcoll.mpi  # noqa: F401  # before any conftest imports mpi4py


def pytest_configure(config: pytest.Config) -> None:
    if (rank := config.getoption("--pdb-rank")) is not None and rank < 0:
        raise pytest.UsageError(f"--pdb-rank must be a rank, 0 or more, got {rank}")
    config.addinivalue_line(
        "markers", f"{MARK}(*numbers, timeout=None): run the test on so many ranks of shmcoll, once for each number"
    )


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker(MARK):
        if getattr(pytest, "version_tuple", (0,)) < OLDEST:
            raise pytest.UsageError(
                f"tests on ranks need pytest {OLDEST[0]}.{OLDEST[1]}, and this is {pytest.__version__}"
            )
        from shmcoll.pytest_plugin import marks

        numbers = marks.numbers(metafunc.definition)
        metafunc.fixturenames.append(NUMBER)
        metafunc.parametrize(NUMBER, numbers, ids=[marks.title(n) for n in numbers], scope="module")


def pytest_itemcollected(item: pytest.Item) -> None:
    if number := getattr(item, "callspec", None) and item.callspec.params.get(NUMBER):  # type: ignore[attr-defined]
        item.extra_keyword_matches.add(f"{number}ranks")  # for -k


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if here is not None or not item.get_closest_marker(MARK):
        return None
    from shmcoll.pytest_plugin import protocol

    return protocol.run(item, nextitem)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if here is None and item.get_closest_marker(MARK):
        from shmcoll.pytest_plugin import marks

        marks.number(item)  # raises if the mark is wrong


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    import sys

    if protocol := sys.modules.get("shmcoll.pytest_plugin.protocol"):
        protocol.end(session)


@pytest.fixture(scope="session")
def comm(request: pytest.FixtureRequest) -> Generator[Any]:
    """Return the communicator of all ranks of a test with the mark `ranks`: `shmcoll.init()`, or with the setting
    `ranks_mpi` MPI.COMM_WORLD of mpi4py."""
    from shmcoll.pytest_plugin import marks

    yield marks.communicator(request)
