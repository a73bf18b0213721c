"""Programs for MPI that go wrong: what they are told, on which rank, and how their job ends."""

import re
import signal
from pathlib import Path

import pytest

from tests.support.launched import Shmrun

pytest.importorskip("mpi4py")

PROGRAMS = Path(__file__).with_name("programs")
BEGIN = "import os, signal, sys, threading, time\nimport numpy as np\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"


def run(shmrun: Shmrun, ranks: int, text: str, *arguments: object, begin: str = BEGIN) -> tuple[int, str, str]:
    done = shmrun("-n", ranks, "--mpi", *arguments, shmrun.write(begin + text))
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("which", "limit"), [([], "20"), (["refused"], "3")])
def test_what_one_rank_does_wrong_in_a_collective_is_told_on_all(shmrun: Shmrun, which: list[str], limit: str) -> None:
    program = PROGRAMS / "wrong_collectives.py"
    done = shmrun("-n", 3, "--mpi", program, *which, env={"SHMCOLL_TIMEOUT": limit})
    assert (done.returncode, done.stdout) == (0, "all right\n" * 3), done.stderr


@pytest.mark.parametrize("which", [[], ["conflicts"]])
def test_mistakes_with_windows_are_told(shmrun: Shmrun, which: list[str]) -> None:
    check = ["--check"] if which else []
    done = shmrun("-n", 3, "--mpi", *check, PROGRAMS / "wrong_epochs.py", *which, env={"SHMCOLL_TIMEOUT": "20"})
    assert (done.returncode, done.stdout) == (0, "all right\n" * 3), done.stderr


OUTSIDE = """
import mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI
world = MPI.COMM_WORLD

def told(call, *arguments):
    try:
        call(*arguments)
    except MPI.Exception as error:
        print(error.Get_error_class() == MPI.ERR_OTHER, error, flush=True)

for call in (world.Get_rank, world.Barrier, MPI.Finalize):
    told(call)
MPI.INT.Create_contiguous(3).Free()
MPI.Init()
told(MPI.Init)
world.Barrier()
MPI.Finalize()
assert MPI.Is_initialized() and MPI.Is_finalized()
for call in (world.Get_rank, world.Barrier, MPI.COMM_SELF.Barrier, MPI.Init):
    told(call)
"""


def test_calls_before_the_beginning_and_after_the_end(shmrun: Shmrun) -> None:
    code, out, err = run(shmrun, 1, OUTSIDE, begin="")
    before, after = "MPI_Init has not been called", "MPI_Finalize has been called"
    told = [
        *(f"MPI_{name}: {before}" for name in ("Comm_rank", "Barrier", "Finalize")),
        "MPI_Init: MPI is initialized already",
        *(f"MPI_{name}: {after}" for name in ("Comm_rank", "Barrier", "Barrier")),
        "MPI_Init: MPI is initialized already",
    ]
    assert (code, out.splitlines(), err) == (0, [f"True {line}" for line in told], "")


LEFT = """
x = np.zeros(4)
if world.rank == 0:
    for tag in range(7):
        world.Send(x, 1, tag)
    kept = world.Dup()
    kept.Probe(1, 3)  # a send of so many bytes begins when a thread gets a core
else:
    request = world.Irecv(x, 0, 6)
    kept = world.Dup()
    long = np.zeros(1 << 20)
    kept.Isend(long, 0, 3)
"""


def test_what_is_left_behind_is_told_at_the_end(shmrun: Shmrun) -> None:
    code, _, err = run(shmrun, 2, LEFT, "--check")
    said = [re.sub(r"\S*/|0x\w+", "", line) for line in err.splitlines()]
    one = "shmcoll: at the end of MPI on rank 1: "
    messages = [
        f"a message was never received: from rank 0 with tag {tag}, 32 bytes, in MPI_COMM_WORLD" for tag in range(5)
    ]
    assert code == 0
    assert [line for line in said if line.startswith(one)] == [
        one + "2 requests were never waited for: job.py:13, job.py:16",
        one + "rank 0 has never received send(dest=0, tag=3) at job.py:16, in communicator ",
        *(one + line for line in messages),
        one + "1 more message was never received, in MPI_COMM_WORLD",
        one + "never freed: 1 communicators",
    ]
    zero = "shmcoll: at the end of MPI on rank 0: a message was never received: from rank 1 with tag 3, 8388608 bytes"
    assert any(line.startswith(zero) for line in said)
    sends = "; ".join(f"send(dest=1, tag={tag}) at job.py:9" for tag in range(6))
    zero = f"shmcoll: at the end of MPI on rank 0: rank 1 has never received {sends}, in MPI_COMM_WORLD"
    assert zero in said


FREED = """
from shmcoll.mpi.objects import communicators
x, comm = np.zeros(4), world.Dup()
if world.rank == 0:
    request = comm.Irecv(x, 1, 1)
    comm.Free()
    world.send(None, 1)
    request.Wait()
    assert x.tolist() == [7.0] * 4
else:
    world.recv(source=0)
    comm.Issend(np.full(4, 7.0), 0, 1).Free()
    comm.Free()
world.Barrier()
for _ in range(50):
    own = MPI.COMM_SELF.Dup()
    request = own.Issend(np.ones(4), 0)
    own.Recv(x, 0)
    request.Free()
    own.Free()
assert not communicators._freed
print("all right")
"""


def test_a_communicator_is_there_until_its_calls_have_ended(shmrun: Shmrun) -> None:
    assert run(shmrun, 2, FREED) == (0, "all right\nall right\n", "")


NO_MEMORY = """
import shmcoll
from shmcoll.mpi.process import PROCESS
kept, own = [], world.group.Incl([world.rank])
while world.rank == 1:
    try:
        kept.append(PROCESS.world.native.empty(1 << 18, np.uint8))
    except shmcoll.ArenaError:
        break
while kept:  # until there is room for one group of one rank
    del kept[:1]
    try:
        MPI.COMM_SELF.Dup().Free()
        break
    except MPI.Exception:
        pass
world.Barrier()
for make in (lambda: world.Split(world.rank), lambda: world.Create(own)):
    try:
        make()
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_NO_MEM, error
    else:
        print("made")
total = np.zeros(1)
world.Allreduce(np.ones(1), total)
assert total[0] == 2
print("all right")
"""


def test_without_memory_for_one_group_none_is_made(shmrun: Shmrun) -> None:
    code, out, err = run(shmrun, 2, NO_MEMORY, "--heap", "16M")
    assert (code, out) == (0, "all right\n" * 2), err


#: what a program of 2 ranks does, the exit code of its job, and what is in its output
ENDS = {
    "abort": (
        "if world.rank == 1: world.Abort(7)\nworld.Barrier()",
        7,
        "rank 1 aborted: MPI_Abort(7) on MPI_COMM_WORLD",
    ),
    "uncaught": (
        "world.Bcast(np.zeros(300), root=9 * world.rank)",
        1,
        "broadcast #1 on rank 0: rank 1 raised Exception: MPI_Bcast: root 9 is not in MPI_COMM_WORLD of 2 ranks",
    ),
    "fatal": (
        "world.Set_errhandler(MPI.ERRORS_ARE_FATAL)\nif world.rank == 1: world.Send(np.zeros(1), 17)\nworld.Barrier()",
        6,
        "rank 1 aborted: MPI_Send: rank 17 is not in MPI_COMM_WORLD of 2 ranks",
    ),
    "exit": ("world.Barrier()\nsys.exit(3 * world.rank)", 3, "rank 1 failed first, with exit code 3"),
    "vanished": ("world.Barrier()\nif world.rank == 1: os._exit(0)", 0, "rank 1 left the job without taking part"),
    "unfinished": ("import mpi4py\nmpi4py.rc.finalize = False\nprint(world.allreduce(1))", 0, "2\n2\n"),
}


@pytest.mark.parametrize("name", [pytest.param(one, marks=[] if one == "abort" else pytest.mark.slow) for one in ENDS])
def test_the_end_of_a_job(shmrun: Shmrun, name: str) -> None:
    text, code, said = ENDS[name]
    found, out, err = run(shmrun, 2, text)
    assert found == code and said in out + err, (found, out, err)
    assert "Exception ignored" not in err


THREADS = """
other = 1 - world.rank
comms = [world.Dup() for _ in range(2)]
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE

def exchange(i):
    for k in range(100):
        x, y = np.full(3, 100 * k + i), np.zeros(3, int)
        world.Sendrecv(x, other, i, y, other, i)
        assert (y == x).all() and world.sendrecv(k, other, 10 + i, source=other, recvtag=10 + i) == k
    done.append(i)

def reduce(i):
    for k in range(100):
        assert comms[i].allreduce(k) == 2 * k
        comms[i].Barrier()
    done.append(i)

done = []
threads = [threading.Thread(target=f, args=(i,)) for i in range(2) for f in (exchange, reduce)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(done) == 4

child = os.fork()
if child == 0:
    for call in (world.Barrier, lambda: world.send(1, 0), lambda: world.Split(0), lambda: world.Isend(b"x", other)):
        try:
            call()
        except MPI.Exception as error:
            assert "this process was forked by rank" in str(error) and error.Get_error_class() == MPI.ERR_OTHER, error
        else:
            print("a child may call")
    sys.exit(5)
assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 5
assert world.allreduce(1) == 2
print("all right")
"""


def test_threads_and_forks(shmrun: Shmrun) -> None:
    code, out, err = run(shmrun, 2, THREADS)
    assert (code, out) == (0, "all right\nall right\n"), err


HANDED_OVER = """
from shmcoll.mpi.objects import native_requests
inside, ended, make = threading.Event(), threading.Event(), native_requests._message

def slowly(words):
    inside.set()
    ended.wait(0.3)  # it ends only by a mistake
    return make(words)

native_requests._message = slowly
x = np.zeros(3)
if world.rank == 0:
    for tag in (5, 6):
        world.Send(np.full(3, float(tag)), 1, tag)
else:
    world.Mprobe(0, 5).Recv(x)  # native code makes only later calls
    message = world.Mprobe(0, 6)
    thread = threading.Thread(target=world.Get_name)  # it makes objects of what native code keeps
    thread.start()
    assert inside.wait(30)
    try:
        message.Recv(x)
    finally:
        ended.set()
    thread.join()
    assert x.tolist() == [6.0] * 3
print("all right")
"""


def test_a_message_that_another_thread_makes_an_object_of(shmrun: Shmrun) -> None:
    code, out, err = run(shmrun, 2, HANDED_OVER)
    assert (code, out) == (0, "all right\n" * 2), err


INTERRUPTED = """
TURNS = 100
comm, caught, begin = MPI.COMM_SELF.Dup(), threading.Event(), threading.Event()

def interrupt():
    begin.wait()
    for turn in range(TURNS):
        time.sleep(turn % 7 * 1e-4)
        caught.clear()
        os.kill(os.getpid(), signal.SIGINT)
        if not caught.wait(30):
            os._exit(9)

threading.Thread(target=interrupt).start()
turns = 0
while turns < TURNS:
    try:
        begin.set()
        while True:
            comm.Send(b"", MPI.PROC_NULL)
            comm.Set_name("a name")
    except KeyboardInterrupt:
        turns += 1
        caught.set()
print("all right")
"""

#: what rank 0 is in when Ctrl-C comes
WAITS = [
    "world.Barrier()",
    "world.recv(source=1)",
    "world.Recv(np.zeros(1), MPI.ANY_SOURCE)",
    "world.Allreduce(np.zeros(1), np.zeros(1))",
]
WAITING = """
if world.rank == 1:
    signal.pause()  # it does not end before rank 0 because rank 0 does
world.send(None, 1, 9)
threading.Timer(0.3, os.kill, (os.getpid(), signal.{signal})).start()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
try:
    {wait}
except (KeyboardInterrupt, SystemExit) as error:
    print("reached", type(error).__name__, flush=True)
    raise
"""


def test_no_interrupt_is_lost(shmrun: Shmrun) -> None:
    assert run(shmrun, 1, INTERRUPTED) == (0, "all right\n", "")


#: a signal comes when a function of MPI is made, because it is called for the first time
MADE = """
from shmcoll.mpi.objects.functions import MAKERS

def interrupted(number, name, call):
    def make():
        MAKERS[name] = maker
        signal.raise_signal(number)
    maker, MAKERS[name] = MAKERS[name], make
    call()

try:
    interrupted(signal.SIGINT, "MPI_Comm_set_name", lambda: world.Set_name("a name"))
except KeyboardInterrupt:
    print("reached", flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
interrupted(signal.SIGTERM, "MPI_Comm_set_info", lambda: world.Set_info(MPI.INFO_NULL))
"""


def test_an_exit_is_not_lost_where_a_function_is_called_for_the_first_time(shmrun: Shmrun) -> None:
    code, out, err = run(shmrun, 1, MADE)
    assert (code, out) == (5, "reached\n") and "ignored" not in err, (code, out, err)


@pytest.mark.parametrize(
    "wait", WAITS[1:2] + [pytest.param(one, marks=pytest.mark.slow) for one in WAITS if one != WAITS[1]]
)
def test_an_interrupt_reaches_a_program_that_waits(shmrun: Shmrun, wait: str) -> None:
    code, out, err = run(shmrun, 2, WAITING.format(wait=wait, signal="SIGINT"))
    assert code == 128 + signal.SIGINT and "reached KeyboardInterrupt" in out, (code, out, err)


@pytest.mark.slow
def test_an_exit_from_a_signal_handler_has_its_code(shmrun: Shmrun) -> None:
    code, out, err = run(shmrun, 2, WAITING.format(wait=WAITS[2], signal="SIGTERM"))
    assert code == 5 and "reached SystemExit" in out, (code, out, err)


def test_a_receive_and_a_barrier_that_wait_for_one_another_are_told(shmrun: Shmrun) -> None:
    """Messages and collectives have groups of their own."""
    text = """
try:
    world.Barrier() if world.rank else world.Recv(np.zeros(1), 1)
except MPI.Exception as error:
    print(error, flush=True)
"""
    code, out, err = run(shmrun, 2, text, "--wait-timeout", 1)
    assert "Ranks 0, 1 wait for one another" in out and "recv(source=1" in out and "barrier() #1" in out, (
        code,
        out,
        err,
    )
    # the lines of both, unless the job ends because of one before the time of the other has passed
    assert any(f"on rank {rank} at job.py:7" in out for rank in (0, 1)), out


@pytest.mark.slow
def test_survivors_go_on(shmrun: Shmrun) -> None:
    done = shmrun("-n", 3, "--on-failure", "continue", "--mpi", PROGRAMS / "survivors.py")
    assert done.stdout == "all right\n" * 2, done.stderr
