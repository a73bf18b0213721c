"""The terminal of a job. Rank 0 reads from it, and changes its settings, as any program of the shell does.

If one of the standard descriptors is the controlling terminal, the launcher and the ranks stay in the shell's session,
each of them in a process group of its own. All ranks but rank 0, and rank 0 with `--stdin none`, give the terminal up,
so it never stops them. The terminal stops rank 0 as soon as it wants to read (SIGTTIN), because the foreground is the
group of `shmrun` itself, the front. The launcher learns that by SIGCHLD:

    the front has the foreground   the launcher joins the group of rank 0, makes it the foreground, and continues it
    another group has it           the job is in the background: ranks and launcher stop, and the front stops its group
                                   by the same signal, for the shell. After `fg` rank 0 reads again, and stops again

Why the launcher joins: signals of the terminal then reach rank 0 and the launcher, which passes them to the other ranks
and to the group of the front, where a script or a pipeline expects them. It leaves the group and gives the foreground
back before it sends rank 0 a signal other than SIGCONT, and when rank 0 has ended. If the launcher is killed, the front
does that when rank 0 has ended, too: the group of a launcher that has ended says whether it had joined.

Nobody waits forever: if no shell can continue the group of the front (it is orphaned), the kernel does not stop it, and
the job gets SIGHUP, as stopped processes of such a group do.

Ctrl-\\ is for the launcher. So rank 0 ignores SIGQUIT from the start if it has the terminal.
"""

import contextlib
import fcntl
import os
import select
import signal
import termios

DYING = 5.0  # seconds that a killed process may take to end, on a busy machine


def controlling() -> int | None:
    """Return which standard descriptor is the controlling terminal of this process."""
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.tcgetpgrp(number)
            return number
    return None


def set_foreground(terminal: int, group: int, instead_of: int) -> None:
    """Make a group the foreground, if another one is."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    with contextlib.suppress(OSError):  # it has hung up
        if os.tcgetpgrp(terminal) == instead_of:
            os.tcsetpgrp(terminal, group)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Terminal:
    """The terminal in the launcher. front: the process group of `shmrun`. reader: the group of the rank that reads."""

    def __init__(self, number: int, reader: int):
        self.front = os.getpgid(os.getppid())
        self.reader = reader
        self.is_lent = False
        self._number = number

    def is_ours(self) -> bool:
        """Return whether the job is in the foreground, or the terminal has hung up."""
        try:
            return os.tcgetpgrp(self._number) in (self.front, self.reader)
        except OSError:
            return True

    def refuses_output(self) -> bool:
        """Return whether it stops a background job that writes (`stty tostop`), and this is one."""
        try:
            return bool(termios.tcgetattr(self._number)[3] & termios.TOSTOP) and not self.is_ours()
        except termios.error:
            return False

    def lend(self) -> None:
        """Give rank 0, which has stopped, the foreground."""
        self.is_lent = True
        os.setpgid(0, self.reader)
        set_foreground(self._number, self.reader, instead_of=self.front)
        os.killpg(self.reader, signal.SIGCONT)

    def take_back(self) -> None:
        """Give the front the foreground, if rank 0 has it."""
        if self.is_lent:
            self.is_lent = False
            set_foreground(self._number, self.front, instead_of=self.reader)
            os.setpgid(0, 0)


def wait_for_end(group: int) -> None:
    """Wait until the leader of a group, which the kernel kills, has ended. A read that sleeps takes what is typed
    before it looks at the signal."""
    with contextlib.suppress(ProcessLookupError):
        end = os.pidfd_open(group)
        select.select([end], [], [], DYING)
        os.close(end)


def give_up(number: int) -> None:
    """Have no controlling terminal any more. Its own process only is concerned."""
    fcntl.ioctl(number, termios.TIOCNOTTY)
