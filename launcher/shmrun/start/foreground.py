"""The process that was started as `shmrun`. It forks the launcher, which has a session of its own, and stands for it.

All ranks are in the launcher's session. So what is typed at a terminal reaches this process alone, and no rank is
stopped for reading from a terminal. A session for each rank would do that, too, but Linux shares cores out among
sessions first (autogroups): a rank that yields its core would yield it to nobody, and an all_reduce of 64 ranks on 2
cores takes ten times as long.

It passes signals on, and ends as the launcher does. If it is killed, the kernel kills the launcher.

It stops only after Ctrl-Z (SIGTSTP), when the launcher has stopped the ranks and itself. When somebody stops the
launcher by its own pid, this process runs on: nobody would wake it again. After Ctrl-Z the launcher wakes it, whoever
has continued the launcher (`shmrun/watch/supervise.py`).
"""

import os
import signal
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT)


def stand() -> int | None:
    """Fork the launcher. Returns None in it, and in this process, at its end, the exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some parents leave it, it would take exit codes away
    watched = {signum for signum in FORWARDED if signal.getsignal(signum) is not signal.SIG_IGN} | {signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
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
        signum = signal.sigwait(watched)
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
    """End as the launcher has ended: by a signal."""
    if signum != signal.SIGKILL:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    os.kill(os.getpid(), signum)
