"""The subcommands of shmrun and their flags: one table for the command line, the help and the completion."""

from typing import NamedTuple


class Subcommand(NamedTuple):
    """A subcommand. flags: each with a short description. words: the largest number of other words; None: any
    number."""

    flags: dict[str, str]
    words: int | None = 0


_JSON = {"--json": "print JSON"}
SUBCOMMANDS = {
    "doctor": Subcommand(_JSON),
    "warm": Subcommand({"--all": "the reductions of every dtype as well"}, None),
    "ps": Subcommand(_JSON),
    "inspect": Subcommand(
        {
            "-v": "the last operations as well",
            "--stacks": "the stacks of Python as well",
            "--watch": "again every second until the job ends; --watch=5: every 5 seconds",
            **_JSON,
        },
        1,
    ),
    "verdict": Subcommand({"-v": "the last operations, settings and versions as well", **_JSON}, 1),
}
