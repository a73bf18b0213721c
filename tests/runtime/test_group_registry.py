"""Groups: who belongs to them, how members find each other, how they end and give their memory back."""

import math
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from shmcoll.diagnostics.rank_status import open_groups
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import mib, usual_window
from shmcoll.engine.memory.slot_tables import TABLE_BYTES
from shmcoll.engine.system.cores import usable_cores
from shmcoll.errors import ArenaError, CallNotAllowed, CollectiveMismatch, CollectiveTimeout, RankFailed
from shmcoll.runtime.group_directory import identity
from shmcoll.runtime.group_registry import GroupRegistry
from tests.support import switches
from tests.support.sleepers import signal_when_asleep
from tests.support.waiting import until

GROUP = layout.group_bytes(2, usual_window(2, usable_cores()))  # in a job of 2 ranks


def sums(comm, value: int) -> int:
    return int(comm.all_reduce(np.array([value]))[0])


def test_split_by_color_and_key(ranks):
    def cut(comm) -> tuple:
        half = comm.split(comm.rank % 2, -comm.rank)
        return half.rank, half.size, half.ranks, half.name, half.launcher, sums(half, comm.rank), half.gather(comm.rank)

    told = ranks(5, cut)
    even, odd = [4, 2, 0], [3, 1]
    for rank, (place, size, members, name, launcher, total, gathered) in enumerate(told):
        mine = odd if rank % 2 else even
        assert (place, size, members, total) == (mine.index(rank), len(mine), mine, sum(mine))
        assert (name, launcher) == (str(mine), "shmrun")
        assert (None if gathered is None else gathered.tolist()) == (mine if rank == mine[0] else None)


def test_a_rank_without_a_color_is_in_no_group(ranks):
    def cut(comm) -> list | None:
        part = comm.split(None if comm.rank == 1 else 7)
        return part and [part.ranks, sums(part, 1)]

    assert ranks(3, cut) == [[[0, 2], 2], None, [[0, 2], 2]]


def test_each_split_makes_a_group_of_its_own(ranks):
    def cut(comm) -> bool:
        first, second = comm.split(0), comm.split(0)
        if comm.rank == 0:  # operations of the two do not mix
            a, b = sums(first, 1), sums(second, 10)
        else:
            work = second.all_reduce(np.array([10]), async_op=True)
            a, b = sums(first, 1), int(work.wait()[0])
        return first is not second and (a, b) == (2, 20)

    assert ranks(2, cut) == [True, True]


def test_subgroups_are_called_by_their_members_alone_in_any_order(ranks):
    def use(comm) -> list[int]:
        told = []
        mine = [(0, 1), (0, 2), (1, 2)]
        for members in mine if comm.rank != 1 else reversed(mine):
            if comm.rank in members:
                group = comm.subgroup(members)
                told.append((group, members))
        return [sums(group, comm.rank + 1) for group, members in sorted(told, key=lambda t: t[1])]

    assert ranks(3, use) == [[3, 4], [3, 5], [4, 5]]


def test_the_same_ranks_are_the_same_group_until_it_is_closed(ranks):
    def use(comm) -> list:
        group = comm.subgroup([1, 0])
        again = comm.subgroup((0, 1))
        same = group is again and group.ranks == [0, 1]
        group.close()
        group.close()
        new = comm.subgroup([0, 1])
        other = comm.split(0)
        other.close()
        return [same, new is not group, sums(new, 1), comm.subgroup([0, 1]) is new]

    assert ranks(2, use) == [[True, True, 2, True]] * 2


def test_groups_of_groups(ranks):
    def nest(comm) -> list:
        group, told = comm, []
        while group.size > 1:
            group = group.split(group.rank // (group.size // 2), group.rank)
            told.append((group.ranks, sums(group, comm.rank)))
        row = comm.split(comm.rank % 2)
        pair = row.subgroup([0, 1]) if comm.rank < 4 else None
        return [*told, pair and (pair.ranks, sums(pair, comm.rank))]

    for rank, (four, two, one, pair) in enumerate(ranks(8, nest)):
        for size, (members, total) in ((4, four), (2, two), (1, one)):
            first = rank // size * size
            assert members == list(range(first, first + size))
            assert total == sum(members)
        first = rank % 2
        assert pair == (([first, first + 2], 2 * first + 2) if rank < 4 else None)


def named(group, comm) -> str:
    """What messages call this rank, as a pattern."""
    same = group.rank == comm.rank
    return rf"on rank {group.rank}{'' if same else rf' .world rank {comm.rank}.'}"


def test_in_place_in_a_group_whose_ranks_have_other_numbers(ranks):
    """What is in place is told by the rank in the group, what errors say by both numbers."""

    def use(comm) -> list:
        group = comm.split(0 if comm.rank else None, key=-comm.rank)  # ranks 3, 2, 1 of the world
        if group is None:
            return []
        parts = [np.full(2, 10 * group.rank + i) for i in range(3)]
        told = [group.reduce_scatter(parts, out=parts[group.rank]).tolist()]
        with pytest.raises(ValueError, match=rf"{named(group, comm)}: out has shape \(3,\), the result has \(2,\)"):
            group.reduce_scatter(parts, out=np.zeros(3, int))
        mine, others = np.full(2, comm.rank), [np.zeros(2, int) for _ in range(3)]
        group.gather(mine, 1, out=[others[0], mine, others[1]] if group.rank == 1 else None)
        return [*told, *(x.tolist() for x in others[:2] if group.rank == 1)]

    told = ranks(4, use)
    assert told[1] == [[36, 36]]
    assert told[2] == [[33, 33], [3, 3], [1, 1]]
    assert told[3] == [[30, 30]]


def test_operations_of_different_groups_overlap_in_time(ranks):
    """Each rank is in a row and a column, and has work pending in both."""

    def use(comm) -> list:
        row, column = comm.split(comm.rank // 2), comm.split(comm.rank % 2)
        groups = (row, column) if comm.rank % 3 else (column, row)
        works = {}
        for i in range(20):
            for group in groups:
                works[group.name, i] = group.all_reduce(np.full(10_000, comm.rank + i), async_op=True)
        return [
            all((works[group.name, i].wait() == sum(group.ranks) + 2 * i).all() for i in range(20))
            for group in (row, column)
        ]

    assert ranks(4, use) == [[True, True]] * 4


@pytest.mark.slow
def test_a_thousand_groups_leave_memory_flat(ranks):
    def churn(comm) -> list[int]:
        held, private, descriptors = [], [], []
        for i in range(1000):
            group = comm.subgroup([0, 1]) if i % 2 else comm.split(0)
            assert sums(group, i) == 2 * i
            group.close()
            if i in (200, 999):
                comm.barrier()
                held.append(switches.held_by_ranks(comm))
                private.append(private_memory())
                descriptors.append(sum(1 for _ in Path("/proc/self/fd").iterdir()))
        return [values[1] - values[0] for values in (held, private, descriptors)]

    for held, private, descriptors in ranks(2, churn):
        assert abs(held) <= 2 * GROUP  # a region or two that the last to close gives back, or not yet
        assert private < 4 << 20
        assert descriptors == 0
        print(f"figure: 1,000 groups: memory {private:+} bytes after the first 200, descriptors {descriptors:+}")


def private_memory() -> int:
    """Return the bytes that this process shares with nobody; the arena's are counted by what its heaps hold."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon:"))


def test_a_closed_group_says_so_and_to_those_who_need_it(ranks):
    def close(comm) -> str:
        group = comm.subgroup([0, 1])
        sums(group, 1)
        if comm.rank == 0:
            group.close()
            with pytest.raises(RuntimeError, match="barrier on rank 0: this communicator is closed") as told:
                group.barrier()
        else:
            with pytest.raises(
                RankFailed, match="barrier #2 on rank 1, in the group of world ranks 0, 1: rank 0 has closed"
            ) as told:
                group.barrier()
        comm.barrier()
        return str(told.value)

    ranks(2, close)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda group: group.send(np.ones(3), 99), ValueError),
        (lambda group: group.split("a"), TypeError),
        (lambda group: group.abort("enough"), RuntimeError),
        (lambda group: group.shrink(), RuntimeError),
    ],
    ids=["send", "split", "abort", "shrink"],
)
def test_a_closed_group_writes_nothing_where_it_was(ranks, call, kind):
    """Another group has the region when a member still calls the closed one."""

    def use(comm) -> bool:
        group = comm.split(0)
        for rank in (1, 0):
            if comm.rank == rank:
                group.close()
            comm.barrier()
        arena, other = comm._local_rank.arena, comm.split(0)._dispatcher.group
        lies_there = other.offset == group._dispatcher.group.offset
        comm.barrier()
        known = arena.read(other.offset, layout.cells_offset(2))
        comm.barrier()
        if comm.rank == 1:
            with pytest.raises(kind):
                call(group)
        comm.barrier()
        unchanged = arena.read(other.offset, layout.cells_offset(2)) == known
        comm.barrier()  # a rank that leaves rings in its groups
        return lies_there and unchanged

    assert ranks(2, use) == [True, True]


def test_the_world_is_not_closed(ranks):
    def close(comm) -> None:
        with pytest.raises(ValueError, match="closed by the end of the process"):
            comm.close()
        with pytest.raises(KeyError, match="mine"), comm:  # what the block raises is not replaced
            raise KeyError("mine")
        with comm as same, comm.dup() as other:
            assert same is comm
        comm.barrier()
        with pytest.raises(CallNotAllowed, match="closed"):
            other.barrier()

    ranks(1, close)


def test_a_failure_ends_the_groups_that_hold_the_rank_and_no_other(ranks):
    """Rank 3 raises. Its pair learns of it at once; the other pair and the group of three go on."""

    def fail(comm) -> str:
        pair, three = comm.split(comm.rank // 2), comm.split(0 if comm.rank < 3 else 1)
        comm.barrier()  # a failure of a member of the parent ends a split that is under way
        if comm.rank == 3:
            raise ZeroDivisionError("on purpose")
        told = ""
        if comm.rank == 2:
            begin = time.monotonic()
            with pytest.raises(RankFailed, match=r"rank 1 .world rank 3. raised ZeroDivisionError: on p") as error:
                pair.barrier()
            assert time.monotonic() - begin < comm.timeout / 2
            told = str(error.value)
        assert sums(three, 1) == 3
        if comm.rank < 2:
            assert sums(pair, 1) == 2
        with pytest.raises(RankFailed, match="on purpose"):
            comm.barrier()
        return told

    outcomes = ranks.outcomes(4, fail)
    assert [o.status for o in outcomes] == [0, 0, 0, 1]
    assert (
        outcomes[2].value == "barrier #1 on rank 0 (world rank 2), in the group of world ranks 2, 3: "
        "rank 1 (world rank 3) raised ZeroDivisionError: on purpose"
    )


def test_a_group_that_failed_leaves_its_members_alive_for_others(ranks):
    def fail(comm) -> list[int]:
        group = comm.split(0)
        if comm.rank == 0:
            group.abort("enough")
        with pytest.raises(RankFailed, match="rank 0 aborted: enough"):
            group.barrier()
        group.close()
        return [sums(comm, 1), sums(comm.split(0), 1)]

    assert ranks(3, fail) == [[3, 3]] * 3


def test_a_leader_that_never_comes_is_named(ranks):
    def wait(comm) -> None:
        if comm.rank == 1:
            comm.timeout = 0.2
            call = r"subgroup of world ranks \[0, 1\] on world rank 1"
            text = rf"{call}: timed out after 0\.2 s; world rank 0, which leads the group, has not called"
            with pytest.raises(CollectiveTimeout, match=text) as told:
                comm.subgroup([0, 1])
            assert told.value.__notes__[0].startswith("rank  ")  # the table of where all ranks are
            comm.timeout = 20
        comm.barrier()

    ranks(2, wait)


def test_a_leader_that_is_killed_is_named(ranks):
    def wait(comm) -> str:
        if comm.rank == 0:
            os.kill(os.getpid(), 9)
        with pytest.raises(RankFailed) as told:
            comm.subgroup([0, 1])
        return str(told.value)

    outcomes = ranks.outcomes(2, wait)
    assert outcomes[0].status == -9
    assert outcomes[1].value.startswith("subgroup of world ranks [0, 1] on world rank 1: world rank 0")
    assert "it leads that group, and never made it" in outcomes[1].value


def test_no_memory_is_an_error_on_all_members_and_all_may_try_again(ranks):
    def exhaust(comm) -> list:
        filled = comm.empty(700 << 10, np.int8) if comm.rank == 0 else None
        comm.barrier()
        with pytest.raises(ArenaError) as told:
            comm.subgroup([0, 1])
        with pytest.raises(ArenaError):
            comm.split(5)
        comm.barrier()
        del filled
        comm.barrier()
        group = comm.subgroup([0, 1])
        return [str(told.value), sums(group, 1)]

    heap = GROUP + (500 << 10)
    told = ranks(2, exhaust, environment={"SHMCOLL_HEAP": str(heap)})
    assert [t[1] for t in told] == [2, 2]
    full = f"the heap is full: {mib(GROUP)} needed for a group of 2 ranks, {mib(700 << 10)} of {mib(heap)} in use."
    assert told[0][0].startswith(full)
    call = "subgroup of world ranks [0, 1] on world rank 1"
    assert told[1][0].startswith(
        f"{call}: world rank 0 found no memory for it, {mib(GROUP)} needed, {mib(heap - (700 << 10))} available"
    )


def test_a_split_without_memory_for_one_color_is_an_error_on_all_ranks(ranks):
    def exhaust(comm) -> list:
        comm.timeout = 5
        filled = comm.empty(2 << 20, np.uint8) if comm.rank == 2 else None
        comm.barrier()
        with pytest.raises(ArenaError) as caught:
            comm.split(None if comm.rank == 1 else comm.rank // 2)
        del filled
        comm.barrier()
        return [str(caught.value), caught.value.needed > 0, sums(comm, 1), sums(comm.split(comm.rank // 2), 1)]

    heap = layout.group_bytes(2, usual_window(4, usable_cores())) + (2 << 20)
    told = ranks(4, exhaust, environment={"SHMCOLL_HEAP": str(heap)})
    assert [t[1:] for t in told] == [[True, 4, 2]] * 4
    for rank in (0, 1):
        assert told[rank][0].startswith(f"split on rank {rank}: rank 2 found no memory for it, "), told[rank]


def test_a_group_too_many_is_an_error_on_all_members_and_all_may_try_again(ranks):
    """The last place of a leader's directory is kept for telling the members that there is none."""

    def lead_too_many(comm) -> list:
        comm.timeout, layout.SLOT_COUNT, layout.MORE_TABLES = 5, 5, 0
        comm._local_rank.groups._room = 5
        groups = [comm.split(0) for _ in range(4)]
        told = []
        for make in (lambda: comm.subgroup([0, 1]), lambda: comm.split(5), lambda: comm.subgroup([0, 1])):
            with pytest.raises(ArenaError) as caught:
                make()
            told.append(str(caught.value))
            comm.barrier()
        groups.pop().close()
        comm.barrier()
        groups.append(comm.subgroup([0, 1]))
        return [*told, *(sums(group, 1) for group in groups)]

    told = ranks(2, lead_too_many)
    limit = "leads 4 open groups, which is the limit; close some of them"
    assert told[0] == [f"this rank {limit}"] * 3 + [2] * 4
    subgroup = f"subgroup of world ranks [0, 1] on world rank 1: world rank 0 {limit}"
    assert told[1] == [subgroup, f"split on rank 1: rank 0 {limit}", subgroup] + [2] * 4


def test_a_group_gets_the_memory_of_a_group_whose_members_have_died(ranks, monkeypatch):
    """Though the leader has looked at the lives of ranks a moment ago."""

    def use(comm) -> bool:
        group = comm.split(0)
        comm.barrier()
        if comm.rank == 0:
            group.close()
            registry = comm._local_rank.groups
            monkeypatch.setattr(registry, "_lives_at", math.inf)
            monkeypatch.setattr(records, "how_ended", lambda _arena, rank: f"rank {rank} has died")
            alone = registry.lead((0,), identity((0,), "a test"))
            assert alone.size == 1
        comm.barrier()
        return True

    heap = layout.group_bytes(2, usual_window(2, usable_cores())) + (64 << 10)
    assert ranks(2, use, environment={"SHMCOLL_HEAP": str(heap)}) == [True, True]


def test_an_array_gets_the_memory_of_groups_that_all_have_closed(ranks):
    """Though the leader has not led or closed a group since the last member closed them."""

    def use(comm) -> int:
        groups = [comm.split(0) for _ in range(5)]
        for rank in (0, 1):
            if comm.rank == rank:
                for group in groups:
                    group.close()
            comm.barrier()
        if comm.rank == 1:
            return 0
        array = comm.zeros(6 * GROUP, np.uint8)
        with pytest.raises(ArenaError, match="the heap is full"):
            comm.empty(2 * GROUP, np.uint8)
        return array.size

    assert ranks(2, use, environment={"SHMCOLL_HEAP": str(7 * GROUP + GROUP // 2)}) == [6 * GROUP, 0]


@pytest.mark.parametrize(
    ("members", "kind"),
    [([0], ValueError), ([1, 1], ValueError), ([1, 2], ValueError), ([1, -1], ValueError), ([1, "a"], TypeError)],
)
def test_who_cannot_be_a_group(ranks, members, kind):
    def refused(comm) -> None:
        if comm.rank == 1:
            with pytest.raises(kind, match="subgroup on rank 1"):
                comm.subgroup(members)
        comm.barrier()

    ranks(2, refused)


def test_a_forked_child_is_in_no_group(ranks):
    def fork(comm) -> None:
        group = comm.split(0)
        pid = os.fork()
        if pid == 0:
            with pytest.raises(RuntimeError, match="not a rank itself"):
                group.barrier()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        group.barrier()

    ranks(2, fork)


def test_a_job_of_one_has_groups_too(ranks):
    assert ranks(1, lambda comm: comm.split(3).subgroup([0]).ranks) == [[0]]


def test_messages_name_ranks_of_the_group_and_of_the_world(ranks):
    def fail(comm) -> list[str]:
        pair = comm.split(comm.rank % 2)
        told = []
        with pytest.raises(ValueError, match="out has shape") as refused:
            pair.all_reduce(np.zeros(4), out=np.zeros(3))
        told.append(str(refused.value).partition(":")[0])
        with pytest.raises(ValueError, match=r"all_to_all_v #1: rank 1 .world rank \d. sends 5") as counts:
            comm.split(comm.rank % 2).all_to_all_v(np.zeros(2), [1, 5 if comm.rank > 1 else 1], [0, 0])
        told.append(str(counts.value))
        with pytest.raises(CollectiveMismatch) as mismatch:
            pair.all_reduce(np.zeros(comm.rank + 1))
        return [*told, str(mismatch.value)]

    for rank, (refused, counts, mismatch) in enumerate(ranks(4, fail)):
        first = rank % 2
        names = ["0" if first == 0 else "0 (world rank 1)", f"1 (world rank {first + 2})"]
        assert refused == f"all_reduce on rank {names[rank // 2]}"
        assert f"rank {names[1]} sends 5 elements from displacement 0 to rank {names[1]}" in counts
        assert f"rank {names[0]} called all_reduce(float64[{first + 1}], sum)" in mismatch
        assert f"rank {names[1]} called all_reduce(float64[{first + 3}], sum)" in mismatch


def test_close_waits_for_calls_of_other_threads(ranks, board):
    def close(comm) -> None:
        group, told = comm.split(0), []

        def receive() -> None:
            board[comm.rank] = 1
            with pytest.raises(RankFailed) as error:
                group.recv(source=1)
            told.append(str(error.value))

        if comm.rank == 0:
            thread = threading.Thread(target=receive)
            thread.start()
            until(lambda: group._dispatcher.words[c.THREAD // WORD])
        comm.barrier()
        if comm.rank == 1:
            group.close()
        else:
            group.close()
            x = comm.zeros(1 << 20, "uint8")
            thread.join(20)
            assert not x.any()
            assert "has closed the group" in told[0]  # rank 1, or the other thread of rank 0
        comm.barrier()

    ranks(2, close)


def test_close_in_a_signal_handler_during_a_call_is_refused(ranks, board):
    def close(comm) -> None:
        group, told = comm.split(0), []

        def handler(*_: object) -> None:
            try:
                group.close()
            except RuntimeError as error:
                told.append(str(error))
                board[0] = 1

        comm.barrier()
        if comm.rank == 0:
            signal.signal(signal.SIGALRM, handler)
            signal_when_asleep(group)
        else:
            until(lambda: board[0])
        group.barrier()
        begin = "close on rank 0: called by a signal handler, or a finaliser, in the midst of barrier"
        assert comm.rank == 1 or (len(told) == 1 and told[0].startswith(begin))
        group.close()

    ranks(2, close)


def test_a_new_group_reads_nothing_of_those_that_are_open(ranks):
    """Else a program's thousandth communicator takes a thousand times as long as its first."""

    def use(comm) -> int:
        asked = []
        is_out = GroupRegistry._is_out
        GroupRegistry._is_out = lambda *arguments: asked.append(arguments) or is_out(*arguments)
        try:
            groups = [comm.dup() for _ in range(5)]
            told = len(asked)
        finally:
            GroupRegistry._is_out = is_out
        for group in groups:
            group.close()
        return told

    assert ranks(2, use) == [0, 0]


def test_a_leader_makes_further_slots_when_they_are_used_up(ranks):
    def use(comm) -> list:
        layout.SLOT_COUNT = comm._local_rank.groups._room = 5
        comm.barrier()
        before = switches.held_by_ranks(comm)
        comm.barrier()
        groups = []
        for i in range(6):
            groups += [comm.dup(), comm.subgroup([0, 1], name=f"{i}")]
        told = [sums(group, 1) for group in groups]
        seen = [group.offset for group in open_groups(comm._local_rank.arena)]
        comm.barrier()
        for group in groups:
            group.close()
        comm.barrier()
        switches.give_back_memory(comm)
        comm.barrier()
        found = {group._dispatcher.group.offset for group in groups} <= set(seen)
        return [told, found, switches.held_by_ranks(comm) - before]

    assert ranks(2, use) == [[[2] * 12, True, TABLE_BYTES]] * 2


def test_groups_that_are_kept_open_take_little_memory_and_give_all_of_it_back(ranks):
    def use(comm) -> list[int]:
        comm.dup().close()
        before = switches.committed(comm)
        comm.barrier()
        groups = [comm.dup() for _ in range(50)]
        for group in groups:
            group.barrier()
        comm.barrier()
        open_ones = switches.committed(comm) - before
        comm.barrier()
        for group in groups:
            group.close()
        comm.barrier()
        for _ in range(2):
            switches.give_back_memory(comm)
            comm.barrier()
        return [open_ones, switches.committed(comm) - before]

    for open_ones, closed in ranks(2, use):
        assert open_ones <= 50 * (layout.cells_offset(2) + layout.PAGE)
        assert closed <= 2 * layout.cells_offset(2)  # spare regions
