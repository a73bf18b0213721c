"""Groups of mindspore.communication: made by their members alone, in any order, under names of their own."""

import pytest

from shmcoll.mindspore import communication, ops
from shmcoll.mindspore.common.tensor import Tensor
from shmcoll.mindspore.communication import communicator, create_group, destroy_group, groups


@pytest.mark.parametrize("n", [1, 2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_members_make_groups_alone(ranks, n):
    """Halves, every second rank and pairs; each is made, used, destroyed and made again."""

    def run(comm) -> list:
        communication.init()
        me = comm.rank
        members = {
            "low": list(range((n + 1) // 2)),
            "even": list(range(0, n, 2))[::-1],
            "all": list(range(n)),
            "pair": [me - me % 2, *([me - me % 2 + 1] if me - me % 2 + 1 < n else [])],
        }
        found = []
        for again in range(2):
            mine = [name for name in members if me in members[name]]
            for name in mine if me % 2 == again else mine[::-1]:  # ranks make them in different orders
                create_group(name, members[name])
                create_group(name, members[name])
            for name in mine:
                wanted = sorted(members[name])
                found.append(communication.get_process_group_ranks(name) == wanted)
                found.append(communication.get_rank(name) == wanted.index(me))
                found.append(communication.get_group_size(name) == len(wanted))
                found += [communication.get_world_rank_from_group_rank(name, i) == r for i, r in enumerate(wanted)]
                found += [communication.get_group_rank_from_world_rank(r, name) == i for i, r in enumerate(wanted)]
                found.append(
                    float(ops.AllReduce(group=name)(Tensor([me + 1.0])).asnumpy()[0]) == sum(wanted) + len(wanted)
                )
            for name in mine:
                destroy_group(name)
        return [len(found) > 0, all(found)]

    assert ranks(n, run) == [[True, True]] * n


def test_groups_of_the_same_ranks_do_not_meet(ranks):
    """The ranks call them in different orders, and one of them outlives the other."""

    def run(comm) -> list:
        communication.init()
        create_group("a", [0, 1])
        create_group("b", [0, 1])
        first, second = ("a", "b") if comm.rank else ("b", "a")
        works = {
            name: communicator(name).all_reduce([comm.rank + 1, ord(name)], async_op=True) for name in (first, second)
        }
        found = [works[name].wait().tolist() for name in ("a", "b")]
        destroy_group("a")
        return [
            *found,
            communicator("b").all_reduce([1]).tolist(),
            communicator("b") is not communicator("hccl_world_group"),
        ]

    assert ranks(2, run) == [[[3, 2 * ord("a")], [3, 2 * ord("b")], [2], True]] * 2


def test_a_rank_that_is_no_member_knows_only_the_ranks(ranks, told):
    def run(comm) -> list:
        communication.init()
        create_group("one", [1])
        if comm.rank == 1:
            return [communication.get_rank("one"), communication.get_group_size("one")]
        return [
            communication.get_group_size("one"),
            communication.get_process_group_ranks("one"),
            told(lambda: communication.get_rank("one")),
            told(lambda: ops.AllReduce(group="one")(Tensor([1.0]))),
            told(lambda: destroy_group("one")),
            told(lambda: communication.get_group_size("one")),
        ]

    refusal = "RuntimeError: Group one doesn't contain the global rank 0"
    assert ranks(2, run) == [
        [
            1,
            [1],
            refusal,
            refusal,
            "nothing wrong: None",
            "RuntimeError: The group one does not exist. Rank 0 has: hccl_world_group; create_group makes one.",
        ],
        [0, 1],
    ]


def test_refusals(ranks, told):
    not_inited = f"RuntimeError: {groups.NOT_INITED}"

    def refusals(comm) -> list:
        before = [
            told(lambda: create_group("g", [0])),
            told(lambda: destroy_group("g")),
            told(communication.get_process_group_ranks),
            told(communication.get_comm_name),
        ]
        communication.init()
        create_group("two", [1, 0])
        wrong = [
            told(lambda call=call, given=given: call(*given))
            for call, given in (
                (create_group, (3, [0])),
                (create_group, ("g", (0, 1))),
                (create_group, ("g", [])),
                (create_group, ("g", [0, 0])),
                (create_group, ("g", [0, 1], 5)),
                (create_group, ("g", [0, -1])),
                (create_group, ("g", ["0"])),
                (create_group, ("g", [0, 9])),
                (create_group, ("two", [0, 1])),
                (create_group, ("hccl_world_group", [0])),
                (destroy_group, (3,)),
                (destroy_group, ("g",)),
                (destroy_group, ("mccl_world_group",)),
                (communication.get_rank, ("g",)),
                (communication.get_process_group_ranks, (3,)),
                (communication.get_world_rank_from_group_rank, (3, 0)),
                (communication.get_world_rank_from_group_rank, ("two", "0")),
                (communication.get_world_rank_from_group_rank, ("two", -1)),
                (communication.get_world_rank_from_group_rank, ("two", 7)),
                (communication.get_world_rank_from_group_rank, ("g", 0)),
                (communication.get_group_rank_from_world_rank, (0, 3)),
                (communication.get_group_rank_from_world_rank, ("0", "two")),
                (communication.get_group_rank_from_world_rank, (-1, "two")),
                (communication.get_group_rank_from_world_rank, (7, "two")),
                (communication.get_group_rank_from_world_rank, (7, "hccl_world_group")),
            )
        ]
        return before, wrong

    exists = "RuntimeError: The group g does not exist. Rank 0 has: hccl_world_group, two; create_group makes one."
    before, wrong = ranks(2, refusals)[0]
    assert before == [not_inited] * 4
    assert wrong == [
        "TypeError: For 'create_group', the argument 'group' must be type of string, but got 'group' type : "
        "<class 'int'>.",
        "TypeError: For 'create_group', the argument 'rank_ids' must be type of list, but got 'rank_ids' type : "
        "<class 'tuple'>.",
        "ValueError: For 'create_group', the argument 'rank_ids' size should be greater than 1, but got 'rank_ids' "
        "size : 0.",
        "ValueError: List rank_ids in Group g has duplicate data!",
        "TypeError: For 'create_group', the argument 'options' must be type of GroupOptions, but got 'options' type : "
        "<class 'int'>.",
        "TypeError: For 'create_group', the argument 'rank_ids' must not be negative, but got -1.",
        "TypeError: For 'create_group', the argument 'rank_ids' must be type of int, but got 'rank_ids' type : "
        "<class 'str'>.",
        "RuntimeError: Failed to create communication group for g with rank ids [0, 9]: the name must not be the "
        "world's, and ranks are 0 to 1.",
        "ValueError: The group two has been created, the rank_list is [1, 0], but current rank_list for the group is "
        "[0, 1]",
        "RuntimeError: Failed to create communication group for hccl_world_group with rank ids [0]: the name must not "
        "be the world's, and ranks are 0 to 1.",
        "TypeError: For 'destroy_group', the argument 'group' must be type of string, but got 'group' type : "
        "<class 'int'>.",
        "KeyError: 'g'",
        "ValueError: The world_group does not support destruction.",
        exists,
        "TypeError: The parameter 'group' should be str or None, but got the type : <class 'int'>",
        "TypeError: For 'get_world_rank_from_group_rank', the argument 'group' must be type of string, but got 'group' "
        "type : <class 'int'>.",
        "TypeError: For 'get_world_rank_from_group_rank', the argument 'group_rank_id' must be type of int, but got "
        "'group_rank_id' type : <class 'str'>.",
        "TypeError: For 'get_world_rank_from_group_rank', the argument 'group_rank_id' must not be negative, but got "
        "-1.",
        "RuntimeError: Group two doesn't contain the group rank 7; it has 2 ranks",
        exists,
        "TypeError: For 'get_group_rank_from_world_rank', the argument 'group' must be type of string, but got 'group' "
        "type : <class 'int'>.",
        "TypeError: For 'get_group_rank_from_world_rank', the argument 'world_rank_id' must be type of int, but got "
        "'world_rank_id' type : <class 'str'>.",
        "TypeError: For 'get_group_rank_from_world_rank', the argument 'world_rank_id' must not be negative, but got "
        "-1.",
        "RuntimeError: Group two doesn't contain the global rank 7; its ranks are [0, 1]",
        "RuntimeError: Group hccl_world_group doesn't contain the global rank 7; its ranks are [0, 1]",
    ]
