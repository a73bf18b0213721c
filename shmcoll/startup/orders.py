"""What a rank orders of `shmrun` when it starts children: see `children.py`. Imports little, because shmrun reads it
first of all."""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

ORDER, PARENT, NUMBER = "SHMCOLL_ORDER", "SHMCOLL_PARENT", "SHMCOLL_PROGRAM_NUMBER"


@dataclass(frozen=True)
class Command:
    """A program and its arguments, for so many ranks. folder: where it runs; empty: where the rank does. path: folders
    in which it is looked for, before those of PATH."""

    words: tuple[str, ...]
    ranks: int
    folder: str = ""
    path: str = ""


@dataclass(frozen=True)
class Order:
    """port: where the rank accepts. starter: pid and start time of the rank."""

    port: str
    starter: tuple[int, int]
    commands: Sequence[Command]

    def in_words(self) -> str:
        """Return it as a variable of the environment."""
        return json.dumps([self.port, self.starter, [asdict(one) for one in self.commands]])

    def refuse(self, text: str) -> None:
        """Tell the rank why nothing can be started."""
        from shmcoll.startup import greeting, ports

        with contextlib.suppress(ports.NoPort):
            greeting.refuse(ports.connect(self.port), text)


def take() -> Order | None:
    """Take the order out of the environment of this process, if there is one. Raises `ValueError` for another text."""
    given = os.environ.pop(ORDER, "")
    if not given:
        return None
    try:
        port, (pid, start), commands = json.loads(given)
        return Order(port, (pid, start), [Command(**{**one, "words": tuple(one["words"])}) for one in commands])
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{ORDER}={given!r} is not what a rank orders; unset it") from None
