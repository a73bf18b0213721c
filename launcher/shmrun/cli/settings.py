"""The options of shmrun: one table, from which the command line, the environment, pyproject.toml and the help are read.

An option `--tag-output` stands as SHMCOLL_TAG_OUTPUT in the environment and as `tag-output` in `[tool.shmrun]`. Two
variables break the rule: SHMCOLL_TIMEOUT is the limit of one wait, which `shmcoll.init()` reads without shmrun, too; so
the limit of a job is SHMCOLL_JOB_TIMEOUT.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from shmcoll.startup import defaults
from shmrun.cli import values


class Setting(NamedTuple):
    """One option. `metavar` is empty for a switch; `variable` for what cannot stand in the environment."""

    name: str
    short: str
    metavar: str
    read: Callable[[str], Any]
    default: Any
    variable: str
    help: str

    @property
    def switch(self) -> bool:
        return not self.metavar


def _setting(name: str, short: str, metavar: str, read: Callable, default: Any, help: str, *variable: str) -> Setting:
    usual = "SHMCOLL_" + name.upper().replace("-", "_")
    return Setting(name, short, metavar, read, default, variable[0] if variable else usual, help)


def _switch(name: str, short: str, help: str) -> Setting:
    return _setting(name, short, "", values.switch, False, help)


SETTINGS = {
    setting.name: setting
    for setting in (
        _setting("ranks", "-n", "RANKS", values.ranks, None, "number of ranks; auto: one per usable core"),
        _switch("tag-output", "-l", "write '[rank] ' before each line that a rank prints"),
        _setting("log-dir", "", "DIR", values.folder, None, "write what rank N prints to DIR/rank.N.log instead"),
        _switch("tee", "-t", "with --log-dir: print it as well"),
        _setting(
            "timeout",
            "",
            "S",
            values.positive,
            None,
            "end the job after S seconds, exit code 124",
            "SHMCOLL_JOB_TIMEOUT",
        ),
        _setting(
            "wait-timeout",
            "",
            "S",
            values.positive,
            defaults.WAIT_TIMEOUT,
            f"limit of one wait within a collective; default {defaults.WAIT_TIMEOUT:g}",
            "SHMCOLL_TIMEOUT",
        ),
        _setting(
            "on-failure",
            "",
            "stop|continue",
            values.reaction,
            "stop",
            "when a rank has failed, the others get RankFailed from their collectives; stop, the default: and are "
            "ended when the grace is over; continue: and have all the time they want",
        ),
        _setting(
            "grace",
            "",
            "S",
            values.seconds,
            defaults.GRACE,
            f"after the first failure, time for the others; default {defaults.GRACE:g}",
        ),
        _setting(
            "bind-to",
            "",
            "none|core|numa",
            values.binding,
            "none",
            "bind each rank to one usable core, in turn, or to the cores of one NUMA node",
        ),
        _setting("env", "", "NAME=VALUE", values.variable, (), "set a variable for the ranks; may be repeated", ""),
        _setting(
            "heap",
            "",
            "SIZE",
            values.memory,
            None,
            "most memory that shared arrays and groups of all ranks may take, as in 2G; default: half of what there is",
        ),
        _setting("stdin", "", "rank0|none", values.reader, "rank0", "who reads the standard input; default rank0"),
        _switch("report", "", "print a table at the end: exit, time, peak memory, collectives of each rank"),
        _switch(
            "check", "", "find arrays that are changed while an asynchronous call uses them; each is then read thrice"
        ),
        _switch("fresh", "", "start a new interpreter for each rank instead of forking this one"),
    )
}
