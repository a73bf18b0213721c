"""Processes that a rank starts, as a job of their own: `shmrun` starts and watches them, as it does for a shell.

    rank          opens a port; starts `shmrun` with an `Order` in the environment (`orders.py`); accepts at the port
    shmrun        takes the order out of the environment, and watches the rank that has given it
    each child    finds the name of the port in PARENT; all connect to it when they join their job (`beside.py`)

The rank looks whether shmrun runs while it accepts. shmrun connects to the port itself if it refuses the order, and
says why. If the rank ends, in whatever way, shmrun ends the children. A rank that ends as it should waits for them
first, so that the end of a job is the end of all that it has started. What the children print goes where the rank
prints to.
"""

import os
import subprocess
from collections.abc import Sequence

from shmcoll.engine.system import interpreter
from shmcoll.engine.system.processes import process_start
from shmcoll.startup import beside, ports
from shmcoll.startup.exits import describe
from shmcoll.startup.orders import ORDER, Command, Order

#: what is of the rank's job alone
_NOT_INHERITED = (
    *("MASTER_ADDR", "MASTER_PORT", "SHMCOLL_LOG_DIR", "SHMCOLL_TEE", "SHMCOLL_REPORT", "SHMCOLL_REPORT_JSON"),
    *("SHMCOLL_JOB_TIMEOUT", "SHMCOLL_STDIN", "SHMCOLL_FRESH"),
)


class Children:
    """The children of one order."""

    def __init__(self, commands: Sequence[Command], port: ports.Port, flags: Sequence[str]):
        """Start them. flags: of shmrun. Raises `OSError`."""
        me = os.getpid()
        ordered = Order(port.name, (me, process_start(me)), commands)
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        line = [interpreter.python(), *interpreter.flags(), "-m", "shmrun", "-n", str(sum(c.ranks for c in commands))]
        self._process = subprocess.Popen(
            [*line, *flags, "--stdin", "none", *commands[0].words],
            env={**environment, ORDER: ordered.in_words()},
            stdin=subprocess.DEVNULL,
        )
        self._has_ended = False
        _started[:] = [one for one in _started if one[0] == me and one[1].poll() is None]
        _started.append((me, self._process))

    def look(self) -> None:
        """Raise `beside.NotMet` if they have ended."""
        status = self._process.poll()
        if status is not None and self._has_ended:  # looked at twice: its last words may still wait at the port
            raise beside.NotMet(f"the processes have ended before all of them had joined: shmrun {describe(status)}")
        self._has_ended = status is not None

    def end(self) -> None:
        """End them."""
        self._process.terminate()


_started: list[tuple[int, subprocess.Popen[bytes]]] = []  # by which process


def wait_for_all() -> None:
    """Wait until all children of this process have ended."""
    for starter, process in _started:
        if starter == os.getpid():
            process.wait()
