"""A door for the tests of one machine: `pytest -p tests.nodes.door --nodes 2+1 tests/conformance` runs them over nodes.

The `ranks` of a test are then started by mpiexec, on simulated nodes, and run the test's function with the
communicator over nodes. Of the tests for several numbers of ranks those for 3 are run. Tests that look into the arena,
or share other memory with their ranks, do not come through this door and are left out.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tests.support.ranks
from tests.nodes import started
from tests.support.ranks import Outcome

RANKS = 3

#: fixtures of tests that only make sense within one machine
WITHIN = frozenset({"board", "plain_entry", "the_other_ways", "hasty_sends"})

_layout = "2+1"


class Job:
    """Ranks over nodes; see `tests.support.ranks.Job`."""

    def __init__(self, n: int, function: Callable[..., Any], args: tuple = (), **options: Any):
        self.size = n
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        (folder / "call").write_bytes(cloudpickle.dumps((function, args)))
        pattern = (started.LAYOUTS[_layout] * n)[:n]
        command = started.command(str(Path(__file__).parent / "door_rank.py"), pattern, [str(folder)])
        more = {"SHMCOLL_TIMEOUT": str(options.get("timeout", 30.0)), **(options.get("environment") or {})}
        self._process = subprocess.Popen(
            command, env=started.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def finish(self, deadline: float = 40.0) -> list[Outcome]:
        """Wait for all ranks, and return how they ended."""
        try:
            out, err = self._process.communicate(timeout=2 * deadline)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, err = self._process.communicate()
        outcomes = []
        for rank in range(self.size):
            path = Path(self._folder.name) / f"rank{rank}"
            if path.exists():
                value, error, text = pickle.loads(path.read_bytes())
                outcomes.append(Outcome(rank, value, error, text, 0 if error is None else 1))
            else:
                outcomes.append(Outcome(rank, None, None, out + err, self._process.returncode or 1))
        self.kill()
        return outcomes

    def kill(self) -> None:
        """End what still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nodes", default="2+1", choices=started.LAYOUTS, help="the nodes that the ranks are on")


def pytest_configure(config: pytest.Config) -> None:
    global _layout
    _layout = config.option.nodes
    tests.support.ranks.Job = Job  # type: ignore[misc,assignment]  # before conftest.py imports it
    for module in list(sys.modules.values()):
        if getattr(module, "Job", None) is not None and getattr(module, "Ranks", None) is not None:
            module.Job = Job  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _comes_through(item)]


def _comes_through(item: pytest.Item) -> bool:
    if WITHIN & set(getattr(item, "fixturenames", ())) or "ranks" not in getattr(item, "fixturenames", ()):
        return False
    values = getattr(item, "callspec", None)
    return values is None or all(values.params.get(name, RANKS) == RANKS for name in ("n", "few"))
