"""The debugger of one rank: `--pdb`, `--trace`, `breakpoint()` and `pytest.set_trace()`.

A rank whose debugger is about to begin asks pytest's process for the terminal. One rank of a test gets it: that of
`--pdb-rank`, or else the first that asks. Others go on without their debugger. While a rank has the terminal, no time
limit of pytest's process ends it, and the others wait for it. It keeps the terminal until its test ends, so that it may
stop again; what it prints meanwhile goes there.
"""

import io
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from _pytest.config import create_terminal_writer
from _pytest.debugging import PdbInvoke, pytestPDB


class Debugger:
    """terminal: its three descriptors. may: asks for it, and returns whether this rank has it."""

    def __init__(self, config: pytest.Config, terminal: list[int], may: Callable[[], bool]):
        self._config = config
        self._may = may
        self._terminal = terminal
        self._kept: list[Any] = []  # while this rank has the terminal: where its output went before
        self._init = pytestPDB._init_pdb
        if plugin := config.pluginmanager.getplugin("pdbinvoke"):
            config.pluginmanager.unregister(plugin)
        pytestPDB._init_pdb = self._begin  # type: ignore[method-assign]

    def interact(self, node: Any, call: Any, report: Any) -> None:
        """Begin a debugger after a failure, if `--pdb` asks for it."""
        if self._config.getoption("usepdb") and self._take():
            PdbInvoke().pytest_exception_interact(node, call, report)

    def give_back(self) -> None:
        """End the time with the terminal, if this rank has it. pytest's process knows, because the test is over."""
        if self._kept:
            sys.stdout.flush()
            fds, sys.stdin, sys.stdout, sys.stderr = self._kept
            for standard, fd in enumerate(fds):
                os.dup2(fd, standard)
                os.close(fd)
            self._kept = []

    def _begin(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._init(method, *args, **kwargs) if self._take() else _NoDebugger()

    def _take(self) -> bool:
        if self._kept:
            return True
        if not self._may():
            return False
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._kept = [[os.dup(fd) for fd in range(3)], sys.stdin, sys.stdout, sys.stderr]
        for standard, fd in enumerate(self._terminal):
            os.dup2(fd, standard)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8", errors="backslashreplace")
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        create_terminal_writer(self._config).sep(">", f"rank {os.environ['RANK']} has the terminal")
        return True


class _NoDebugger:
    """In place of a debugger that has no terminal."""

    def set_trace(self, _frame: Any) -> None:
        """Go on."""

    def runcall(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)
