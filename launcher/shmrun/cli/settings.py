"""The options of shmrun: one table for the command line, the environment, pyproject.toml and the help.

Each field of `Options` is one option. The field `tag_output` is `--tag-output` on the command line, SHMCOLL_TAG_OUTPUT
in the environment and `tag-output` in `[tool.shmrun]`. Two variables have other names. SHMCOLL_TIMEOUT is the limit of
one wait, because `shmcoll.init()` reads it without shmrun as well. Therefore the limit of a job is SHMCOLL_JOB_TIMEOUT.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from shmcoll.startup import defaults
from shmrun.cli import values
from shmrun.cli.msrun import Habits


class Setting(NamedTuple):
    """How an option is given. metavar: empty for a switch; in brackets for a switch that may have a value. variable:
    empty for an option without an environment variable."""

    name: str
    short: str
    metavar: str
    read: Callable[[str], Any]
    default: Any
    variable: str
    help: str

    @property
    def switch(self) -> bool:
        return not self.metavar or self.metavar.startswith("[")


def _option(
    metavar: str,
    read: Callable[[str], Any],
    default: Any,
    help: str,
    *,
    short: str = "",
    variable: str | None = None,
) -> Any:
    return field(default=default, metadata={"setting": (short, metavar, read, default, variable, help)})


def _switch(help: str, short: str = "") -> Any:
    return _option("", values.switch, False, help, short=short)


@dataclass(frozen=True)
class Options:
    """The options of a job. Times are in seconds.

    command: the program, or the name of a module, and its arguments. msrun: if the command line is msrun's.
    """

    ranks: int = _option("RANKS", values.ranks, None, "start RANKS ranks; auto: one per usable core", short="-n")
    tag_output: bool = _switch("print '[rank] ' before each line of output", "-l")
    log_dir: str | None = _option(
        "DIR", values.folder, None, "write the output of rank N to DIR/rank.N.log instead of the screen"
    )
    dump: str | None = _option(
        "DIR",
        values.folder_or_off,
        None,
        "when the job fails or hangs, write what every rank did into a folder of its own in DIR, for `shmrun verdict`; "
        "off: do not; default: DIR/dump of --log-dir, if that is given",
    )
    tee: bool = _switch("with --log-dir: write to the screen as well", "-t")
    timeout: float | None = _option(
        "S",
        values.positive,
        None,
        "end the job after S seconds, with exit code 124",
        variable="SHMCOLL_JOB_TIMEOUT",
    )
    wait_timeout: float = _option(
        "S",
        values.positive,
        defaults.WAIT_TIMEOUT,
        f"raise an error if one wait for another rank takes longer than S seconds; default {defaults.WAIT_TIMEOUT:g}",
        variable="SHMCOLL_TIMEOUT",
    )
    on_failure: str = _option(
        "stop|continue",
        values.reaction,
        "stop",
        "stop: when a rank has failed, end the others after the grace period; continue: let them go on; in both "
        "cases their collectives raise RankFailed; default stop",
    )
    grace: float = _option(
        "S",
        values.seconds,
        defaults.GRACE,
        f"let the other ranks run for S seconds after the first failure; default {defaults.GRACE:g}",
    )
    stall_warning: float | None = _option(
        "S|off",
        values.limit,
        defaults.STALL_WARNING,
        "when a rank has kept others waiting for S seconds, print which, in which call and at which line; again at "
        f"2 S, 4 S and so on; default {defaults.STALL_WARNING:g}",
    )
    bind_to: str = _option(
        "none|core|numa",
        values.binding,
        "none",
        "bind each rank to one usable core, or as many as it has --threads, or to the usable cores of one NUMA node; "
        "default none",
    )
    threads: int = _option(
        "N",
        values.threads,
        1,
        "let N threads of each rank do its copies and sums of 1 MiB and more, if it has as many cores; auto: as many "
        "as it has cores; default 1",
    )
    env: tuple[tuple[str, str], ...] = _option(
        "NAME=VALUE", values.variable, (), "set an environment variable for the ranks; may be repeated", variable=""
    )
    heap: int | None = _option(
        "SIZE",
        values.memory,
        None,
        "limit the memory of groups, shared arrays and messages of all ranks, as in 2G; default: half of the "
        "available memory",
    )
    stdin: str = _option("rank0|none", values.reader, "rank0", "which rank reads the standard input; default rank0")
    report: bool = _switch("print a table at the end: exit code, time, peak memory and collectives of each rank")
    report_json: str | None = _option("FILE", values.file, None, "write the figures of that table to FILE as JSON")
    trace: str | None = _option(
        "FILE", values.file, None, "write a timeline of all ranks to FILE, for ui.perfetto.dev or chrome://tracing"
    )
    stats: bool | str = _option(
        "[=FILE]",
        values.tables,
        False,
        "print at the end where the time went: calls, waiting, the slow rank; with FILE: write it to FILE as JSON",
    )
    log_level: str | None = _option(
        "debug|info|warning|error|critical",
        values.level,
        None,
        "what shmcoll says in the ranks by itself, through logging: from this level on; default info",
    )
    check: bool = _switch(
        "find arrays that change while an asynchronous call uses them, and what is never waited for or received; slows "
        "these calls and sends down"
    )
    share_arrays: bool = _switch(
        "make numpy arrays of 64 KiB and more in the memory that the ranks share, so that collectives copy less"
    )
    mindspore: bool = _switch(
        "`import mindspore` gives shmcoll.mindspore or, if it is installed, MindSpore with our communication"
    )
    mpi: bool = _switch("mpi4py, and what else is linked to MPICH's libmpi, gets its MPI from shmcoll")
    nki: bool = _switch("`import nki` gives shmcoll.nki, also if NKI is installed")
    fresh: bool = _switch("start a new interpreter for each rank instead of forking the launcher")
    command: tuple[str, ...] = ()
    module: bool = False
    msrun: Habits | None = None

    @property
    def asked(self) -> list[str]:
        """Return the packages that a flag asks for."""
        return [name for name in ("mindspore", "mpi", "nki") if getattr(self, name)]

    @property
    def aliases(self) -> list[str]:
        """Return the packages that the program gets from us."""
        return self.asked + (["mindspore"] if self.msrun and not self.mindspore else [])

    @property
    def dumps(self) -> Path | None:
        """The directory in which a failure is kept; None if it is not."""
        if self.dump is not None:
            return None if self.dump == "off" else Path(self.dump)
        return Path(self.log_dir) / "dump" if self.log_dir else None

    @property
    def line_buffered(self) -> bool:
        """Whether Python ranks write line by line, so that lines appear when they are printed, and in order."""
        return self.ranks > 1 or self.tag_output or self.log_dir is not None

    def shows(self, rank: int) -> bool:
        """Return whether the output of a rank that has a log file goes to the screen too."""
        shown = self.msrun.shown if self.msrun else None
        return self.tee and (shown is None or rank in shown)

    def log(self, rank: int) -> Path | None:
        """Return the file for the output of a rank."""
        return (
            Path(self.log_dir) / f"{self.msrun.log_name if self.msrun else 'rank.'}{rank}.log" if self.log_dir else None
        )


def _named(name: str, short: str, metavar: str, read: Any, default: Any, variable: str | None, help: str) -> Setting:
    usual = f"SHMCOLL_{name.upper()}"
    return Setting(name.replace("_", "-"), short, metavar, read, default, usual if variable is None else variable, help)


_SETTINGS = (_named(one.name, *one.metadata["setting"]) for one in fields(Options) if "setting" in one.metadata)
SETTINGS = {setting.name: setting for setting in _SETTINGS}
