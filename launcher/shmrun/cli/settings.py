"""The options of shmrun: one table for the command line, the environment, pyproject.toml and the help.

The option `--tag-output` is SHMCOLL_TAG_OUTPUT in the environment and `tag-output` in `[tool.shmrun]`. Two variables
have other names. SHMCOLL_TIMEOUT is the limit of one wait, because `shmcoll.init()` reads it without shmrun as well.
Therefore the limit of a job is SHMCOLL_JOB_TIMEOUT.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from shmcoll.startup import defaults
from shmrun.cli import values


class Setting(NamedTuple):
    """One option. metavar: empty for a switch. variable: empty for an option without an environment variable."""

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
        _setting("ranks", "-n", "RANKS", values.ranks, None, "start RANKS ranks; auto: one per usable core"),
        _switch("tag-output", "-l", "print '[rank] ' before each line of output"),
        _setting(
            "log-dir",
            "",
            "DIR",
            values.folder,
            None,
            "write the output of rank N to DIR/rank.N.log instead of the screen",
        ),
        _switch("tee", "-t", "with --log-dir: write to the screen as well"),
        _setting(
            "timeout",
            "",
            "S",
            values.positive,
            None,
            "end the job after S seconds, with exit code 124",
            "SHMCOLL_JOB_TIMEOUT",
        ),
        _setting(
            "wait-timeout",
            "",
            "S",
            values.positive,
            defaults.WAIT_TIMEOUT,
            "raise an error if one wait for another rank takes longer than S seconds; "
            f"default {defaults.WAIT_TIMEOUT:g}",
            "SHMCOLL_TIMEOUT",
        ),
        _setting(
            "on-failure",
            "",
            "stop|continue",
            values.reaction,
            "stop",
            "stop: when a rank has failed, end the others after the grace period; continue: let them go on; in both "
            "cases their collectives raise RankFailed; default stop",
        ),
        _setting(
            "grace",
            "",
            "S",
            values.seconds,
            defaults.GRACE,
            f"let the other ranks run for S seconds after the first failure; default {defaults.GRACE:g}",
        ),
        _setting(
            "stall-warning",
            "",
            "S|off",
            values.limit,
            defaults.STALL_WARNING,
            "when a rank has kept others waiting for S seconds, print which, in which call and at which line; again at "
            f"2 S, 4 S and so on; default {defaults.STALL_WARNING:g}",
        ),
        _setting(
            "bind-to",
            "",
            "none|core|numa",
            values.binding,
            "none",
            "bind each rank to one usable core, or to the usable cores of one NUMA node; default none",
        ),
        _setting(
            "env",
            "",
            "NAME=VALUE",
            values.variable,
            (),
            "set an environment variable for the ranks; may be repeated",
            "",
        ),
        _setting(
            "heap",
            "",
            "SIZE",
            values.memory,
            None,
            "limit the memory of groups, shared arrays and messages of all ranks, as in 2G; default: half of the "
            "available memory",
        ),
        _setting(
            "stdin", "", "rank0|none", values.reader, "rank0", "which rank reads the standard input; default rank0"
        ),
        _switch("report", "", "print a table at the end: exit code, time, peak memory and collectives of each rank"),
        _setting("report-json", "", "FILE", values.file, None, "write the figures of that table to FILE as JSON"),
        _switch(
            "check",
            "",
            "find arrays that the program changes while an asynchronous call uses them; slows these calls down",
        ),
        _switch(
            "share-arrays",
            "",
            "make numpy arrays of 64 KiB and more in the memory that the ranks share, so that collectives copy less",
        ),
        _switch("mindspore", "", "`import mindspore` gives shmcoll.mindspore, also if MindSpore is installed"),
        _switch("nki", "", "`import nki` gives shmcoll.nki, also if NKI is installed"),
        _switch("fresh", "", "start a new interpreter for each rank instead of forking the launcher"),
    )
}
