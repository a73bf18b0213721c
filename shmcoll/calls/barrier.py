"""barrier: its call."""

from shmcoll.runtime.dispatcher import Caller


def barrier(caller: Caller) -> None:
    caller.run("barrier")
