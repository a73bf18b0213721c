"""A rank with an interpreter of its own: `python -m shmcoll.pytest_plugin.spawned FILE`.

It has a session of pytest with the options of the process that has started it, and collects the file of the first test.
So its team runs the tests of one file. This is how pytest-xdist's workers begin, too.
"""

import os
import pickle
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.config import Config

from shmcoll.diagnostics import stack_server
from shmcoll.engine.system import interpreter
from shmcoll.engine.system.handlers import ignored
from shmcoll.pytest_plugin import coverage, fixtures
from shmcoll.pytest_plugin.rank import Files, RankSide
from shmcoll.runner import protocol
from shmcoll.startup import rank_process

#: options of which only pytest's process takes notice
_NOT_HERE: dict[str, Any] = {
    "lf": False, "failedfirst": False, "newfirst": False, "stepwise": False, "stepwise_skip": False, "maxfail": 0,
    "keyword": "", "markexpr": "", "deselect": None, "xmlpath": None, "numprocesses": None, "dist": "no", "tx": [],
    "collectonly": False, "cacheclear": False, "cov_source": [], "no_cov": True, "durations": None,
}  # fmt: skip


def execute(
    item: pytest.Item,
    number: int,
    arena: int,
    control: socket.socket,
    files: Files,
    terminal: list[int],
    output: tuple[int, int] | None,
    folder: Path,
) -> NoReturn:
    """Become the interpreter of a rank, in a fork."""
    config = item.config
    options = {**vars(config.option), **_NOT_HERE, "basetemp": str(folder)}
    plugins = [name for name in options.get("plugins") or () if isinstance(name, str)]
    options = {name: value for name, value in options.items() if _can_be_sent(value)} | {"plugins": plugins}
    given = protocol.new_file("shmcoll-rank")
    start = (options, [str(item.path)], str(config.invocation_params.dir), list(sys.path), list(sys.argv))
    fds = (files.reports, files.out, files.err)
    with protocol.reopen(given, "wb") as file:
        pickle.dump((number, control.fileno(), fds, terminal, bool(output), start), file)
    for fd in (arena, control.fileno(), given, *fds, *terminal):
        os.set_inheritable(fd, True)
    if output:
        fixtures.redirect(output)
    rank_process.begin_to_execute()
    line = [interpreter.python(), *interpreter.flags(), "-m", "shmcoll.pytest_plugin.spawned", str(given)]
    variables = {**interpreter.environment(os.environ, sys.path), **coverage.variables()}
    os.execve(line[0], line, variables)


def _can_be_sent(value: Any) -> bool:
    with ignored(Exception):
        return bool(pickle.dumps(value))
    return False


class _Serving:
    """A plug-in that runs the tests that the rank is told to, in place of those that it has collected."""

    def __init__(self, number: int, control: socket.socket, files: Files, terminal: list[int], captured: bool):
        self._arguments = number, control, files, terminal, captured

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        side = RankSide(session, *self._arguments)
        fixtures.terminal(session.config)
        fixtures.print_lines()
        side.serve()


def main() -> None:
    interpreter.begin()
    given = int(sys.argv[1])
    with protocol.reopen(given, "rb") as file:
        number, control, fds, terminal, captured, (options, arguments, folder, path, argv) = pickle.load(file)
    os.close(given)
    sys.path[:], sys.argv[:] = path, argv
    os.chdir(folder)
    for variable in ("PYTHONPATH", "PYTHONSAFEPATH"):
        os.environ.pop(variable, None)
    stack_server.offer()
    coverage.begin()
    sock = socket.socket(fileno=control)
    try:
        config = Config.fromdictargs(options, arguments)
        config.pluginmanager.register(_Serving(number, sock, Files(*fds), terminal, captured))
        config.hook.pytest_cmdline_main(config=config)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
