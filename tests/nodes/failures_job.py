"""What each rank of a job that fails runs. Arguments: what happens, folder. A rank that survives writes `rankN.json`:
the error it has raised, its attributes, and after how many seconds."""

import contextlib
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll
from shmcoll.communicator import shared_arrays
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.nodes.mpi.wire import MESSAGE, PAYLOAD, READY
from shmcoll.nodes.point_to_point import unexpected
from tests.support.waiting import until

CULPRIT = 3
LONG = 1 << 19  # elements

_under_way: list[Any] = []  # memory that MPI reads until the end


def killed(comm: Any) -> None:
    if comm.rank == CULPRIT:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(np.ones(4))


def killed_within(comm: Any) -> None:
    """It is killed while the others and it are in the call: rank 0 comes late."""
    if comm.rank == CULPRIT:
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGKILL)).start()
    elif comm.rank == 0:
        time.sleep(30)
    comm.all_reduce(np.ones(4))


def leader_killed(comm: Any) -> None:
    if comm.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(np.ones(4))


def crashes(comm: Any) -> None:
    if comm.rank == CULPRIT:
        ctypes.string_at(0)
    comm.all_reduce(np.ones(4))


def leaves(comm: Any) -> None:
    """The end of a process, with nothing of what comes at the end of a program."""
    if comm.rank == CULPRIT:
        os._exit(3)
    comm.all_reduce(np.ones(4))


def node_killed(comm: Any) -> None:
    if comm.rank in comm.nodes[1]:
        comm.node.barrier()  # all at once: a rank that lives for longer reports the death of the other one
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(np.ones(4))


def node_killed_slowly(comm: Any) -> None:
    """One after the other, within the quarter of a second that Open MPI's mpiexec leaves."""
    if comm.rank in comm.nodes[1]:
        comm.node.barrier()
        time.sleep(0.15 * comm.node.rank)
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(np.ones(4))


def killed_while_others_compute(comm: Any) -> None:
    if comm.rank == CULPRIT:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(30)


def killed_at_last(comm: Any) -> None:
    """It is killed when the others have made their last call."""
    if comm.rank == CULPRIT:
        os.kill(os.getpid(), signal.SIGKILL)


def stopped(comm: Any) -> None:
    comm.timeout = 2.0
    if comm.rank == CULPRIT:
        pid, script = (
            os.getpid(),
            "import os, signal, sys, time; time.sleep(4); os.kill(int(sys.argv[1]), signal.SIGCONT)",
        )
        subprocess.Popen([sys.executable, "-c", script, str(pid)])
        os.kill(pid, signal.SIGSTOP)
    comm.all_reduce(np.ones(4))


def absent(comm: Any) -> None:
    """Ranks that wait for one that is elsewhere: in a collective, in a message, and within their node."""
    folder = Path(sys.argv[2])
    if comm.rank == CULPRIT:
        until((folder / "enough").exists, pause=0.05)
    comm.all_reduce(np.ones(4))
    if comm.rank == 0:
        comm.recv(source=CULPRIT, tag=5)
    elif comm.rank == CULPRIT:
        until((folder / "more").exists, pause=0.05)
        comm.send(np.ones(4), 0, 5)
    elif comm.rank == 1:
        until((folder / "more").exists, pause=0.05)
    if comm.rank > 1:
        comm.node.barrier()


def raises(comm: Any) -> None:
    if comm.rank == CULPRIT:
        raise KeyError("a bad sample")
    comm.all_reduce(np.ones(4))


def interrupted_in_shared(comm: Any) -> None:
    """After the ranks of its node have learned where the result is."""
    if comm.rank == CULPRIT:

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        shared_arrays.commit_part = interrupt
    try:
        comm.all_gather(np.ones(LONG // 4), shared=True)
    finally:
        gc.collect()
        comm._local_rank.heap.give(comm._local_rank.heap.take(1, "a test"))


def exits(comm: Any) -> None:
    """The end of a program that the other ranks do not expect, with no exception to report."""
    if comm.rank == CULPRIT:
        sys.exit(3)
    comm.all_reduce(np.ones(4))


def other_operation(comm: Any) -> None:
    comm.barrier() if comm.rank == CULPRIT else comm.all_reduce(np.ones(4))


def other_shape(comm: Any) -> None:
    comm.all_reduce(np.ones(5 if comm.rank == CULPRIT else 4))


def ends_late(comm: Any) -> None:
    """The ranks of one node have ended when those of the other do."""
    if comm.rank < 2:
        time.sleep(3)


def raises_late(comm: Any) -> None:
    """Rank 0 raises when the ranks of the other node have ended."""
    ends_late(comm)
    if comm.rank == 0:
        raise KeyError("too late")


def late(comm: Any) -> None:
    comm.timeout = 2.0
    if comm.rank == CULPRIT:
        time.sleep(4)
    comm.all_reduce(np.ones(4))


def aborts(comm: Any) -> None:
    if comm.rank == CULPRIT:
        comm.abort("no more data")
    comm.all_reduce(np.ones(4))


def in_message(comm: Any) -> None:
    if comm.rank == CULPRIT:
        comm.abort("no more messages")
    comm.recv(source=CULPRIT)


def late_message(comm: Any) -> None:
    """Rank 2 waits for one that rank 3, of its node, does not send, and is the first whose limit passes."""
    if comm.rank == CULPRIT:
        time.sleep(4)
    elif comm.rank == 2:
        comm.timeout = 2.0
        comm.recv(source=CULPRIT, tag=5)
    comm.all_reduce(np.ones(4))


def circle(comm: Any) -> None:
    """Ranks 2 and 3, of one node, wait for one another."""
    if comm.rank > 1:
        comm.recv(source=5 - comm.rank, tag=5)
    comm.all_reduce(np.ones(4))


def raises_in_messages(comm: Any) -> None:
    """Rank 0 computes. All other ranks wait for messages within their node."""
    if comm.rank == CULPRIT:
        time.sleep(0.3)
        raise KeyError("a bad sample")
    if comm.rank == 0:
        time.sleep(2)
    comm.recv(source=CULPRIT if comm.rank == 2 else 0, tag=5)


def _interrupt_in_a_call() -> None:
    """Interrupt this thread a moment after it has begun a call. On a busy machine that may take a while."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    main, library = threading.get_ident(), str(Path(shmcoll.__file__).parent)

    def is_within() -> bool:
        frames = traceback.walk_stack(sys._current_frames()[main])
        return any(frame.f_code.co_filename.startswith(library) for frame, _ in frames)

    def interrupt() -> None:
        until(is_within, pause=0.01)
        time.sleep(0.3)
        signal.pthread_kill(main, signal.SIGALRM)

    threading.Thread(target=interrupt, daemon=True).start()


def interrupted_in_message(comm: Any) -> None:
    if comm.rank == CULPRIT:
        _interrupt_in_a_call()
        comm.recv(source=2)
    comm.recv(source=comm.nodes[comm.rank // 2][0] if comm.rank % 2 else shmcoll.ANY)


def interrupted_in_bytes(comm: Any) -> None:
    """Rank 3 has the head of a message of rank 1, and waits for its bytes. MPI may write these until the end."""
    if comm.rank == CULPRIT:
        _interrupt_in_a_call()
        comm.recv(np.empty(LONG), 1)
    elif comm.rank == 1:
        head = unexpected.head(0, BY_NUMPY[np.dtype(float)].code, (LONG,), 0)
        _under_way.append((head, comm._dispatcher.channel.isend(head, CULPRIT, MESSAGE)))
        time.sleep(1)
        data = np.zeros(8 * LONG, np.uint8)
        _under_way.append((data, comm._dispatcher.channel.isend(data, CULPRIT, PAYLOAD)))
    comm.recv(source=CULPRIT)


def interrupted_in_head(comm: Any) -> None:
    """Rank 3 has taken a message from MPI, and nobody has it yet."""
    if comm.rank == CULPRIT:

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        comm._dispatcher.far_messages._matching._read_head = interrupt
        while True:
            comm.iprobe(1)
    if comm.rank == 1:
        comm.send(np.ones(1), CULPRIT)
    comm.recv(source=CULPRIT)


def interrupted_in_send(comm: Any) -> None:
    """Rank 3 sends from its array to rank 1, which has said that it is ready, and does not receive the bytes. MPI may
    read them until the end."""
    if comm.rank == 1:  # the number of the first message that asks
        comm._dispatcher.channel.wire.mpi.Request.Waitall(
            comm._dispatcher.channel.isend(np.array([1]).view(np.uint8), CULPRIT, READY)
        )
    comm.barrier()
    if comm.rank == CULPRIT:
        _interrupt_in_a_call()
        comm.send(np.ones(LONG), 1)
    if comm.rank == 1:
        told = Path(sys.argv[2], f"rank{CULPRIT}.json")
        until(told.exists, "the send has not been interrupted")
    comm.recv(source=CULPRIT, tag=1)


def interrupted_while_others_send(comm: Any) -> None:
    """Ranks that only send learn of it, too. Their messages are taken in, and nobody receives them."""
    if comm.rank == CULPRIT:
        _interrupt_in_a_call()
    if comm.rank > 1:
        comm.recv(source=comm.rank - 2, tag=99)
    while True:
        comm.send(np.ones(1), comm.rank + 2)


def interrupted(comm: Any) -> None:
    if comm.rank == CULPRIT:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
    elif comm.rank == 0:
        time.sleep(6)
    comm.barrier()


def bad_argument(comm: Any) -> None:
    """A mistake of one rank, which may call again."""
    if comm.rank == CULPRIT:
        with contextlib.suppress(ValueError):
            comm.all_reduce(np.ones(4), "mean")
    assert (comm.all_reduce(np.ones(4)) == comm.size).all()


CASES: dict[str, Callable[[Any], None]] = {
    one.__name__: one
    for one in (
        killed,
        killed_within,
        leader_killed,
        interrupted_in_shared,
        node_killed,
        node_killed_slowly,
        killed_while_others_compute,
        killed_at_last,
        crashes,
        leaves,
        stopped,
        absent,
        raises,
        exits,
        other_operation,
        other_shape,
        ends_late,
        raises_late,
        late,
        aborts,
        in_message,
        late_message,
        circle,
        raises_in_messages,
        interrupted_in_message,
        interrupted_in_bytes,
        interrupted_in_head,
        interrupted_in_send,
        interrupted_while_others_send,
        interrupted,
        bad_argument,
    )
}


def main() -> None:
    case, folder = sys.argv[1:]
    comm = shmcoll.init()
    for _ in range(2):  # from now on native code makes such calls by itself
        comm.barrier()
        comm.all_reduce(np.ones(4))
    begun = time.monotonic()
    told: dict[str, Any] = {"kind": "", "text": ""}
    try:
        CASES[case](comm)
    except (KeyError, SystemExit):
        raise
    except BaseException as error:
        told = {"kind": type(error).__name__, "text": str(error), "notes": getattr(error, "__notes__", [])}
        for name in ("operation", "rank", "missing"):
            told[name] = getattr(error, name, None)
        if isinstance(error, shmcoll.ShmcollError):
            try:
                comm.barrier()
            except shmcoll.ShmcollError as again:
                told["again"] = type(again).__name__
    told["seconds"] = time.monotonic() - begun
    (Path(folder) / f"rank{comm.rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
