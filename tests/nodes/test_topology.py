"""Which ranks are on which node: the tables that every algorithm goes through."""

from shmcoll.nodes.mpi.topology import Topology, group_by_key, node_names


def test_nodes_come_in_the_order_of_their_lowest_ranks():
    assert group_by_key("bbaab") == ((0, 1, 4), (2, 3))


def test_nodes_of_one_host_have_names_of_their_own():
    assert node_names(((0, 1), (2,), (3,)), ["x", "x", "y", "x"]) == ("x#0", "y", "x#1")


def test_places_of_cyclic_ranks():
    topology = Topology(((0, 2), (1, 3)), ("a", "b"), 3)
    assert (topology.size, topology.node, topology.index, topology.local) == (4, 1, 1, (1, 3))
    assert topology.places == ((0, 0), (1, 0), (0, 1), (1, 1))
    assert not topology.in_rank_order
    assert topology.describe(3) == "rank 3 (node b)"
    assert topology.describe_node(0) == "node a (ranks 0, 2)"


def test_unequal_nodes_in_rank_order():
    topology = Topology(((0, 1), (2,)), ("a", "b"), 2)
    assert topology.in_rank_order
    assert topology.smallest == 1
    assert topology.describe_node(1) == "node b (rank 2)"


def test_a_group_numbers_its_ranks_in_the_order_given():
    world = Topology(((0, 1), (2, 3)), ("a", "b"), 1)
    group = world.among([3, 1, 0], 1)
    assert group.nodes == ((0,), (2, 1))
    assert group.names == ("b", "a")
    assert (group.node, group.index) == (1, 1)


def test_a_group_of_one_node_has_one():
    assert Topology(((0, 1), (2, 3)), ("a", "b"), 3).among([2, 3], 1).nodes == ((0, 1),)
