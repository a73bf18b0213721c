"""`python -m shmcoll.runner SOCKET CALLER`: the server, started by `api.py`.

Each calling process has its own server, and one more for each `Ranks` object. It has a single thread, so ranks can be
forked from it. It serves one `Open` at a time and waits for the next. It ends when its caller ends: it watches the
caller's process and the socket whenever it waits. If it is killed itself, the kernel kills the ranks with it. It has a
session of its own, so that Ctrl-C reaches only the caller.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

from shmcoll.engine.system import interpreter, refusals
from shmcoll.runner import protocol
from shmcoll.runner.caller_socket import CallerSocket
from shmcoll.runner.protocol import Open, Over, Stop
from shmcoll.startup import rank_process


def main() -> None:
    try:
        _live()
    except OSError as e:
        if not (reason := refusals.refused(e)):
            raise
        sys.exit(reason)  # for `Server.launch`


def _live() -> None:
    interpreter.begin()
    number, pid = map(int, sys.argv[1:])
    # The thread that started us waits until we have loaded, and we read no message meanwhile.
    rank_process.die_with(pid)
    _forget_the_start()
    caller = CallerSocket(socket.socket(fileno=number), pid)
    poll = select.poll()
    for fd in caller.descriptors():
        poll.register(fd, select.POLLIN)
    with contextlib.suppress(BlockingIOError):  # what is refused is said now, while the caller reads our errors
        poll.poll(0)
        caller.sock.recvmsg(1, 0, socket.MSG_DONTWAIT)
    gc.disable()  # loading leaves little garbage, and looking for it takes 20 ms
    serve = _load(caller)
    gc.freeze()  # so that the collectors of ranks do not touch, and so copy, shared pages
    gc.enable()
    rank_process.outlive_thread()
    caller.send(protocol.READY)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (1, 2):  # from now on errors are sent
        os.dup2(null, standard)
    os.close(null)
    while message := caller.receive({fd for fd, _ in poll.poll()}):
        request, descriptors = message
        if isinstance(request, Open):
            serve(caller, request, descriptors)
        elif isinstance(request, Stop):  # the call is over, or has never come
            caller.send(Over(request.number))


def _forget_the_start() -> None:
    """Forget the state of the process in which the first call happened: it must not influence later calls."""
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.chdir("/")


def _load(caller: CallerSocket) -> Callable[[CallerSocket, Open, list[int]], None]:
    """Load once everything that each rank would otherwise load. Returns the function that serves a request."""
    import cloudpickle  # type: ignore[import-untyped]  # noqa: F401

    from shmcoll.runner import map_worker, supervise  # noqa: F401
    from shmcoll.startup import join

    join.preload(caller.send)
    return supervise.serve


if __name__ == "__main__":
    main()
