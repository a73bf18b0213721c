"""What a rank does not share with the process of pytest that it is a fork of: what fixtures have set up there, where
its temporary directories are, and its captured output.

`tmp_path` is one directory for all ranks of a test, because what one rank writes there others read. Each rank has
directories of `tmp_path_factory` for itself: sessions of pytest cannot share a name that they number. So a rank that
wants a directory for itself makes one below `tmp_path`.

Much of this is private to pytest, which has no public name for it; xdist and others use the same.
"""

import atexit
import faulthandler
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _pytest.tmpdir
import pytest
from _pytest.runner import SetupState

import shmcoll
from shmcoll.diagnostics import stack_server
from shmcoll.engine.system.text import line_writer
from shmcoll.pytest_plugin import MARK
from shmcoll.startup import join


def begin_in_fork(session: Any, folder: Path, output: tuple[int, int] | None) -> None:
    """Begin a rank in a fork. folder: for its temporary directories. output: the files for what it prints."""
    atexit._clear()  # what pytest's process does at its end
    plugins = session.config.pluginmanager
    for plugin in plugins.get_plugins():  # what pytest's process does for all ranks
        if plugins.get_name(plugin) == "timeout" or type(plugin).__name__ == "WorkerInteractor":  # of pytest-xdist
            plugins.unregister(plugin)
    if reporter := plugins.getplugin("terminalreporter"):
        plugins.unregister(reporter)
        plugins.register(_QuietReporter(reporter), "terminalreporter")
    join.forget()
    forget_set_up(session)
    use_directory(session.config, folder)
    if output:
        redirect(output)
        print_lines()
    stack_server.offer()  # the test may never join


class _QuietReporter:
    """pytest's reporter without its hooks: a rank reports nothing, but its debugger writes to the terminal."""

    def __init__(self, reporter: Any):
        self._reporter = reporter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reporter, name)


def forget_set_up(session: Any) -> None:
    """Forget what has been set up before the fork: another process tears it down."""
    for finalizers, _ in session._setupstate.stack.values():
        for finalizer in finalizers:
            definition = getattr(getattr(finalizer, "func", None), "__self__", None)
            if isinstance(definition, pytest.FixtureDef):
                definition.cached_result = None
                definition._finalizers.clear()
    session._setupstate = SetupState()


def use_directory(config: Any, folder: Path) -> None:
    """Have this rank's `tmp_path_factory` make its directories in a folder."""
    if factory := getattr(config, "_tmp_path_factory", None):
        folder.mkdir(mode=0o700, exist_ok=True)
        factory._basetemp = folder


def name_of_directory(item: Any) -> str:
    """Return what the temporary directory of a test is called, without a number."""
    return re.sub(r"\W", "_", item.name)[:30]


def shared_tmp_path(fixturedef: Any, request: Any, make: Callable[[], Path]) -> Path | None:
    """Set up pytest's fixture `tmp_path` as the path that `make` returns. Returns None for any other fixture."""
    if fixturedef.argname != "tmp_path" or fixturedef.func.__module__ != _pytest.tmpdir.__name__:
        return None
    path = make()
    path.mkdir(mode=0o700, exist_ok=True)
    fixturedef.cached_result = (path, fixturedef.cache_key(request), None)
    return path


class InJob:
    """A plug-in for a process of pytest that is a rank of a launcher's job: `tmp_path` is the same on all ranks."""

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Path | None:
        if request.scope != "function" or not request.node.get_closest_marker(MARK):
            return None
        return shared_tmp_path(fixturedef, request, lambda: self._make(request))

    def _make(self, request: Any) -> Path:
        comm = shmcoll.init()
        factory = request.config._tmp_path_factory
        made = str(factory.mktemp(name_of_directory(request.node))) if comm.rank == 0 else ""
        return Path(comm.broadcast_object(made))


def captures(config: pytest.Config) -> bool:
    """Return whether pytest keeps what tests print."""
    return config.pluginmanager.hasplugin("capturemanager") and config.getoption("capture") != "no"


def terminal(config: Any) -> list[int]:
    """Return the standard descriptors that pytest was started with, and end its capturing, which has replaced them."""
    if config.pluginmanager.hasplugin("capturemanager"):
        manager = config.pluginmanager.getplugin("capturemanager")
        manager.stop_global_capturing()
        manager._method = "no"
        manager.start_global_capturing()
    return [os.dup(fd) for fd in range(3)]


def redirect(output: tuple[int, int]) -> None:
    """Have what this process prints go to these files, and its standard input be empty. pytest's own way would lose the
    output of a rank that is killed. The fixtures that capture work as before."""
    null = os.open(os.devnull, os.O_RDONLY)
    for standard, fd in enumerate((null, *output)):
        os.dup2(fd, standard)
    os.close(null)


def print_lines() -> None:
    """Have Python's streams write each line to the standard descriptors as they are now."""
    sys.stdout, sys.stderr = line_writer(1), line_writer(2)
    if faulthandler.is_enabled():
        faulthandler.enable(file=2)
