"""A signal for a rank that sleeps in a call: not at an instant, which on a busy machine may be before the call."""

import signal
import threading
from typing import Any

from tests.support.waiting import until_asleep


def signal_when_asleep(comm: Any, number: int = signal.SIGALRM) -> None:
    """Send a signal to this thread as soon as this rank sleeps because it waits for another."""
    thread = threading.get_ident()

    def watch() -> None:
        until_asleep(comm)
        signal.pthread_kill(thread, number)

    threading.Thread(target=watch, daemon=True).start()
