"""The options: the command line, joined with the environment and with pyproject.toml."""

import shlex
import sys
from typing import Any

from shmrun.cli import command_line, config_sources
from shmrun.cli.config_sources import Found
from shmrun.cli.msrun import habits
from shmrun.cli.printing import printing, tell
from shmrun.cli.settings import SETTINGS, Options, Setting
from shmrun.cli.values import Wrong


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
