"""`subgroup(ranks, name=...)`: groups of the same ranks that do not meet."""

import pytest


def test_names_tell_groups_apart(ranks):
    """The ranks make and call them in different orders. Each is closed and made again, beside the other."""

    def run(comm) -> list:
        found = []
        for _ in range(3):
            order = ["", "a", "b"] if comm.rank else ["b", "a", ""]
            groups = {name: comm.subgroup([1, 0], name=name) for name in order}
            works = {name: groups[name].all_gather([comm.rank, len(name)], async_op=True) for name in order}
            found.append([works[name].wait().tolist() for name in ("", "a", "b")])
            found.append(groups["a"] is comm.subgroup([0, 1], name="a"))
            groups["a"].close()
            found.append(groups["b"].all_reduce([1]).tolist())
            again = comm.subgroup([0, 1], name="a")
            found.append(again is not groups["a"] and again.all_reduce([2]).tolist() == [4])
            for group in (again, groups[""], groups["b"]):
                group.close()
        return found

    once = [[[0, 0, 1, 0], [0, 1, 1, 1], [0, 1, 1, 1]], True, [2], True]
    assert ranks(2, run) == [once * 3] * 2


def test_a_name_is_a_string(ranks):
    def run(comm) -> str:
        with pytest.raises(TypeError) as caught:
            comm.subgroup([0], name=3)
        return str(caught.value)

    assert ranks(1, run) == ["subgroup on rank 0: name must be a string, got int"]


def test_ranks_keep_the_order_of_the_communicator(ranks):
    """From a communicator whose order is not the world's, and again from that group; with all, and with some."""

    def run(comm) -> list:
        told = []
        backwards = comm.split(0, key=-comm.rank)
        for _ in range(2):
            for members in ([0, 2], [2, 1], range(3)):
                if backwards.rank not in members:
                    continue
                with (
                    backwards.subgroup(members) as some,
                    some.dup() as same,
                    some.subgroup(range(some.size)) as all_of_it,
                ):
                    for group in (some, same, all_of_it):
                        told.append(group.all_gather([backwards.rank]).tolist() == sorted(members))
                        told.append(sorted(members)[group.rank] == backwards.rank)
                    told.append(some is backwards.subgroup(list(members)[::-1]))
                    told.append(some.ranks == [backwards.ranks[rank] for rank in sorted(members)])
        return told

    for told in ranks(3, run):
        assert told
        assert all(told), told
