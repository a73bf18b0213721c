"""ReplicaGroup: its checks, equality and partitions, and the communicators behind it."""

import pickle

import numpy as np

import shmcoll
from shmcoll.nki import collectives as ncc
from shmcoll.nki import language as nl
from shmcoll.nki.collectives import ReplicaGroup, rg_partition_op


def test_replica_group_is_checked(told):
    assert ReplicaGroup(((np.int64(2), 0), [1])).rank_lists == [[2, 0], [1]]
    for wrong, text in (
        (3, "TypeError: ReplicaGroup: expected a list of rank-lists, got int"),
        ([0, 1], "TypeError: ReplicaGroup: a rank-list must be a list of ranks, got int"),
        ([[0, 1.0]], "TypeError: ReplicaGroup: a rank must be an integer, got float"),
        ([[True]], "TypeError: ReplicaGroup: a rank must be an integer, got bool"),
        ([], "ValueError: ReplicaGroup: expected at least one rank-list, got none"),
        ([[0], []], "ValueError: ReplicaGroup: a rank-list is empty"),
        ([[0, -1]], "ValueError: ReplicaGroup: a rank must not be negative, got -1"),
        ([[0, 1], [1]], "ValueError: ReplicaGroup: rank 1 is named twice; rank-lists must not overlap"),
    ):
        assert told(lambda wrong=wrong: ReplicaGroup(wrong)) == text


def test_groups_of_the_same_lists_are_equal():
    group = ReplicaGroup([[0, 1], [2, 3]])
    assert group == ReplicaGroup(((0, 1), (2, np.int32(3))))
    assert group not in (ReplicaGroup([[1, 0], [2, 3]]), ReplicaGroup([[0, 1]]), [[0, 1], [2, 3]])
    assert {group: 1}[ReplicaGroup([[0, 1], [2, 3]])] == 1
    assert repr(group) == "ReplicaGroup([[0, 1], [2, 3]])"
    assert pickle.loads(pickle.dumps(group)) == group
    group._value[0].append(7)
    assert group._value == group.rank_lists == [[0, 1], [2, 3]]


def test_partitions_are_those_of_the_document(told):
    make = ReplicaGroup.from_partition_op
    assert make(8, rg_partition_op.bitwise_and, 0).rank_lists == [list(range(8))]
    assert make(8, rg_partition_op.bitwise_and, 2).rank_lists == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert make(8, rg_partition_op.div, 4).rank_lists == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert make(8, rg_partition_op.mod, np.int64(4)).rank_lists == [[0, 4], [1, 5], [2, 6], [3, 7]]
    for arguments, text in (
        ((8, "mod", 4), "TypeError: {}: op must be a member of rg_partition_op, got 'mod'"),
        (
            (8.0, rg_partition_op.mod, 4),
            "TypeError: {}: world_size must be an integer, got float",
        ),
        (
            (8, rg_partition_op.mod, "4"),
            "TypeError: {}: operand must be an integer, got str",
        ),
        ((0, rg_partition_op.mod, 4), "ValueError: {}: world_size must be positive, got 0"),
        ((8, rg_partition_op.mod, 0), "ValueError: {}: mod has no operand 0"),
        ((8, rg_partition_op.div, -1), "ValueError: {}: div has no operand -1"),
    ):
        assert told(lambda arguments=arguments: make(*arguments)) == text.format("ReplicaGroup.from_partition_op")


def total(lists) -> float:
    """The sum over this rank's list, with a group made anew."""
    dst = np.zeros(1)
    ncc.all_reduce([np.array([10.0 ** shmcoll.init().rank])], [dst], ReplicaGroup(lists), nl.add)
    return float(dst[0])


def test_a_rank_in_no_list_must_not_call(ranks, told):
    """It raises at once, and the ranks of the lists do not miss it."""

    def run(comm):
        return told(lambda: total([[2, 0]])) if comm.rank == 1 else total([[2, 0]])

    refusal = "ValueError: all_reduce: rank 1 is in no rank-list of ReplicaGroup([[2, 0]]), so it must not call"
    assert ranks(3, run) == [101.0, refusal, 101.0]


def test_groups_made_for_every_step_share_one_communicator(ranks):
    """More calls than a rank can lead groups."""

    def run(comm) -> set[float]:
        return {total([[1, 0]]) for _ in range(1100)}

    assert ranks(2, run) == [{11.0}] * 2


def test_the_program_may_close_its_own_group_of_these_ranks(ranks):
    def run(comm) -> list[float]:
        found = []
        for _ in range(2):
            with comm.subgroup([0, 1]) as own:
                found.append(total([[0], [1]]))
                found.append(total([[1, 0]]))
                own.barrier()
        return found

    assert ranks(2, run) == [[1.0, 11.0] * 2, [10.0, 11.0] * 2]


def test_lists_run_independently(ranks):
    """The ranks of one list make other calls, and a different number of them, than those of the other list."""

    def run(comm) -> list[float]:
        lists = [[0, 2], [3, 1]]
        return [total(lists) for _ in range(3 if comm.rank % 2 else 5)]

    assert ranks(4, run) == [[101.0] * 5, [1010.0] * 3] * 2


def test_another_order_on_another_rank_is_an_error(ranks, told):
    """Of the whole job, and of a part of it."""

    def run(comm, lists) -> str:
        return told(lambda: total(lists[comm.rank]))

    whole = ranks(3, run, [[[1, 0, 2]], [[0, 1, 2]], [[0, 1, 2]]])
    assert all(text.startswith("CollectiveMismatch: ") for text in whole)
    part = ranks(3, run, [[[0, 1]], [[1, 0]], [[2]]])
    assert part[1] == "ValueError: all_reduce: the ranks of [1, 0] have passed them in different orders"
    assert part[0].startswith("RankFailed: ")
    assert part[2] == "nothing wrong: 100.0"
