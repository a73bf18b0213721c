"""A rank of a team, as pytest's process sees it, and how it was lost."""

import re
from dataclasses import dataclass, field

from shmcoll.diagnostics import rank_status
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.system.text import to_text
from shmcoll.pytest_plugin.messages import RankReport
from shmcoll.pytest_plugin.rank import Files, read
from shmcoll.runner.rank import Rank
from shmcoll.startup import exits
from shmcoll.startup.defaults import GRACE

_PYTEST = r"/(_pytest|pytest|pluggy|shmcoll/pytest_plugin|shmcoll/runtime(?=/user_code))/"
#: lines of pytest in the stacks of a table, and of faulthandler
_OF_PYTEST = re.compile(rf'^ {{6}}\S*{_PYTEST}\S+:\d+ in |^  File "([^"]*{_PYTEST}[^"]*|<frozen runpy>)", line \d+ in ')


@dataclass
class Member(Rank):
    """A rank of the team. reports: those of the present test, by phase. shown: how much of its output they contain."""

    files: Files = field(kw_only=True)
    reports: dict[str, RankReport] = field(default_factory=dict, init=False)
    shown: list[int] = field(default_factory=lambda: [0, 0], init=False)

    def close(self) -> None:
        super().close()
        self.files.close()

    @property
    def phase(self) -> str:
        """The phase that it is in, or was in when it ended."""
        if "setup" not in self.reports:
            return "setup"
        has_run = "call" in self.reports or self.reports["setup"].report["outcome"] != "passed"
        return "teardown" if has_run else "call"


@dataclass
class Loss:
    """A rank that has ended within a test. how: in words. phase: where. output: what it printed after its last report.
    is_consequence: whether another failure was the reason."""

    how: str
    phase: str
    output: list[tuple[str, str]]
    is_consequence: bool


def loss(rank: Member, arena: Arena, too_late: str) -> Loss:
    """Return how a rank has ended within a test. too_late: in words, if its time was over; empty otherwise."""
    how = too_late or exits.describe(rank.status or 0)
    if not too_late and rank.ended_by:
        how = "did not end in time after another rank had failed"
    elif not too_late and (last := rank_status.last_operation(arena, rank.number)):
        how = f"{how}; {last}"
    names = (("stdout", rank.files.out), ("stderr", rank.files.err))
    rest = [
        (f"Captured {name} {rank.phase}", without_pytest(text))
        for (name, fd), begin in zip(names, rank.shown, strict=True)
        if (text := to_text(read(fd, begin)))
    ]
    return Loss(how, rank.phase, rest, bool(rank.ended_by) and not too_late)


def how_ended(rank: Member) -> str:
    """Return how a rank has failed after its last test."""
    if rank.ended_by:
        return f"did not end within {2 * GRACE:g} s after its last test: a thread or an exit handler is in the way"
    said = without_pytest(to_text(read(rank.files.err, rank.shown[1]))).rstrip()
    return f"{exits.describe(rank.status or 0)} after its last test" + (f":\n{said}" if said else "")


def without_pytest(text: str) -> str:
    """Return a text without the lines of stacks that are pytest's."""
    found: list[str] = []
    is_pytest = False
    for line in text.splitlines(keepends=True):
        is_pytest = bool(_OF_PYTEST.search(line)) or (is_pytest and line.strip() == "...")
        found += [] if is_pytest else [line]
    return "".join(found)
