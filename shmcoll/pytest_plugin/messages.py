"""What pytest's process and the ranks of a test say to each other, through one socket for each rank.

    pytest's process    Run: run this test, up to the end of its call
    rank                Phase, after the setup and after the call; the last of them says so
    pytest's process    when all ranks have said their last: Teardown
    rank                Phase. It waits for the next `Run`, or ends when the socket is closed

So no rank tears down what another one may still use, and no rank begins a test before all have ended the previous one.
A rank that fails in its setup or call is found by `runner/stuck_ranks.py` if others wait for it.

    rank                Ask: before its debugger begins
    pytest's process    Granted

    rank                Exit: the test has called `pytest.exit`

The report of a phase is in a file that the rank appends to, because messages have a limit. Nobody waits forever: the
rank reads only from a socket whose other end is closed when pytest's process ends, and that one polls the process of
each rank and its time limit (`startup/watcher.py`).
"""

from dataclasses import dataclass, field
from typing import Any

from shmcoll.startup.exits import RaisedException


@dataclass(frozen=True)
class Run:
    """nodeid: the test. tmp_path: its temporary directory, the same on all ranks."""

    nodeid: str
    tmp_path: str


@dataclass(frozen=True)
class Teardown:
    """nextitem: the test that these ranks will run next."""

    nextitem: str | None


@dataclass(frozen=True)
class Phase:
    """when: "setup", "call" or "teardown". begin, end: where its report is in the file. out, err: what of the output is
    in it. raised: the exception that has ended it. is_last: whether the rank waits for an answer."""

    when: str
    begin: int
    end: int
    out: int
    err: int
    raised: RaisedException | None
    is_last: bool


@dataclass(frozen=True)
class Ask:
    """May the debugger of this rank have the terminal?"""


@dataclass(frozen=True)
class Granted:
    is_granted: bool


@dataclass(frozen=True)
class Exit:
    """reason, returncode: as of `pytest.exit`."""

    reason: str
    returncode: int | None


@dataclass
class RankReport:
    """The report of a phase, as the rank has written it.

    report: as `pytest_report_to_serializable` has made it. is_consequence: whether it failed because another rank had.
    is_xpass: whether it failed only by passing. subtests: the reports of subtests that have not passed, in the report
    of the call. In that of the teardown, warnings: those of the test, as arguments of `warnings.WarningMessage`; left:
    the messages that this rank has not received, in words.
    """

    report: dict[str, Any]
    is_consequence: bool
    is_xpass: bool
    warnings: list[tuple[Any, type[Warning], str, int]] = field(default_factory=list)
    subtests: list[dict[str, Any]] = field(default_factory=list)
    left: str = ""
