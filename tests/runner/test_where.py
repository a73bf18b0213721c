"""`TimeoutError` and `KeyboardInterrupt` show where every rank was: the table of `shmrun --timeout`, with stacks."""

import signal
import time
from typing import Any

import pytest

import shmcoll
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_time_limit(method: str) -> None:
    def half_way() -> None:
        comm = shmcoll.init()
        if comm.rank == 1:
            time.sleep(600)
        comm.barrier()

    with pytest.raises(TimeoutError) as caught:
        shmcoll.run(half_way, 3, timeout=3 if method == "fork" else 12, method=method)
    [note] = caught.value.__notes__
    title, columns, *rows, verdict = note.splitlines()
    assert title == "shmcoll.run: where the ranks were:"
    assert columns.split() == ["rank", "pid", "state", "for", "where", "waits", "for"]
    assert [row.split()[0] for row in rows if not row.startswith("      ")] == ["0", "1", "2"]
    assert sum("in half_way" in row for row in rows) == 3
    assert verdict.startswith("Rank 1 keeps ranks 0, 2 waiting, for ")
    assert "it has not arrived at barrier() #1" in verdict


def test_ranks_that_have_not_joined() -> None:
    with pytest.raises(TimeoutError) as caught:
        shmcoll.run(time.sleep, 2, 600, timeout=0.3)
    assert caught.value.__notes__[0].count("not joined") == 2


SCRIPT = """
    import time, shmcoll

    def half_way():
        comm = shmcoll.init()
        print("running")
        if comm.rank == 1:
            time.sleep(600)
        comm.barrier()

    def call():
        {call}

    try:
        call()
    except KeyboardInterrupt as e:
        print(*e.__notes__, sep="\\n")
"""


@pytest.mark.parametrize("call", ["shmcoll.run(half_way, 2)", "shmcoll.ranks(2).run(half_way)"])
def test_ctrl_c(scripts: Any, call: str) -> None:
    script = scripts.start(SCRIPT.format(call=call))
    for _ in range(2):
        assert script.stdout.readline() == "running\n"
    time.sleep(1.2)  # shorter waits blame nobody
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=PATIENCE)
    assert (err, script.returncode) == ("", 0)
    title, _, *rows, verdict = out.splitlines()
    assert title == f"{call.partition('(')[0]}: where the ranks were:"
    assert sum("in half_way" in row for row in rows) == 2
    assert verdict.startswith("Rank 1 keeps rank 0 waiting, for ")


def test_an_exception_without_hang_has_no_such_note() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        shmcoll.run(divmod, 1, 1, 0, timeout=60)
    assert caught.value.__notes__ == ["raised by rank 0 of shmcoll.run"]
