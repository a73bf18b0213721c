"""A rank: runs the tests that it is told to, and reports each phase. `messages.py` has the order of the messages."""

import os
import pickle
import socket
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.runner import call_and_report

import shmcoll.pytest_plugin
from shmcoll.diagnostics.describe_message import messages_of
from shmcoll.engine.system.handlers import ignored, reraise_of_handler
from shmcoll.engine.system.text import to_text
from shmcoll.pytest_plugin import coverage, fixtures
from shmcoll.pytest_plugin.debugger import Debugger
from shmcoll.pytest_plugin.messages import Ask, Exit, Granted, Phase, RankReport, Run, Teardown
from shmcoll.runner import protocol, serve_calls
from shmcoll.runtime import uncaught, user_code
from shmcoll.startup import join
from shmcoll.startup.exits import RaisedException

_LONGEST_LINE = 500  # characters; a `Phase` has to fit into a message


@dataclass(frozen=True)
class Files:
    """The files of a rank: its reports, and what it prints; both in memory, and pytest's process reads them."""

    reports: int
    out: int
    err: int

    @classmethod
    def new(cls) -> "Files":
        return cls(*(protocol.new_file(f"shmcoll-{name}") for name in ("reports", "out", "err")))

    def close(self) -> None:
        for fd in (self.reports, self.out, self.err):
            os.close(fd)


def read(fd: int, begin: int, end: int | None = None) -> bytes:
    """Return a part of a file, up to its end by default."""
    size = (os.fstat(fd).st_size if end is None else end) - begin
    return os.pread(fd, max(size, 0), begin)


class RankSide:
    """This process as a rank of tests, and a plug-in of its pytest. terminal: its descriptors, for the debugger.
    captured: whether its output goes to its files."""

    def __init__(
        self,
        session: pytest.Session,
        number: int,
        control: socket.socket,
        files: Files,
        terminal: list[int],
        captured: bool,
    ):
        self.number = number
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        self._control = control
        self._files = files
        self._captured = captured
        self._shown = [0, 0]  # how much of the output is in reports
        self._excinfo: pytest.ExceptionInfo[BaseException] | None = None
        self._tmp_path = Path()
        self._last: pytest.TestReport  # of the teardown
        self._subtests: list[dict[str, Any]] = []  # reports of those that have not passed
        self._warnings: list[tuple[Any, type[Warning], str, int]] = []  # of the present test
        self._debugger = Debugger(session.config, terminal, self._may_debug)
        shmcoll.pytest_plugin.here = self
        session.config.pluginmanager.register(self, "shmcoll-rank")

    def serve(self) -> NoReturn:
        """Run tests until pytest's process closes the socket, and end as the interpreter does."""
        code = 0
        try:
            while run := self._receive(Run):
                self._tmp_path = Path(run.tmp_path)
                if item := self._items.get(run.nodeid):
                    self._warnings, self._subtests = [], []
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                    self._debugger.give_back()
                    self._tell(self._last, is_last=True)  # now all warnings are known
                else:
                    raise RuntimeError(f"rank {self.number} has not collected {run.nodeid}")
            self._session._setupstate.teardown_exact(None)  # what tests that were to follow would have used
            coverage.save()
            code = user_code.end_as_interpreter(0)
        except BaseException as error:
            code = 1
            if isinstance(error, pytest.exit.Exception):
                self._send(Exit(str(error.msg), error.returncode))
            else:
                sys.excepthook(type(error), error, error.__traceback__)
        finally:
            os._exit(code)

    # --- hooks of pytest ----------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> bool:
        if hasattr(item, "_request") and not item._request:
            item._initrequest()
        report = user_code.call(lambda: call_and_report(item, "setup", log=False))
        if report.passed and not item.config.getoption("setuponly", False):
            self._tell(report, is_last=False)
            report = user_code.call(lambda: call_and_report(item, "call", log=False))
        self._tell(report, is_last=True)
        teardown = self._receive(Teardown)
        nextitem = self._items.get(teardown.nextitem or "") if teardown else None
        self._last = user_code.call(lambda: call_and_report(item, "teardown", log=False, nextitem=nextitem))
        if hasattr(item, "_request"):
            item._request = False
            item.funcargs = None
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the report of a subtest: others are not logged in a rank."""
        if not report.passed:
            config = self._session.config
            self._subtests.append(config.hook.pytest_report_to_serializable(config=config, report=report))

    def pytest_warning_recorded(self, warning_message: Any) -> None:
        w = warning_message
        try:
            pickle.loads(pickle.dumps((w.message, w.category)))
            self._warnings.append((w.message, w.category, w.filename, w.lineno))
        except Exception as e:  # a class that cannot be imported
            reraise_of_handler(e)
            self._warnings.append((f"{w.category.__name__}: {w.message}", UserWarning, w.filename, w.lineno))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        result = yield
        try:
            serve_calls.complete_work(stays=True)
        except Exception as error:
            error.__traceback__ = None  # of our lines
            raise
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        self._excinfo = call.excinfo
        if self._captured:
            for index, (name, fd) in enumerate((("stdout", self._files.out), ("stderr", self._files.err))):
                with ignored(Exception):  # the program may have replaced or closed it
                    (sys.stdout, sys.stderr)[index].flush()
                text = read(fd, self._shown[index])
                self._shown[index] += len(text)
                item.add_report_section(call.when, name, to_text(text))
        return (yield)

    def pytest_exception_interact(self, node: pytest.Item, call: Any, report: Any) -> None:
        if not uncaught.is_consequence(call.excinfo.value):
            self._debugger.interact(node, call, report)

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Path | None:
        return fixtures.shared_tmp_path(fixturedef, request, lambda: self._tmp_path)

    # --- messages -----------------------------------------------------------------------------------------------------

    def _tell(self, report: pytest.TestReport, *, is_last: bool) -> None:
        error = self._excinfo.value if self._excinfo else None
        consequence = uncaught.is_consequence(error)
        config = self._session.config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        told = RankReport(data, consequence, report.failed and error is None)
        if report.when == "teardown":
            told.warnings, told.left = self._warnings, _left_messages()
        elif report.when == "call":
            told.subtests = self._subtests
        try:
            pickled = pickle.dumps(told)
        except Exception as e:  # an object of record_property
            reraise_of_handler(e)
            data["user_properties"] = [(name, repr(value)) for name, value in report.user_properties]
            pickled = pickle.dumps(told)
        begin = os.fstat(self._files.reports).st_size
        with protocol.reopen(self._files.reports, "ab") as file:
            file.write(pickled)
        raised = None
        if error is not None:
            raised = RaisedException(uncaught.in_one_line(error)[:_LONGEST_LINE], time.monotonic_ns(), consequence)
        self._send(Phase(report.when, begin, begin + len(pickled), self._shown[0], self._shown[1], raised, is_last))

    def _may_debug(self) -> bool:
        self._send(Ask())
        granted = self._receive(Granted)
        return granted is not None and granted.is_granted

    def _send(self, message: Any) -> None:
        self._control.send(pickle.dumps(message))

    def _receive(self, kind: type[Any]) -> Any:
        """Return the next message; None if pytest's process has closed the socket."""
        data = self._control.recv(protocol.LONGEST_MESSAGE)
        message = protocol.parse(data, kind) if data else None
        if data and message is None:
            raise RuntimeError(f"rank {self.number} was told something else than {kind.__name__}")
        return message


def _left_messages() -> str:
    """Return the messages in all groups that have been sent to this rank and that it has not received, in words."""
    dispatchers: list[Any] = list(join._joined[1]._local_rank.dispatchers) if join._joined else []
    found = []
    for one in dispatchers:
        if left := [source for source in range(one.size) if one.buffers.waiting(source)]:
            found.append(messages_of(one.group, left, one.buffers))
    return "; ".join(found)
