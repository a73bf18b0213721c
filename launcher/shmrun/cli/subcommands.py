"""The subcommands of shmrun: their flags, and which of them a command line means."""

import sys
from typing import NamedTuple

from shmrun.cli.config_sources import near


class Subcommand(NamedTuple):
    """`flags`: each with a few words on what it does. `words`: most of the other words that it takes; None: any
    number."""

    flags: dict[str, str]
    words: int | None = 0


_JSON = {"--json": "print JSON"}
SUBCOMMANDS = {
    "doctor": Subcommand(_JSON),
    "warm": Subcommand({"--all": "the reductions of every dtype as well"}, None),
    "ps": Subcommand(_JSON),
    "inspect": Subcommand(
        {"-v": "the last operations as well", "--stacks": "the stacks of Python as well", **_JSON}, 1
    ),
}


def run(name: str, *arguments: str) -> int:
    """Run a subcommand and return the exit code."""
    from shmrun.cli import help

    if {"-h", "--help"} & set(arguments):
        print(help.SUBCOMMANDS[name], end="")
        return 0
    flags, most = SUBCOMMANDS[name]
    given = set(arguments) & set(flags)
    words = [word for word in arguments if word not in flags]
    if any(word.startswith("-") for word in words) or (most is not None and len(words) > most):
        likely = "".join(near(word, flags) for word in words[:1])
        text = f"shmrun {name} takes no {' '.join(words)}{likely}; to run a program of that name: shmrun -n 2 {name}"
        print(f"shmrun: {text} (see shmrun {name} --help)", file=sys.stderr)
        return 2
    if name == "ps":
        from shmrun.commands import ps

        return ps.show(as_json="--json" in given)
    if name == "inspect":
        from shmrun.commands import inspect

        job = words[0] if words else None
        return inspect.show(job, verbose="-v" in given, stacks="--stacks" in given, as_json="--json" in given)
    if name == "doctor":
        from shmrun.commands import doctor

        return doctor.examine(as_json="--json" in given)
    from shmrun.commands import warm

    return warm.warm(words, everything="--all" in given)
