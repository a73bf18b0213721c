"""barrier: its call."""

from shmcoll.runtime.dispatcher import Dispatcher


def barrier(dispatcher: Dispatcher) -> None:
    dispatcher.run("barrier")
