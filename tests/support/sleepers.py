"""A signal for a rank that sleeps in a call: not at an instant, which on a busy machine may be before the call."""

import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.waiting import until, until_asleep


def signal_when_asleep(comm: Any, number: int = signal.SIGALRM) -> None:
    """Send a signal to this thread as soon as it sleeps, and this rank waits for another."""
    thread, native = threading.get_ident(), threading.get_native_id()
    places: list[object] = [None]

    def stays() -> bool:
        """Whether it is where it was, asleep, although it could have the GIL since: another thread of the rank may be
        the one that waits for a peer."""
        places.append(place_asleep(thread, native))
        return places[-1] is not None and places[-1] == places[-2]

    def watch() -> None:
        until_asleep(comm)
        until(stays, "the thread does not sleep")
        signal.pthread_kill(thread, number)

    threading.Thread(target=watch, daemon=True).start()


def place_asleep(thread: int, native: int) -> object:
    """Return where a thread sleeps; None if it runs, or has not left `signal_when_asleep`."""
    innermost = sys._current_frames()[thread]
    frame: FrameType | None = innermost
    while frame is not None:
        if frame.f_code.co_filename == __file__:
            return None
        frame = frame.f_back
    state = Path(f"/proc/self/task/{native}/stat").read_text().rpartition(")")[2].split()[0]
    return (innermost, innermost.f_lasti) if state == "S" else None
