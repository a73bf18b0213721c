"""Starting a module of ours in a process of its own, as `python -m` does.

`sys.executable` need not be an interpreter. In a frozen program (PyInstaller, cx_Freeze), and in a program that embeds
Python, it may be that program itself. Started with `-m`, such a program would begin anew, come to the same call, and
start itself again, without end. Therefore:

    the program calls `freeze_support`   its second start ends there, as the module
    `multiprocessing.set_executable`     names an interpreter, which is started instead
    frozen or embedded, without either   an error, and nothing is started
    any other program that begins anew   finds STARTED in its environment, which our modules remove: an error there
"""

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from shmcoll.errors import ShmcollError

#: the modules that are started this way; each has a function `main`
MODULES = {
    "shmcoll.runner": "shmcoll.runner.__main__",
    "shmcoll.runner.serve_calls": "shmcoll.runner.serve_calls",
    "shmcoll.startup.warm": "shmcoll.startup.warm",
}
STARTED = "SHMCOLL_STARTED"

_has_support = False  # whether `freeze_support` has been called


def freeze_support() -> None:
    """Let `shmcoll.run`, `map` and `ranks` work in a frozen program, such as one made by PyInstaller.

    They start the program again, as a process that starts the ranks. There this function does that work, and ends the
    process. So call it first in the program, after `if __name__ == "__main__":`, as `multiprocessing.freeze_support`.
    In a script it has no effect.

    Example:
        >>> if __name__ == "__main__":
        ...     shmcoll.freeze_support()
    """
    global _has_support
    _has_support = True
    if STARTED in os.environ and "-m" in sys.argv:
        at = sys.argv.index("-m") + 1  # behind options of an interpreter
        module = MODULES[sys.argv[at]]
        del sys.argv[1 : at + 1]
        importlib.import_module(module).main()
        sys.exit()


def command(module: str, *arguments: object) -> list[str]:
    """Return the command line that runs a module of ours, under the options of this interpreter. Raises `ShmcollError`
    if there is no program that would run it."""
    return [(_has_support and sys.executable) or python(), *flags(), "-m", module, *map(str, arguments)]


def flags() -> list[str]:
    """Return the options of this interpreter, those about bytecode included."""
    import subprocess

    found: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    found += ["-B"] * sys.dont_write_bytecode
    return found + (["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else [])


def python() -> str:
    """Return an interpreter that runs what this one can. Raises `ShmcollError` if none is known."""
    found = sys.executable or ""
    # `set_executable` keeps bytes; without it this is `sys.executable`, as it was when multiprocessing was imported
    named = os.fsdecode(spawn.get_executable() or "") if (spawn := sys.modules.get("multiprocessing.spawn")) else ""
    advice = "name a Python interpreter by multiprocessing.set_executable(path)"
    if named not in ("", found):
        found = named
    elif getattr(sys, "frozen", False):
        raise ShmcollError(
            f"{found} is a frozen program, which shmcoll has to start again; call shmcoll.freeze_support() first in "
            f'the program, after `if __name__ == "__main__":`'
        )
    elif STARTED in os.environ:
        raise ShmcollError(f"{found} was started as an interpreter, and has begun its own program again; {advice}")
    elif not sys.orig_argv and found and Path(found).samefile("/proc/self/exe"):
        raise ShmcollError(f"{found} is a program that embeds Python, not an interpreter; {advice}")
    if not os.access(found, os.X_OK):
        raise ShmcollError(f"sys.executable is {found!r}, which cannot be started; {advice}")
    return found


def environment(given: Mapping[str, str], path: list[str]) -> dict[str, str]:
    """Return the variables for `command`. The module calls `begin`."""
    return {**interpreter_environment(given, path), STARTED: "1"}


def begin() -> None:
    """Note, in the new process, that the module runs."""
    os.environ.pop(STARTED, None)


def interpreter_environment(given: Mapping[str, str], path: list[str]) -> dict[str, str]:
    """Return the variables that a new interpreter needs to import what this one can, and nothing from its working
    directory.

    `restore_environment` in the new interpreter undoes this.
    """
    found = os.pathsep.join(folder for folder in path if folder)
    return {**given, "PYTHONPATH": found, "PYTHONSAFEPATH": "1"}


def restore_environment(given: Mapping[str, str]) -> None:
    """Undo `interpreter_environment`."""
    for name in ("PYTHONPATH", "PYTHONSAFEPATH"):
        os.environ.pop(name, None)
        if name in given:
            os.environ[name] = given[name]
