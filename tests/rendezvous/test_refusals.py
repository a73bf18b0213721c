"""Where there is no memory to meet in, all ranks learn so at once, in the same numbers, and nothing stays."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shmcoll.startup import arena_names, rendezvous_errors
from tests.support.patience import PATIENCE
from tests.support.small_memory import amounts, in_small_memory, with_little_memory
from tests.support.waiting import until

pytestmark = pytest.mark.slow

Start = Callable[..., "subprocess.Popen[str]"]

#: starts ranks in the given order, a moment apart; tells what each wrote last, and after how many seconds all had ended
IN_ORDER = """
import json, subprocess, sys, time

ranks = {}
for rank in sys.argv[3:]:
    ranks[rank] = subprocess.Popen([sys.executable, sys.argv[1], rank, sys.argv[2], "small"], stderr=subprocess.PIPE)
    time.sleep(0.2)
begun = time.monotonic()
told = {rank: process.communicate()[1].decode().splitlines()[-1] for rank, process in ranks.items()}
print(json.dumps([time.monotonic() - begun, told]))
"""


def lines(job: str) -> int:
    """How many sockets have the address at which rank 0 of a job tells why it has failed: one, and one for each that
    has asked and has not been told yet."""
    return Path("/proc/net/unix").read_text().count(f"@{arena_names.of_job(f'explicit:{job}')}")


@pytest.fixture
def refused(start: Start, tmp_path: Path, environment) -> Start:
    """Start rank 0 of 3 of a job where there is no memory for it."""
    little = with_little_memory(tmp_path, PYTHONPATH=environment["PYTHONPATH"])
    return lambda job, **more: start(0, 3, job, **little, **more)


@pytest.mark.timing
@pytest.mark.parametrize("order", ["102", *(pytest.param(o, marks=pytest.mark.stress) for o in ("012", "210"))])
def test_every_rank_tells_how_much_is_missing(tmp_path: Path, script: Path, environment, order: str) -> None:
    """There is no memfd under a name: the arena needs room in /dev/shm."""
    driver = tmp_path / "in_order.py"
    driver.write_text(IN_ORDER)
    command = [sys.executable, str(driver), str(script), "3", *order]
    done = in_small_memory(tmp_path, 1, command, **environment)
    assert done.returncode == 0, done.stderr
    seconds, told = json.loads(done.stdout)
    assert seconds < rendezvous_errors.TELLING  # which rank 0 would wait for a rank; they would wait 30 for a rank 0
    needed, available = amounts(told["0"])
    assert needed > 1 >= available
    for rank, text in told.items():
        assert "ArenaError: " in text
        assert amounts(text) == (needed, available)
        assert rank == "0" or f"rank {rank}: rank 0 of job 'explicit:small' could not make the arena: " in text


def test_a_rank_0_that_nobody_asks_goes_on(refused: Start) -> None:
    process = refused("unasked", SHMCOLL_JOIN_TIMEOUT="0.3")
    _, err = process.communicate(timeout=PATIENCE)
    assert "ArenaError: too little shared memory for the arena of 3 ranks" in err.splitlines()[-1]


def test_a_setting_that_is_none_is_told_too(start: Start) -> None:
    processes = [start(rank, 2, "setting", SHMCOLL_HEAP="plenty") for rank in (0, 1)]
    told = [process.communicate(timeout=PATIENCE)[1].splitlines()[-1] for process in processes]
    assert told[0].startswith("ValueError: SHMCOLL_HEAP='plenty' is not an amount of memory")
    assert told[1].endswith(told[0].removeprefix("ValueError: "))


def test_rank_0_is_killed_while_it_tells(start: Start, refused: Start) -> None:
    """Who was told knows; a rank that comes later finds no rank 0; the next job works."""
    telling = refused("killed")
    until(lambda: lines("killed"))
    told = start(1, 3, "killed")
    assert "could not make the arena" in told.communicate(timeout=PATIENCE)[1]
    telling.kill()
    telling.wait()
    assert not lines("killed")
    _, err = start(2, 3, "killed", SHMCOLL_JOIN_TIMEOUT="0.3").communicate(timeout=PATIENCE)
    assert "rank 2 has not found rank 0" in err
    again = [start(rank, 2, "killed") for rank in (0, 1)]
    assert all(process.communicate(timeout=PATIENCE)[0] for process in again)


@pytest.mark.stress
@pytest.mark.parametrize("then", [signal.SIGKILL, signal.SIGCONT])
def test_rank_0_is_stopped_while_it_tells(start: Start, refused: Start, then: signal.Signals) -> None:
    """A rank that has asked, and has no answer, looks on until its own deadline when rank 0 dies; else it is told."""
    telling = refused("halted")
    until(lambda: lines("halted"))
    telling.send_signal(signal.SIGSTOP)
    asking = start(1, 3, "halted", SHMCOLL_JOIN_TIMEOUT="1" if then == signal.SIGKILL else "30")
    until(lambda: lines("halted") == 2)
    telling.send_signal(then)
    expected = "could not make the arena" if then == signal.SIGCONT else "has not found rank 0"
    assert expected in asking.communicate(timeout=PATIENCE)[1]


def test_a_rank_0_that_is_never_let_go_on_keeps_nobody(start: Start, refused: Start) -> None:
    telling = refused("locked")
    until(lambda: lines("locked"))
    telling.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    _, err = start(1, 3, "locked", SHMCOLL_JOIN_TIMEOUT="0.5").communicate(timeout=PATIENCE)
    assert "has not found rank 0" in err
    assert time.monotonic() - begun < 20  # and not until the usual limit of joining, 60 s


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_somebody_else_says_is_not_believed(start: Start) -> None:
    stranger = (
        "import os, socket, sys\n"
        "os.setuid(65534)\n"
        "listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "listener.bind(b'\\0' + sys.argv[1].encode())\n"
        "listener.listen()\n"
        "while True: listener.accept()[0].send(b'[\"no\", 1, 0]')\n"
    )
    name = arena_names.new("explicit:strange")
    liar = subprocess.Popen([sys.executable, "-c", stranger, name])
    try:
        until(lambda: lines("strange"))
        _, err = start(1, 2, "strange", SHMCOLL_JOIN_TIMEOUT="0.3").communicate(timeout=PATIENCE)
        assert "has not found rank 0" in err
    finally:
        liar.kill()
        liar.wait()
