"""A signal for a rank that sleeps in a call: not at an instant, which on a busy machine may be before the call."""

import signal
import threading
from typing import Any

from shmcoll.engine import layout
from tests.support.ranks import mailbox, poll


def signal_when_asleep(comm: Any, number: int = signal.SIGALRM) -> None:
    """Send a signal to this thread as soon as this rank sleeps because it waits for another."""
    arena, place, thread = comm._local_rank.arena, mailbox(comm._local_rank.arena, comm.rank), threading.get_ident()

    def watch() -> None:
        if poll(lambda: arena.load(place + layout.PARKED)):
            signal.pthread_kill(thread, number)

    threading.Thread(target=watch, daemon=True).start()
