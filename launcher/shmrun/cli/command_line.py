"""The words of the command line: which are options with their values, and where the program begins.

Options come before the program. An unknown option is named in a warning and ignored. The next word is its value or
already the program. That word decides which:

    --unknown=word     the value
    --unknown WORD     the value if WORD is a number, or one of true, false, yes, no, on, off, none, auto, all, or
                       cannot be run: it does not end in .py and is not an executable, by its path or in PATH
                       the program otherwise, and always if it is the last word of the line
    --                 ends the options: the program follows, whatever its name

`-m MODULE`, `-c CODE` and `-` are programs, as they are for Python.

This is a parser of its own because argparse cannot do that: it refuses unknown options, and it does not know the
options of four other launchers, some of them with one dash and several letters. Importing it would also take several of
the 20 ms in which shmrun starts.
"""

import os
from dataclasses import dataclass, field

from shmrun.cli import msrun, other_launchers
from shmrun.cli.config_sources import near
from shmrun.cli.settings import SETTINGS
from shmrun.cli.values import Wrong

_PLAIN_VALUES = ("true", "false", "yes", "no", "on", "off", "none", "auto", "all")
_TORCHRUN_TEE = set("0123:,")


@dataclass
class ParsedCommand:
    """The words of a command line. given: for each option its texts, with the words of the option. asked: help,
    version, completion (for `shell`), or ''. msrun: the values of the flags that only msrun has.

    remarks: warnings for the user, one line each.
    """

    given: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    msrun: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    module: bool = False
    remarks: list[str] = field(default_factory=list)
    asked: str = ""
    shell: str = ""


def read(arguments: list[str], line: ParsedCommand) -> None:
    """Sort the words into `line`. Raises `Wrong` for a missing value, and for options that need more than one
    machine."""
    rest = list(arguments)
    while rest and not line.asked:
        word = rest[0]
        if not word.startswith("-") or word in ("-", "--"):
            line.command = rest[1:] if word == "--" else rest
            break
        del rest[0]
        if word in ("-m", "--module"):
            line.command, line.module = rest[1:] if rest[:1] == ["--"] else rest, True
            break
        if word == "-c" and rest and not _is_number(rest[0]):  # with a number it is srun's option: cores per task
            line.command = [word, *rest]
            break
        _read_option(word, rest, line)


def _read_option(word: str, rest: list[str], line: ParsedCommand) -> None:
    flag, equals, value = word.partition("=")
    if flag[:2] == "-n" and flag[2:].isdigit():
        flag, equals, value = "-n", "=", flag[2:]
    inline = [value] if equals else []
    name = other_launchers.canonical(flag)
    name = other_launchers.SAME.get(name, name)
    setting = SETTINGS.get(name.removeprefix("no-"))
    if flag in ("-h", "--help", "-V", "--version"):
        line.asked = "version" if "V" in flag or "version" in flag else "help"
    elif flag == "--completion":
        (line.shell,) = _take(flag, 1, inline, rest)
        line.asked = "completion"
    elif setting and setting.switch:
        _note(line, setting.name, flag, _switch_value(name, inline, rest))
    elif name in SETTINGS:
        _note(line, name, flag, *_take(flag, 1, inline, rest))
    elif name in msrun.FLAGS:
        (line.msrun[name],) = _take(flag, 1, inline, rest)
        if name.endswith("worker-num"):
            _note(line, "ranks", flag, line.msrun[name])
    elif name in other_launchers.MEANT:
        try:
            meant = other_launchers.meaning(name, _take(flag, other_launchers.MEANT[name], inline, rest))
        except Wrong as e:
            raise Wrong(f"{flag}: {e}") from e
        if meant:
            _note(line, meant.name, flag, meant.text)
    elif name in other_launchers.NOTHING:
        _take(flag, other_launchers.NOTHING[name], inline, rest)
    elif name in other_launchers.WITHOUT_EFFECT:
        values = _take(flag, other_launchers.WITHOUT_EFFECT[name], inline, rest)
        if values != ["0"]:  # a value without effect, as in --max-restarts 0
            line.remarks.append(f"{' '.join([flag, *values])} has no effect: shmrun has nothing like it")
    else:
        _pass_over(flag, inline, rest, line)


def _note(line: ParsedCommand, name: str, flag: str, text: str) -> None:
    line.given.setdefault(name, []).append((text, flag))


def _take(flag: str, count: int, inline: list[str], rest: list[str]) -> list[str]:
    """Return the values of an option. The value of a switch (`--standalone=1`) is dropped."""
    words = inline[:count]
    while len(words) < count:
        if not rest:
            raise Wrong(f"{flag} needs a value")
        words.append(rest.pop(0))
    return words


def _switch_value(name: str, inline: list[str], rest: list[str]) -> str:
    if name.startswith("no-"):
        return "false"
    if inline:
        return inline[0]
    if name == "tee" and rest and rest[0] and set(rest[0]) <= _TORCHRUN_TEE:
        return "false" if rest.pop(0) == "0" else "true"  # torchrun: the streams, by rank
    return "true"


def _pass_over(flag: str, inline: list[str], rest: list[str], line: ParsedCommand) -> None:
    values = inline
    if not inline and len(rest) > 1 and _is_value(rest[0]):
        values = [rest.pop(0)]
    with_value = f", with its value {values[0]!r}" if values else ""
    likely = near(flag, [f"--{name}" for name in SETTINGS]) or other_launchers.likely(flag, values)
    line.remarks.append(f"unknown option {flag} is ignored{with_value}{likely}")


def _is_value(word: str) -> bool:
    if word in _PLAIN_VALUES or _is_number(word):
        return True
    if word.startswith("-") or word.endswith(".py"):
        return False
    places = [""] if "/" in word else [f"{place or '.'}/" for place in os.get_exec_path()]
    return not any(os.path.isfile(p + word) and os.access(p + word, os.X_OK) for p in places)  # noqa: PTH113


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
