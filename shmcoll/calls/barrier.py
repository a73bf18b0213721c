"""barrier: its call."""

from shmcoll.caller import Caller


def barrier(caller: Caller) -> None:
    caller.run("barrier")
