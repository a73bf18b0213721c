"""Completion for bash and zsh, from the parsers of shmbench and its subcommands: `shmbench --completion bash`."""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from shmrun.cli.completion import Command, Flag, script


class Completion(argparse.Action):
    """Print the script for a shell, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, _namespace: Any, shell: Any, _flag: str | None = None) -> None:
        from shmbench.cli.options import SUBCOMMANDS

        subcommands = {name: _command(import_module(f"shmbench.commands.{name}").make_parser()) for name in SUBCOMMANDS}
        print(script(shell, parser.prog, _command(parser, subcommands)), end="")
        parser.exit()


def _command(parser: argparse.ArgumentParser, subcommands: dict[str, Command] | None = None) -> Command:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    flags = [
        Flag(action.option_strings, (action.help or "") % {"prog": parser.prog}, _value(action), _choices(action))
        for action in actions
        if action.option_strings
    ]
    words = [word for action in actions if not action.option_strings for word in _choices(action)]
    return Command(flags, words, subcommands or {})


def _value(action: argparse.Action) -> str:
    return "" if action.nargs == 0 else str(action.metavar or action.dest)


def _choices(action: argparse.Action) -> Sequence[str]:
    """Return the possible values of an option that is one of several; `flags.one_of` keeps them."""
    choices = getattr(action.type, "names", ()) if action.choices is None else action.choices
    return [str(choice) for choice in choices]
