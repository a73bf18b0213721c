"""The program of each rank: one for all, or those of the order of a rank whose children the ranks are.

`--mpi` and its kin are for Python programs. With them, two more kinds of command lines count as such, which would be
executables otherwise: the launcher's own interpreter with options, and a script whose first line names it.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from shmcoll.engine.system import interpreter
from shmcoll.engine.system.processes import has_ended
from shmcoll.startup import orders
from shmcoll.startup.orders import Command, Order
from shmrun.cli.settings import Options
from shmrun.start import program
from shmrun.start.program import Program, Refused


def of_ranks(options: Options, order: Order | None) -> tuple[Program, ...]:
    """Return the programs, by rank. Raises `Refused`."""
    if order is None:
        found = _find(options.command, options) if options.asked and not options.module else None
        return (found or program.find(options.command, options.module, options.ranks),) * options.ranks
    return tuple(
        one
        for i, command in enumerate(order.commands)
        for one in (_ordered(command, i, order, options),) * command.ranks
    )


def starter(order: Order | None) -> int | None:
    """Return a descriptor that is ready when the process that has given the order has ended. Raises `Refused`."""
    if order is None:
        return None
    pid, start = order.starter
    with contextlib.suppress(ProcessLookupError):
        fd = os.pidfd_open(pid)
        if not has_ended(pid, start):
            return fd
    raise Refused("the process that has started these has ended", 1)


def _ordered(command: Command, number: int, order: Order, options: Options) -> Program:
    with _within(command):
        name, *rest = command.words
        places = [] if "/" in name else [Path(folder, name) for folder in command.path.split(os.pathsep) if folder]
        words = next((str(place) for place in places if place.is_file()), name), *rest
        found = _find(words, options) or program.find(words, False, options.ranks)
    variables = (orders.PARENT, order.port), (orders.NUMBER, str(number))
    return replace(found, folder=command.folder, variables=variables)


@contextlib.contextmanager
def _within(command: Command) -> Iterator[None]:
    """Look for programs where a command is to run."""
    here = Path.cwd()
    try:
        os.chdir(command.folder or here)
        yield
    except OSError as error:
        raise Refused(f"cannot run {command.words[0]!r} in {command.folder!r}: {error.strerror}", 126) from error
    finally:
        os.chdir(here)


def _find(command: tuple[str, ...], options: Options) -> Program | None:
    """Return the program of a command line that is Python's after all; None for others."""
    first = _first_line(command[0]) if options.asked else []
    if first and program.is_our_interpreter(first[0]):
        command = (*first, program.executable(command[0]), *command[1:])
    elif not program.is_our_interpreter(command[0]):
        return None
    flags, rest = _split(command[1:])
    found = program.find((command[0], *rest), False, options.ranks)
    return replace(found, flags=() if flags == interpreter.flags() else tuple(flags))


def _split(words: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    """Return the options of an interpreter, and what follows them."""
    i = 0
    while i < len(words) and words[i].startswith("-") and words[i] not in ("-", "-m", "-c"):
        i += 1 + (words[i] in ("-W", "-X"))
    return list(words[:i]), words[i:]


def _first_line(name: str) -> list[str]:
    """Return the interpreter, and its options, that the first line of a script names."""
    with contextlib.suppress(OSError, Refused), open(program.executable(name), "rb") as file:
        line = file.readline(256)
        if line.startswith(b"#!"):
            words = os.fsdecode(line[2:]).split()
            return words[1:] if words and Path(words[0]).name == "env" else words
    return []
