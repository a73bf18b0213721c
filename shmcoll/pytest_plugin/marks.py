"""The mark `ranks` and the settings of the plug-in: read, and refused if they are wrong."""

import os
import sys
from typing import Any

import pytest

from shmcoll.engine.system.text import shown
from shmcoll.pytest_plugin import MARK, NUMBER
from shmcoll.runner import arguments

_EXAMPLE = "write @pytest.mark.ranks(2) or @pytest.mark.ranks(2, 4, timeout=60)"


def title(number: int) -> str:
    """Return '2 ranks', as in the ids of tests."""
    return f"{number} rank{'s' if number > 1 else ''}"


def numbers(item: pytest.Item) -> tuple[int, ...]:
    """Return the numbers of ranks in the mark of a test. Fails the collection if the mark is wrong."""
    mark = item.get_closest_marker(MARK)
    assert mark is not None
    try:
        if others := set(mark.kwargs) - {"timeout"}:
            raise TypeError(f"has no argument {min(others)!r}; {_EXAMPLE}")
        if not mark.args:
            raise TypeError(f"needs at least one number of ranks; {_EXAMPLE}")
        found = tuple(arguments.number_of_ranks(one, "each number of ranks") for one in mark.args)
        if len(set(found)) < len(found):
            raise ValueError(f"has a number of ranks twice, got {', '.join(map(str, found))}")
        arguments.check_timeout(mark.kwargs.get("timeout"))
    except (TypeError, ValueError) as error:
        raise pytest.fail.Exception(f"{item.nodeid}: the mark ranks: {error}", pytrace=False) from None
    return found


def number(item: pytest.Item) -> int:
    """Return the number of ranks that a test runs on. Fails if the mark has several, and the test cannot have
    parameters."""
    callspec = getattr(item, "callspec", None)
    if callspec and NUMBER in callspec.params:
        return int(callspec.params[NUMBER])
    found = numbers(item)
    if len(found) > 1:
        pytest.fail(
            f"{item.nodeid}: the mark ranks has several numbers, and a method of unittest cannot be run for each; "
            f"give it one",
            pytrace=False,
        )
    return found[0]


def timeout(item: pytest.Item) -> float | None:
    """Return the time limit of a test in seconds."""
    mark = item.get_closest_marker(MARK)
    own = mark.kwargs.get("timeout") if mark else None
    return float(own) if own is not None else _setting(item.config, "ranks_timeout", float) or None


def too_many(item: pytest.Item) -> str:
    """Return why a test is skipped: it needs more ranks than the setting allows, or than the job of this process
    has."""
    wanted, most = number(item), _setting(item.config, "ranks_max", int)
    if most and wanted > most:
        return f"needs {title(wanted)}, and ranks_max is {most}"
    if (there := size_of_job()) not in (1, wanted):
        return f"needs {title(wanted)}, and this job has {there}"
    return ""


def spawns(config: pytest.Config) -> bool:
    """Return whether each rank is an interpreter of its own."""
    how = str(config.getini("ranks_start"))
    if how not in ("fork", "spawn"):
        raise pytest.UsageError(f"ranks_start must be fork or spawn, got {how!r}")
    return how == "spawn" or bool(config.getini("ranks_mpi"))


def size_of_job() -> int:
    """Return how many ranks the job has whose rank this process is: 1 if it is none."""
    from shmcoll.startup import join, launchers

    pid, comm = join._joined or (0, None)
    if comm is not None and pid == os.getpid():
        return int(comm.size)
    if "SHMCOLL_ARENA" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    try:
        place = launchers.find_placement(os.environ)
    except launchers.SeveralMachines as several:
        return several.size_of_job
    return place.size if place else 1


def communicator(request: pytest.FixtureRequest) -> Any:
    """Return what the fixture `comm` is. Fails outside of ranks."""
    plugin = sys.modules["shmcoll.pytest_plugin"]
    if plugin.here is None and size_of_job() == 1:
        pytest.fail(
            "the fixture comm is the communicator of a test on ranks, and this test is not one; mark it with "
            "@pytest.mark.ranks(2), or give your own fixture comm to it",
            pytrace=False,
        )
    if request.config.getini("ranks_mpi"):
        from mpi4py import MPI

        return MPI.COMM_WORLD
    import shmcoll

    return shmcoll.init()


def _setting(config: pytest.Config, name: str, kind: type[Any]) -> Any:
    text = config.getini(name)
    try:
        value = kind(text)
    except (TypeError, ValueError):
        value = -1
    if not 0 <= value < 1e9:
        raise pytest.UsageError(f"{name} must be a number, 0 or more, got {shown(text)}")
    return value
