"""The process that was started as `shmrun`. It forks the launcher, which has a session of its own, and represents it.

All ranks are in the launcher's session. So the signals of a terminal reach only this process, and no rank is stopped
for reading from a terminal. A session for each rank would do that, too, but Linux divides cores among sessions first
(autogroups). A rank that yields its core would then yield it to no other rank, and an all_reduce of 64 ranks on 2 cores
would take ten times as long.

It passes signals on, and ends as the launcher does. If it is killed, the kernel kills the launcher.

A shell that starts a command with `&` in a script has it ignore SIGINT and SIGQUIT, so that what is typed at the
terminal does not reach it. shmrun still passes them on if a process has sent them (`kill -INT`); only what comes from
the terminal is dropped. The ranks start with the usual action of both signals. Other signals that are ignored stay so
(nohup).

It stops only after Ctrl-Z (SIGTSTP), when the launcher has stopped the ranks and itself. If a user stops the launcher
by its own pid, this process runs on, because nothing would wake it again. After Ctrl-Z the launcher wakes it when it
has been continued itself (`shmrun/watch/supervise.py`).
"""

import os
import signal
import sys

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
    for signum, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signum in ignored:
            signal.signal(signum, usual)
    front = os.getpid()
    try:
        launcher = os.fork()
    except OSError as e:
        print(f"shmrun: cannot start the launcher: {e}. Raise the limit of processes (ulimit -u).", file=sys.stderr)
        return 1
    if launcher == 0:
        os.setsid()
        from shmcoll.startup import rank_process

        rank_process.die_with(front)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
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
        changed = os.waitid(os.P_PID, launcher, os.WEXITED | os.WSTOPPED | os.WNOHANG)
        if changed is None:
            continue
        if changed.si_code == os.CLD_STOPPED:
            if stopping:
                stopping = False
                os.kill(front, signal.SIGSTOP)
        elif changed.si_code == os.CLD_EXITED:
            return changed.si_status
        else:
            _die_by(changed.si_status)


def _die_by(signum: int) -> None:
    """End by the same signal as the launcher."""
    if signum != signal.SIGKILL:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    os.kill(os.getpid(), signum)
