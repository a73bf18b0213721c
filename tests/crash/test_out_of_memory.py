"""Too little shared memory is an `ArenaError` that says how much is needed and how much there is, never a SIGBUS.

The jobs run in a mount namespace of their own, whose /dev/shm has a few MiB, and cannot make a memfd: there is enough
for the arena, and soon too little for what the ranks ask for. They fill what they got with bytes and read them again,
which would kill them if it were not there; then they go on with the same group. Where nobody may mount, these tests are
skipped.
"""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from shmcoll.engine.memory import available_memory
from shmcoll.engine.system import cgroups
from tests.support.small_memory import amounts, in_small_memory, without_memfd

pytestmark = pytest.mark.slow

BEGINS = """
    import gc, json, os, sys
    import numpy as np
    import shmcoll

    comm = shmcoll.init()
    me, n = comm.rank, comm.size

    def until_refused(call):
        "How often it could be called, and the error."
        made = []
        while True:
            try:
                made.append(call())
            except shmcoll.ArenaError as error:
                return made, str(error)

    def works():
        long = np.full(3_000_000, me + 1, np.float32)
        assert (comm.all_reduce(long) == n * (n + 1) // 2).all()
        comm.barrier()

    def tell(*told):
        print(json.dumps([me, *told]), flush=True)
"""

#: what asks for memory, and what each rank tells: how much it got, and the error
ASKS = {
    "arrays": """
    for _ in range(2):  # the memory of the first time serves the second time
        made, text = until_refused(lambda: comm.full(100_000, me, np.int64))
        works()
        assert all((x == me).all() for x in made)
        comm.barrier()
        count = len(made)
        del made
        gc.collect()
        works()
    tell(count, text)
    """,
    "groups": """
    for _ in range(2):
        made, text = until_refused(lambda: comm.split(0, -me))
        works()
        for group in made:
            assert group.all_reduce(1) == n
            group.close()
        works()
    tell(len(made), text)
    """,
    "subgroups": """
    filled, _ = until_refused(lambda: comm.full(50_000, me, np.int64)) if me == 0 else ([], "")
    comm.barrier()
    made, text = until_refused(lambda: comm.subgroup(range(n)))
    works()
    filled.clear()
    gc.collect()
    comm.barrier()
    assert comm.subgroup(range(n)).all_reduce(1) == n
    tell(len(made), text)
    """,
    "messages": """
    most, text = 0, ""
    for length in (1 << 20, 1 << 26):  # many; then one that does not fit in all there is
        sent = []
        if me == 0:
            sent, text = until_refused(lambda: comm.send(np.full(length, 7, np.uint8), 1))
        count = int(comm.broadcast(np.array(len(sent)))[()])
        most = max(most, count)
        if me == 1:
            assert all((comm.recv()[0] == 7).all() for _ in range(count))
        works()
    if me == 0:
        comm.send(np.full(1 << 20, 9, np.uint8), 1)
    if me == 1:
        assert (comm.recv()[0] == 9).all()
    works()
    tell(most, text)
    """,
    "views": """
    x = comm.full(100_000, me, np.int64)
    views = comm.views(x)
    filled, text = until_refused(lambda: comm.full(100_000, me, np.int64))
    assert all((view == i).all() for i, view in enumerate(views))
    comm.barrier()
    x[:] = me + 1
    comm.barrier()
    assert all((view == i + 1).all() for i, view in enumerate(views))
    tell(len(filled), text)
    """,
}
MEMORY = 16  # MiB


@pytest.mark.parametrize("asks", ASKS)
def test_the_group_goes_on_after_a_refusal(tmp_path: Path, asks: str) -> None:
    n = 3
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(BEGINS) + textwrap.dedent(ASKS[asks]))
    command = [sys.executable, "-m", "shmrun", "-n", str(n), str(script)]
    done = in_small_memory(tmp_path, MEMORY, command, SHMCOLL_HEAP="1G", **without_memfd(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    told = sorted(json.loads(line) for line in done.stdout.splitlines())
    assert [rank for rank, *_ in told] == list(range(n))
    for rank, _, text in told:
        leader = {"groups": n - 1, "subgroups": 0}.get(asks, rank)
        if text or rank == 0:
            assert rank == leader or f"rank {leader} found no memory for it" in text
            needed, available = amounts(text)
            assert needed >= available, text  # both are rounded
            assert available < MEMORY
    assert any(count for _, count, _ in told) or asks == "subgroups"
    if "groups" in asks:
        assert len({amounts(text) for _, _, text in told}) == 1


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_enclosing_memory_cgroups_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A tree as the kernel shows it, of either version. What sets no limit, or is missing, is skipped."""
    limit, usage = ("memory.max", "memory.current") if version == 2 else available_memory._MEMORY_V1
    root = tmp_path if version == 2 else tmp_path / "memory"
    for folder, most, used in (("a/b", "9000", "2000"), ("a", "8000", "2500"), ("", "max", "1")):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / limit).write_text(most)
        (root / folder / usage).write_text(used)
    listed = tmp_path / "cgroup"
    listed.write_text("0::/a/b/c\n" if version == 2 else "7:cpu:/x\n4:memory:/a/b/c\n")
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    monkeypatch.setattr(cgroups, "read_names", lambda _: listed.read_text())
    rooms = available_memory._cgroup_rooms()
    assert [room.free for room in rooms] == [7000, 5500]
    assert rooms[0].limit.endswith("/a/b has 0.0 MiB, 0.0 MiB in use")
