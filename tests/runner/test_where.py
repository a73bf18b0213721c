"""`TimeoutError` and `KeyboardInterrupt` show where every rank was: the table of `shmrun --timeout`, with stacks."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

import shmcoll
from tests.support.patience import PATIENCE
from tests.support.waiting import until

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


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ranks_that_never_join_show_their_stacks(method: str) -> None:
    def dawdle() -> None:
        time.sleep(600)

    with pytest.raises(TimeoutError) as caught:
        shmcoll.run(dawdle, 2, timeout=0.5 if method == "fork" else 12, method=method)
    [note] = caught.value.__notes__
    assert note.count("not joined") == 2
    assert note.count("in dawdle") == 2


def test_ranks_that_stay_and_never_join_show_their_stacks() -> None:
    def dawdle() -> None:
        time.sleep(600)

    with shmcoll.ranks(2) as r, pytest.raises(TimeoutError) as caught:
        r.run(dawdle, timeout=0.5)
    assert caught.value.__notes__[0].count("in dawdle") == 2


def test_map_says_which_item_each_rank_had() -> None:
    class Item:
        def __init__(self, name: str):
            self.name = name

        def __repr__(self) -> str:
            return f"Item({self.name},\n{'x' * 1000})"

    def dawdle_at_three(item: Item) -> str:
        if item.name in "357":
            time.sleep(600)
        return item.name

    with pytest.raises(TimeoutError) as caught:
        shmcoll.map(dawdle_at_three, [Item(str(i)) for i in range(20)], n=3, timeout=5)
    [note] = caught.value.__notes__
    assert note.startswith("shmcoll.map: where the ranks were:\n")
    assert note.count("in dawdle_at_three") == 3
    had = sorted(line for line in note.splitlines() if line.startswith("rank ") and " had item " in line)
    assert [line.split()[1] for line in had] == ["0", "1", "2"]
    assert sorted(line.split()[4] for line in had) == ["3:", "5:", "7:"]
    assert all("Item(" in line and len(line) < 100 for line in had)


def test_map_says_which_item_a_killed_rank_had() -> None:
    def end(item: int) -> int:
        if item == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    with pytest.raises(shmcoll.RankFailed) as caught:
        shmcoll.map(end, range(6), n=2)
    assert caught.value.__notes__ == [f"rank {caught.value.rank} had item 4: 4"]


SCRIPT = """
    import time, shmcoll

    def half_way():
        comm = shmcoll.init()
        print("running")
        if comm.rank == 1:
            time.sleep(600)
        comm.barrier()

    def at(item):
        print("running")
        time.sleep(600)

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
    inspect = [sys.executable, "-m", "shmrun", "inspect", str(script.pid)]
    until(
        lambda: b" keeps rank 0 waiting" in subprocess.run(inspect, capture_output=True, check=True).stdout, pause=0.2
    )
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=PATIENCE)
    assert (err, script.returncode) == ("", 0)
    title, _, *rows, verdict = out.splitlines()
    assert title == f"{call.partition('(')[0]}: where the ranks were:"
    assert sum("in half_way" in row for row in rows) == 2
    assert verdict.startswith("Rank 1 keeps rank 0 waiting, for ")


def test_ctrl_c_in_map(scripts: Any) -> None:
    script = scripts.start(SCRIPT.format(call="shmcoll.map(at, 'abc', n=2)"))
    for _ in range(2):
        assert script.stdout.readline() == "running\n"
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=PATIENCE)
    assert (err, script.returncode) == ("", 0)
    assert out.count("in at\n") == 2
    assert {line[11:] for line in out.splitlines() if " had item " in line} == {"item 0: 'a'", "item 1: 'b'"}


def test_an_exception_without_hang_has_no_such_note() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        shmcoll.run(divmod, 1, 1, 0, timeout=60)
    assert caught.value.__notes__ == ["raised by rank 0 of shmcoll.run"]
