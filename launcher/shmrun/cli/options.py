"""The options: the command line, joined with the environment and with pyproject.toml."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shmcoll.startup import defaults
from shmrun.cli import command_line, config_sources
from shmrun.cli.config_sources import Found
from shmrun.cli.msrun import Habits, habits
from shmrun.cli.printing import printing, tell
from shmrun.cli.settings import SETTINGS, Setting
from shmrun.cli.values import Wrong


@dataclass(frozen=True)
class Options:
    """The options of a job. Times are in seconds."""

    ranks: int
    command: tuple[str, ...]  # the program, or the name of a module, and its arguments
    module: bool
    tag_output: bool
    timeout: float | None
    wait_timeout: float
    fresh: bool
    grace: float
    log_dir: str | None = None
    tee: bool = False
    bind_to: str = "none"
    env: tuple[tuple[str, str], ...] = ()
    on_failure: str = "stop"
    stdin: str = "rank0"
    stall_warning: float | None = defaults.STALL_WARNING  # None: off
    report: bool = False
    report_json: str | None = None
    heap: int | None = None  # bytes
    check: bool = False
    share_arrays: bool = False
    mindspore: bool = False
    nki: bool = False
    msrun: Habits | None = None  # if the command line is msrun's

    @property
    def aliases(self) -> tuple[list[str], list[str]]:
        """Return the packages that ours replace: always, and where they are not installed."""
        always = [name for name in ("mindspore", "nki") if getattr(self, name)]
        return always, ["mindspore"] if self.msrun and not self.mindspore else []

    @property
    def line_buffered(self) -> bool:
        """Whether Python ranks write line by line, so that lines come when they are printed, and in order."""
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


def parse(arguments: list[str]) -> Options:
    """Read the command line. Reports what is ignored. For a mistake, prints one line and exits with 2."""
    line = command_line.ParsedCommand()
    try:
        command_line.read(arguments, line)
        if line.asked:
            sys.exit(printing("shmrun", lambda: _answer(line.asked, line.shell)))
        return _joined(line)
    except Wrong as e:
        line.remarks.append(f"{e} (see shmrun --help)")
        sys.exit(2)
    finally:
        for remark in line.remarks:
            tell(f"shmrun: {remark}")


def _meant(command: list[str]) -> str:
    """Return the command line that was perhaps meant by one without a number of ranks."""
    from shmrun.cli import help

    if not command or (likely := config_sources.near(command[0], help.SUBCOMMANDS)):
        return f"-n 4 script.py{likely if command else ''}"
    if command[0].isdecimal() and command[1:]:
        return f"-n {shlex.join(command)}"
    for i, word in enumerate(command[1:-1], 1):
        if word in ("-n", "-np") and command[i + 1].isdecimal():
            rest = [*command[:i], *command[i + 2 :]]
            return f"-n {command[i + 1]} {shlex.join(rest)}; options of shmrun come before the program"
    return f"-n 4 {shlex.join(command)}"


def _answer(asked: str, shell: str) -> int:
    if asked == "version":
        from shmcoll import __version__

        print(f"shmrun {__version__}")
    elif asked == "completion":
        from shmrun.cli import completion

        try:
            print(completion.script(shell, "shmrun", completion.shmrun()), end="")
        except Wrong as e:
            raise Wrong(f"--completion: {e}") from e
    else:
        from shmrun.cli import help

        print(help.text(), end="")
    return 0


def _joined(line: command_line.ParsedCommand) -> Options:
    """Join the sources: command line before environment before pyproject.toml before default. Variables for the ranks
    add up."""
    places = [
        {name: Found([text for text, _ in given], given[-1][1]) for name, given in line.given.items()},
        config_sources.environment(line.remarks),
        config_sources.project(line.remarks),
    ]
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        given = [place[name] for place in places if name in place]
        found[name.replace("-", "_")] = _variables(given) if name == "env" else _value(setting, given)
    _refuse_contradiction(line)
    if line.msrun:
        found |= habits(line.msrun, found)
    if found["ranks"] is None:
        raise Wrong(f"how many ranks? Give -n, as in: shmrun {_meant(line.command)}")
    if not line.command:
        raise Wrong("what shall the ranks run? Give a program last, as in: shmrun -n 4 script.py")
    if found["tee"] and not found["log_dir"]:
        line.remarks.append("--tee without --log-dir has no files to write to")
    return Options(command=tuple(line.command), module=line.module, **found)


def _value(setting: Setting, given: list[Found]) -> Any:
    if not given:
        return setting.default
    try:
        return setting.read(given[0].texts[-1])
    except Wrong as e:
        raise Wrong(f"{given[0].where}: {e}") from e


def _variables(given: list[Found]) -> tuple[tuple[str, str], ...]:
    """Return the variables from all sources. For the same name the last one of the first source counts."""
    variables: dict[str, str] = {}
    for found in reversed(given):
        for text in found.texts:
            try:
                variables.update([SETTINGS["env"].read(text)])
            except Wrong as e:
                raise Wrong(f"{found.where}: {e}") from e
    return tuple(variables.items())


def _refuse_contradiction(line: command_line.ParsedCommand) -> None:
    """Refuse `--worker_num 8 --local_worker_num 4`, which is a job on two machines."""
    given = line.given.get("ranks", [])
    for text, flag in given[:-1]:
        last, last_flag = given[-1]
        if text != last and flag != last_flag:
            raise Wrong(f"{flag} {text} and {last_flag} {last} contradict each other; all ranks run on this machine")
