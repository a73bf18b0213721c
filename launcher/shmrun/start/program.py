"""The program to run, which is found before anything is started.

A name that ends in `.py`, `.pyz` or `.zip` is a Python script, and so is a directory with a `__main__.py`; `-m` names a
module; `-c` is followed by code; `-` is a script on the standard input, of which every rank gets a copy. Anything else
is an executable, which is looked up in PATH unless it contains a slash. The interpreter that runs the launcher, before
any of these, changes nothing: `shmrun python script.py` is `shmrun script.py`.

A script that can be read only once, such as `<(command)`, is read here, whatever its name. So is one that is the
standard input, which only rank 0 has: /dev/stdin. Another interpreter would read it in one rank, so that is refused.

Exit codes for a program that cannot be run are those of a shell: 127 not found, 126 found but not executable.
"""

import importlib.util
import os
import re
import stat
import sys
import zipimport
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from shmrun.cli.config_sources import near

_MAIN = "__main__.py"
_SCRIPTS = (".py", ".pyz", ".zip")
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|julia|Rscript|\w*sh)[\d.]*")


class Refused(Exception):
    """The job cannot start: one line for the user that says what to do, and the exit code."""

    def __init__(self, text: str, code: int):
        super().__init__(text)
        self.code = code


class Kind(Enum):
    SCRIPT = "script"
    ONCE = "once"  # a script that has been read here
    FOLDER = "folder"  # or a zip file: with a __main__.py in it
    MODULE = "module"
    CODE = "code"
    EXECUTABLE = "executable"


@dataclass(frozen=True)
class Program:
    """`name` is the script's path as given, the module's name, or the path of the executable; `argv` has it first.

    code: the text, if `name` is `-c` or `-`; for `ONCE` its bytes, decoded with `os.fsdecode`. flags: options of the
    interpreter, if they are not the launcher's. folder: where it runs, if not where the launcher does. variables: those
    of its ranks alone.
    """

    kind: Kind
    name: str
    argv: tuple[str, ...]
    code: str = ""
    flags: tuple[str, ...] = ()
    folder: str = ""
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def python(self) -> bool:
        return self.kind is not Kind.EXECUTABLE

    @property
    def forks(self) -> bool:
        """Whether it can run in a fork of the launcher."""
        return self.python and not self.flags


def find(command: tuple[str, ...], module: bool, ranks: int = 1) -> Program:
    """Return the program that `command` names, for so many ranks. Raises `Refused` when it cannot be run."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise Refused('the current directory has been removed; go to it again, if it is there: cd "$PWD"', 1) from None
    if not module and is_our_interpreter(command[0]) and (len(command) > 1 or not _is_interactive()):
        command = (*command[:1], *(command[1:] or ("-",)))
        if command[1] == "-m" and len(command) > 2:
            return find(command[2:], True, ranks)
        if command[1] == "-" or (command[1] == "-c" and len(command) > 2):
            return _code(command[1:])
        if not command[1].startswith("-"):
            return _script(command[1:])
    name = command[0]
    if module:
        if not _module_exists(name):
            raise Refused(f"no module named {name!r}; is it installed, and are you in the right directory?", 127)
        return Program(Kind.MODULE, name, command)
    if name in ("-", "-c"):
        return _code(command)
    if name.endswith(".ipynb"):
        hint = "call shmcoll.run in it, or make a script of it: jupyter nbconvert --to script"
        raise Refused(f"{name!r} is a notebook; {hint} {name}", 126)
    if name.endswith(_SCRIPTS) or Path(name, _MAIN).is_file() or ("/" in name and _is_read_once(name)):
        return _script(command)
    path = executable(name)
    if ranks > 1 and _INTERPRETER.fullmatch(Path(name).name):
        _refuse_to_share(command[1:] or ("-",))
    return Program(Kind.EXECUTABLE, path, command)


def remark(program: Program) -> str:
    """Return a remark on a program that is another Python than the launcher's, which may have no shmcoll."""
    is_python = program.kind is Kind.EXECUTABLE and re.fullmatch(r"python[\d.]*", Path(program.name).name)
    return f"; it is {program.name}, and the Python of this shmrun is {sys.executable}" if is_python else ""


def _script(command: tuple[str, ...]) -> Program:
    name = command[0]
    if not Path(name).exists():
        folder, looked = Path(name).parent, "" if Path(name).is_absolute() else f"; looked in {Path.cwd()}"
        there = [str(one) for end in _SCRIPTS for one in folder.glob(f"*{end}")]
        raise Refused(f"no such script: {name!r}{looked}{near(str(Path(name)), there)}", 127)
    if not Path(name, _MAIN).is_file():
        _refuse_directory(name)
    if not os.access(name, os.R_OK):
        raise Refused(f"the script {name!r} cannot be read; see its permissions", 126)
    if _is_read_once(name):
        if _is_interactive() and name == "/dev/stdin":
            return _code(("-",))  # which refuses
        try:
            return Program(Kind.ONCE, name, command, os.fsdecode(Path(name).read_bytes()))
        except OSError as e:
            raise Refused(f"the script {name!r} cannot be read: {e.strerror or e}", 126) from e
    return Program(Kind.FOLDER if _has_main(name) else Kind.SCRIPT, name, command)


def _is_interactive() -> bool:
    """Return whether no program can come from the standard input: it is closed, or a terminal."""
    return sys.stdin is None or sys.stdin.isatty()


def _refuse_to_share(words: tuple[str, ...]) -> None:
    """Refuse the first file among the words of an interpreter, its script, if only one rank could read it."""
    script = next((word for word in words if word == "-" or Path(word).exists()), "")
    if script == "-" and not (_is_interactive() or Path("/dev/stdin").samefile(os.devnull)):
        raise Refused("only rank 0 would have the program on the standard input; write it into a file", 2)
    if script and _is_read_once(script):
        raise Refused(f"{script!r} can be read only once, and all ranks would share it; write it into a file", 2)


def _is_read_once(name: str) -> bool:
    """Return whether it is a pipe or a device, or the standard input."""
    try:
        info = Path(name).stat()
        return not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)) or os.path.samestat(info, os.fstat(0))
    except (OSError, ValueError):
        return False


def _has_main(name: str) -> bool:
    """Return whether Python runs a `__main__.py` in it: a directory, or a zip file, whatever its name."""
    try:
        return Path(name).is_dir() or zipimport.zipimporter(name).find_spec("__main__") is not None
    except zipimport.ZipImportError:
        return False


def _code(command: tuple[str, ...]) -> Program:
    if command[0] == "-c":
        return Program(Kind.CODE, "-c", (command[0], *command[2:]), command[1])
    if _is_interactive():
        raise Refused("- is a program on the standard input; redirect it, as in: shmrun -n 2 - < script.py", 2)
    try:
        return Program(Kind.CODE, "-", command, sys.stdin.read())
    except (OSError, ValueError) as e:
        raise Refused(f"the program on the standard input cannot be read: {e}", 126) from e


def is_our_interpreter(name: str) -> bool:
    """Return whether it is the same file in the same directory. Links in virtual environments lead to one file, but are
    not the same interpreter."""
    for path in map(Path, _places(name)):
        if path.is_file() and os.access(path, os.X_OK):
            ours = Path(sys.executable)
            return path.samefile(ours) and path.parent.samefile(ours.parent)
    return False


def _places(name: str) -> list[str]:
    return [name] if "/" in name else [f"{place or '.'}/{name}" for place in os.get_exec_path()]


def executable(name: str) -> str:
    found = [path for path in _places(name) if Path(path).is_file()]
    for path in found:
        if os.access(path, os.X_OK):
            return path
    if found:
        hint = "Rename it to end in .py if it is a Python script, or make it executable"
        raise Refused(f"{found[0]!r} is not executable. {hint}: chmod +x {found[0]}", 126)
    _refuse_directory(name)
    if " " in name and Path(name.split()[0]).is_file():
        raise Refused(
            f"no such program: {name!r}; write its arguments as words of their own, without these quotes", 127
        )
    hints = [f"{name}.py"] if Path(f"{name}.py").is_file() else [f"./{name}"] if Path(name).is_file() else []
    where = "such program" if "/" in name else "such program in PATH"
    raise Refused(f"no {where}: {name!r}" + "".join(f"; did you mean {h}?" for h in hints), 127)


def _refuse_directory(name: str) -> None:
    if Path(name).is_dir():
        raise Refused(f"{name!r} is a directory; name a script in it, or use -m for a package", 126)


def _module_exists(name: str) -> bool:
    """Return whether the top-level package can be found. Its submodules can only be found by importing it."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except ValueError:
        return False
    finally:
        del sys.path[0]
