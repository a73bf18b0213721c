"""The process that was started as `shmrun`: the front. It forks the launcher, and represents it.

The signals of a terminal reach only the front, because launcher and ranks have process groups of their own; `terminal`
says how rank 0 reads from it. Without a terminal, launcher and ranks are in a session of their own. A session for each
rank would not do: Linux divides cores among sessions first (autogroups). A rank that yields its core would then yield
it to no other rank, and an all_reduce of 64 ranks on 2 cores would take ten times as long.

It passes signals on, and ends as the launcher does. If it is killed, the kernel kills the launcher.

A shell that starts a command with `&` in a script has it ignore SIGINT and SIGQUIT, so that what is typed at the
terminal does not reach it. shmrun still passes them on if a process has sent them (`kill -INT`); only what comes from
the terminal is dropped. The ranks start with the usual action of both signals. Other signals that are ignored stay
ignored (nohup).

It stops after Ctrl-Z (SIGTSTP), when the launcher has stopped the ranks and itself, and when the launcher has stopped
by SIGTTIN or SIGTTOU. If a user stops the launcher by its own pid, this process runs on, because nothing would wake it
again. The launcher wakes it when it has been continued itself (`shmrun/watch/supervise.py`).
"""

import errno
import os
import signal

from shmrun.cli.printing import tell
from shmrun.start import terminal

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT)

_OF_TERMINALS = {signal.SIGINT, signal.SIGQUIT}
_SI_KERNEL = 0x80  # the kernel's code for a signal from a terminal


def stand() -> int | None:
    """Fork the launcher. Returns None in the launcher. In this process, returns the exit code when the launcher has
    ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, as some parents leave it, exit codes are lost
    ignored = {signum for signum in FORWARDED if signal.getsignal(signum) is signal.SIG_IGN}
    watched = {*FORWARDED, signal.SIGCHLD} - ignored | _OF_TERMINALS
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    for signum in _OF_TERMINALS & ignored:
        signal.signal(signum, signal.SIG_DFL)
    front, screen = os.getpid(), terminal.controlling()
    try:
        launcher = os.fork()
    except OSError as e:
        if e.errno in (errno.EPERM, errno.ENOSYS):
            raise
        tell(f"shmrun: cannot start the launcher: {e}. Raise the limit of processes (ulimit -u).")
        return 1
    if launcher == 0:
        if screen is None:
            os.setsid()
        else:
            os.setpgid(0, 0)
        from shmcoll.startup import rank_process

        rank_process.die_with(front)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})  # it also writes for rank 0 in the foreground
        return None
    stopping = False
    while True:
        arrived = signal.sigwaitinfo(watched)
        signum = signal.Signals(arrived.si_signo)
        if signum in ignored and arrived.si_code == _SI_KERNEL:
            continue
        if signum != signal.SIGCHLD:
            stopping = signum == signal.SIGTSTP or (stopping and signum != signal.SIGCONT)
            os.kill(launcher, signum)
            continue
        group = os.getpgid(launcher) if screen is not None else launcher
        changed = os.waitid(os.P_PID, launcher, os.WEXITED | os.WSTOPPED | os.WNOHANG)
        if changed is None:
            continue
        if changed.si_code == os.CLD_STOPPED:
            if changed.si_status in (signal.SIGTTIN, signal.SIGTTOU):
                os.killpg(0, changed.si_status)
                if signal.SIGCONT not in signal.sigpending():  # the group is orphaned: nothing has stopped
                    os.kill(launcher, signal.SIGTERM if signal.SIGHUP in ignored else signal.SIGHUP)
                    os.kill(launcher, signal.SIGCONT)
            elif stopping:
                stopping = False
                os.kill(front, signal.SIGSTOP)
            continue
        if screen is not None and group != launcher:
            terminal.wait_for_end(group)
            terminal.set_foreground(screen, os.getpgrp(), instead_of=group)
        if changed.si_code == os.CLD_EXITED:
            return changed.si_status
        _die_by(changed.si_status)


def _die_by(signum: int) -> None:
    """End by the same signal as the launcher."""
    if signum != signal.SIGKILL:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    signal.raise_signal(signum)
