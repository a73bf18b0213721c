"""One test on ranks, from pytest's point of view: a setup, a call and a teardown with a report each."""

import contextlib
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.errors import ShmcollError
from shmcoll.pytest_plugin import MARK, fixtures, marks, merge
from shmcoll.pytest_plugin.team import Team

_IN_JOB = "shmcoll-in-job"
_TEAM = pytest.StashKey[Team]()


def run(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test on ranks. Returns None if pytest is to run it in this process: because that is a rank already, or the
    test is skipped or wrong."""
    try:
        number = marks.number(item)
    except pytest.fail.Exception:
        return None  # `pytest_runtest_setup` raises it again
    if reason := marks.too_many(item):
        item.add_marker(pytest.mark.skip(reason=reason), append=False)
        return None
    if marks.size_of_job() > 1:
        if not item.config.pluginmanager.hasplugin(_IN_JOB):
            item.config.pluginmanager.register(fixtures.InJob(), _IN_JOB)
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    _run(item, nextitem, number)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def end(session: pytest.Session) -> None:
    """End the ranks, at the end of the session."""
    if team := session.stash.get(_TEAM, None):
        del session.stash[_TEAM]
        team.kill()


def _run(item: pytest.Item, nextitem: pytest.Item | None, number: int) -> None:
    session = item.session
    team = session.stash.get(_TEAM, None) or _started(item, number)
    if team is None:
        return _log_end(item, nextitem, merge.nothing(item, "teardown"))
    session.stash[_TEAM] = team
    try:
        _run_on(team, item, nextitem)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and team.living():
            _print(item.config, f"where the ranks were:\n{team.inquest()}")
        end(session)
        raise


def _run_on(team: Team, item: pytest.Item, nextitem: pytest.Item | None) -> None:
    session = item.session
    team.run(item, marks.timeout(item))
    if team.exit:
        end(session)
        pytest.exit(team.exit.reason, team.exit.returncode)
    report = _log(item, team, "setup")
    if report.passed:
        report = _log(item, team, "call")
    goes_on = nextitem is not None and not (session.shouldfail or session.shouldstop) and _follows(item, nextitem)
    stays = goes_on and team.is_sound()
    team.tear_down(nextitem.nodeid if stays and nextitem else None)
    _warn(item, team)
    last = merge.merged(item, team, "teardown", has_failed=report.failed)
    if not (stays and team.is_sound()):
        del session.stash[_TEAM]
        if (bad := team.end()) and last.passed and not report.failed:
            told = "\n".join(f"{merge.title(ranks)} {how}" for how, ranks in merge.alike(bad.items()))
            last.outcome, last.longrepr = "failed", told
    _log_end(item, nextitem, last)
    _remove(team.tmp_path(item), item.config, has_failed=report.failed)


def _started(item: pytest.Item, number: int) -> Team | None:
    """Start ranks for a test. Returns None if that is not possible, which is an error in the setup of the test."""

    def start() -> Team:
        try:
            return Team(item, number)
        except (ShmcollError, OSError, ValueError) as error:
            reraise_of_handler(error)
            raise pytest.fail.Exception(f"the ranks could not be started: {error}", pytrace=False) from None

    ours = (KeyboardInterrupt, pytest.exit.Exception, pytest.UsageError)
    call = pytest.CallInfo.from_call(start, when="setup", reraise=ours)
    if call.excinfo is None:
        return call.result
    item.ihook.pytest_runtest_logreport(report=item.ihook.pytest_runtest_makereport(item=item, call=call))
    return None


def _log_end(item: pytest.Item, nextitem: pytest.Item | None, report: pytest.TestReport) -> None:
    """Tear down the fixtures that earlier tests have set up in this process and the next one does not use, and log the
    report of the teardown."""
    state = item.session._setupstate
    call = pytest.CallInfo.from_call(lambda: state.teardown_exact(nextitem), when="teardown")
    if call.excinfo and not report.failed:
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    item.ihook.pytest_runtest_logreport(report=report)


def _log(item: pytest.Item, team: Team, when: str) -> pytest.TestReport:
    for report in merge.merged_subtests(item, team) if when == "call" else ():
        item.ihook.pytest_runtest_logreport(report=report)
    report = merge.merged(item, team, when)
    item.ihook.pytest_runtest_logreport(report=report)
    return report


def _warn(item: pytest.Item, team: Team) -> None:
    """Tell pytest the warnings of the ranks, each once."""
    found: dict[object, tuple[Any, type[Warning], str, int]] = {}
    for rank in team.ranks:
        for one in rank.reports["teardown"].warnings if "teardown" in rank.reports else ():
            found.setdefault((str(one[0]), *one[1:]), one)
    if left := team.left_messages():
        text = f"messages that no rank has received, so that the next test has new ranks: {left}"
        found[""] = text, pytest.PytestWarning, str(item.path), (item.location[1] or 0) + 1
    for message, category, path, line in found.values():
        told = warnings.WarningMessage(message, category, path, line)
        item.ihook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": told, "when": "runtest", "nodeid": item.nodeid, "location": None}
        )


def _follows(item: pytest.Item, nextitem: pytest.Item) -> bool:
    """Return whether the next test can run on the ranks of this one."""
    if not nextitem.get_closest_marker(MARK) or (marks.spawns(item.config) and nextitem.path != item.path):
        return False
    with contextlib.suppress(pytest.fail.Exception):
        return marks.number(nextitem) == marks.number(item) and not marks.too_many(nextitem)
    return False


def _remove(folder: Path, config: Any, *, has_failed: bool) -> None:
    """Remove the directory of a test as pytest's own fixture does."""
    factory = getattr(config, "_tmp_path_factory", None)
    if factory and not has_failed and factory._retention_policy == "failed":
        shutil.rmtree(folder, ignore_errors=True)


def _print(config: pytest.Config, text: str) -> None:
    if reporter := config.pluginmanager.getplugin("terminalreporter"):
        reporter.write_line(text)
