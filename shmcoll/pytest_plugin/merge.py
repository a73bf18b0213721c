"""The reports of all ranks about one phase of a test become one report.

A phase has failed if it has failed on a rank. Failures that are alike are shown once, with their ranks; those of ranks
that failed because another one had are shown in one line each. A test is skipped if all ranks skip it, and as far as
some do, a section of the report says so. If it is expected to fail, it does so by failing on one rank.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback
from _pytest.skipping import evaluate_xfail_marks

from shmcoll.errors import RankFailed
from shmcoll.pytest_plugin.member import Loss
from shmcoll.pytest_plugin.messages import RankReport
from shmcoll.pytest_plugin.team import Team

_Element = tuple[Any, Any, str | None]  # of a chain of exceptions: traceback, place, text behind it
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def title(ranks: Iterable[int]) -> str:
    """Return 'rank 2' or 'ranks 0-3, 5'."""
    runs: list[list[int]] = []
    listed = sorted(ranks)
    for rank in listed:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    words = [f"{a}" if a == b else f"{a}{', ' if b == a + 1 else '-'}{b}" for a, b in runs]
    return f"rank{'s' if len(listed) > 1 else ''} {', '.join(words)}"


class _Part:
    """The report of a rank, as pytest has it."""

    def __init__(self, item: pytest.Item, told: RankReport):
        made = item.config.hook.pytest_report_from_serializable(config=item.config, data=told.report)
        self.report: Any = made
        self.is_consequence, self.is_xpass = told.is_consequence, told.is_xpass
        self.is_xfailed = made.skipped and hasattr(made, "wasxfail")


def merged(item: pytest.Item, team: Team, when: str, *, has_failed: bool = False) -> pytest.TestReport:
    """Return the report of a phase on all ranks. has_failed: whether the test has failed before, so that failures which
    follow from that are not failures of this phase."""
    parts = {r.number: _Part(item, r.reports[when]) for r in team.ranks if when in r.reports}
    losses = {number: loss for number, loss in team.losses.items() if loss.phase == when}
    if when == "call":  # a rank that has been skipped in its setup has no call
        parts |= {r.number: p for r in team.ranks if (p := _skipped_before(item, r.reports)) and r.number not in parts}
    report = _base(item, when, parts)
    report.sections += _lost_output(losses)
    failed = {number: part for number, part in parts.items() if part.report.failed}
    own = [n for n, part in failed.items() if not (part.is_consequence or part.is_xpass)]
    lost = [number for number, loss in losses.items() if not loss.is_consequence]
    xfailed = [part.report for part in parts.values() if part.is_xfailed]
    expected = _expected(item) if lost else None
    if has_failed and not own and not lost:
        return report
    if (xfailed or expected is not None) and not own and (expected is not None or not lost):
        report.outcome, report.wasxfail = "skipped", xfailed[0].wasxfail if xfailed else str(expected)
        report.longrepr = xfailed[0].longrepr if xfailed else _failure(item, team, {}, losses)
    elif failed or losses:
        report.outcome, report.longrepr = "failed", _failure(item, team, failed, losses)
        if hasattr(report, "wasxfail"):
            del report.wasxfail
    elif skipped := {number: part for number, part in parts.items() if part.report.skipped}:
        if len(skipped) == len(parts):
            report.outcome, report.longrepr = "skipped", next(iter(skipped.values())).report.longrepr
        elif when == "call":
            for reason, ranks in alike((n, str(part.report.longrepr[2])) for n, part in skipped.items()):
                report.sections.append((f"Not run on {title(ranks)}", reason))
    return report


def merged_subtests(item: pytest.Item, team: Team) -> list[pytest.TestReport]:
    """Return the reports of subtests that have failed or have been skipped, those that are alike as one."""
    told = [(r.number, one) for r in team.ranks if "call" in r.reports for one in r.reports["call"].subtests]
    parts = [(number, _Part(item, RankReport(one, False, False))) for number, one in told]
    reports = []
    for _, numbers in alike((i, _of_subtest(*part)) for i, part in enumerate(parts)):
        ranks = {parts[i][0]: parts[i][1] for i in numbers}
        report = next(iter(ranks.values())).report
        report.sections = []
        if report.failed:
            report.longrepr = _failure(item, team, ranks, {})
        reports.append(report)
    return reports


def _of_subtest(rank: int, part: _Part) -> object:
    report = part.report
    return str(getattr(report, "context", "")), report.outcome, _key(report.longrepr, rank)


def nothing(item: pytest.Item, when: str) -> pytest.TestReport:
    """Return the report of a phase to which no rank has come."""
    report: pytest.TestReport = _base(item, when, {})
    return report


def _skipped_before(item: pytest.Item, reports: dict[str, RankReport]) -> _Part | None:
    setup = reports.get("setup")
    return _Part(item, setup) if setup and setup.report["outcome"] == "skipped" else None


def _expected(item: pytest.Item) -> str | None:
    """Return why a test is expected to lose ranks; None if it is not."""
    if item.config.getoption("runxfail"):
        return None
    mark = evaluate_xfail_marks(item)
    if mark is None or not (mark.raises is None or _is_of(mark.raises)):
        return None
    return mark.reason


def _is_of(raises: Any) -> bool:
    try:
        return issubclass(RankFailed, raises)
    except TypeError:
        return False


def _base(item: pytest.Item, when: str, parts: dict[int, _Part]) -> Any:
    """Return a report that has passed, with what the ranks' reports have in common."""
    reports = [part.report for _, part in sorted(parts.items())]
    keywords = dict.fromkeys(item.keywords, 1)
    properties: list[Any] = []
    for one in reports:
        properties += [pair for pair in one.user_properties if pair not in properties]
    start = min((one.start for one in reports), default=0.0)
    stop = max((one.stop for one in reports), default=0.0)
    longest = max((one.duration for one in reports), default=0.0)
    made: Any = pytest.TestReport(
        item.nodeid, item.location, keywords, "passed", None, when,  # type: ignore[arg-type]
        duration=longest, start=start, stop=stop, user_properties=properties,
    )  # fmt: skip
    texts = ((number, pair) for number, part in sorted(parts.items()) for pair in part.report.sections)
    made.sections = [(f"{name} ({title(ranks)})", text) for (name, text), ranks in alike(texts)]
    passed = [one for one in reports if one.passed]
    if passed and all(hasattr(one, "wasxfail") for one in passed):
        made.wasxfail = passed[0].wasxfail
    return made


def _failure(item: pytest.Item, team: Team, failed: dict[int, _Part], losses: dict[int, Loss]) -> ExceptionChainRepr:
    """Return the failures of all ranks, as pytest shows a chain of exceptions."""
    elements: list[_Element] = []
    places: list[tuple[str, Any]] = []
    behind: list[str] = []
    own = {n: part for n, part in failed.items() if not part.is_consequence}
    if not own and all(loss.is_consequence for loss in losses.values()):
        own = failed
    for _, ranks in alike((n, _key(part.report.longrepr, n)) for n, part in own.items()):
        repr_ = own[ranks[0]].report.longrepr
        elements.append((_text([]), None, f"----- {title(ranks)} -----"))
        chain = getattr(repr_, "chain", None)
        elements += chain if chain else [(_text([str(repr_)]), None, None)]
        places.append((title(ranks), getattr(repr_, "reprcrash", None)))
    for how, ranks in alike((n, loss.how) for n, loss in losses.items() if not loss.is_consequence):
        places.append((title(ranks), how))
        elements.append((_text([f"{title(ranks)} {how}"]), None, None))
    rest = {n: part for n, part in failed.items() if n not in own}
    for line, ranks in alike((n, _line(part.report.longrepr, n)) for n, part in rest.items()):
        behind.append(f"therefore, {title(ranks)}: {line}")
    for how, ranks in alike((n, loss.how) for n, loss in losses.items() if loss.is_consequence):
        behind.append(f"{title(ranks)} {how}")
        places.append((title(ranks), how))
    if team.table:
        behind.append(f"where the ranks were:\n{team.table}")
    who, crash = places[0]
    path, line, message = str(item.path), (item.location[1] or 0) + 1, f"{who} {crash}"
    if isinstance(crash, ReprFileLocation):
        path, line, message = crash.path, crash.lineno, f"{who}: {crash.message}"
    elif crash is None:
        message = f"{who}: {_line(own[min(own)].report.longrepr, min(own))}" if own else who
    elements.append((_text(behind), ReprFileLocation(path, line, message), None))
    return ExceptionChainRepr(elements)


def _lost_output(losses: dict[int, Loss]) -> list[tuple[str, str]]:
    """Return sections with what ranks have printed that have not come to the end of their phase."""
    return [
        (f"{name} ({title([number])})", text) for number, loss in sorted(losses.items()) for name, text in loss.output
    ]


def _key(longrepr: Any, rank: int) -> object:
    """Return what is the same for failures that are alike: the exceptions and the lines, whatever the arguments."""
    crashes = [crash for _, crash, _ in getattr(longrepr, "chain", ())]
    if not crashes or None in crashes:
        return _common(str(longrepr), rank)
    entries = [entry for traceback, _, _ in longrepr.chain for entry in traceback.reprentries]
    places = tuple(str(getattr(entry, "reprfileloc", None)) for entry in entries)
    return tuple(_common(crash.message, rank) for crash in crashes), places


def _line(longrepr: Any, rank: int) -> str:
    """Return a failure in one line."""
    crash = getattr(longrepr, "reprcrash", None)
    return _common(str(crash.message if crash else longrepr).partition("\n")[0], rank)


def _common(text: str, rank: int) -> str:
    """Return a text without what differs between ranks: addresses, and the number of the rank itself."""
    return re.sub(rf" on rank {rank}(?=:)|(?<=: )rank {rank} (?=of \d)", "", _ADDRESS.sub("0x...", text))


def _text(paragraphs: Sequence[str]) -> ReprTraceback:
    lines = [f"\n{paragraph}\n" for paragraph in paragraphs]
    return ReprTraceback([ReprEntryNative(lines)] if lines else [], None, "native")


def alike(pairs: Iterable[tuple[int, Any]]) -> list[tuple[Any, list[int]]]:
    """Return the values, each once, with the ranks that have it."""
    found: dict[Any, list[int]] = {}
    for rank, value in pairs:
        found.setdefault(value, []).append(rank)
    return list(found.items())
