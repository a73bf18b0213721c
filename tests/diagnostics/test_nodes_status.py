"""Jobs over several nodes, seen from one machine: what their arenas say, and what is made of it."""

import os
import random
from collections.abc import Sequence

import pytest

from shmcoll.collectives import RECORDS
from shmcoll.diagnostics import nodes_status
from shmcoll.diagnostics.rank_status import RankStatus
from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import node_words, records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.node_words import CallRecorder
from tests.support.ranks import close

JOB = "0123456789abcdef"
NODES = ((0, 2), (1, 3), (4,))
NAMES = ("a", "b", "c")


@pytest.fixture
def make():
    made: list[Arena] = []

    def one(ranks: int) -> Arena:
        made.append(arenas.create(ranks, timeout=1, cell_bytes=4096, window_bytes=4096, heap=1 << 20))
        return made[-1]

    yield one
    for arena in made:
        close(arena)


@pytest.fixture
def job(make) -> list[Arena]:
    """The arenas of nodes a and b of a job of three nodes, whose ranks are this process."""
    made = [make(2), make(2)]
    for node, arena in enumerate(made):
        node_words.write_facts(arena, JOB, NODES, NAMES, node)
        for local in range(2):
            records.write(arena, local, layout.BY_RANK, records.JOINED, pid=os.getpid())
    return made


def seen(job: Sequence[Arena]) -> list[nodes_status.ObservedNode]:
    found = [nodes_status.observed(arena) for arena in job]
    return [node for node in found if node is not None]


def recorder(arena: Arena, local: int) -> CallRecorder:
    """In the place of the group of the algorithms, there is the group of all ranks of the node."""
    return CallRecorder(Group.world(arena), local, 1, 0)


def by_rank(job: Sequence[Arena]) -> dict[int, RankStatus]:
    return {status.rank: status for status in nodes_status.standings(seen(job))}


def test_the_words_about_nodes_are_where_nothing_else_is():
    job_page = [value for name, value in vars(layout).items() if name.startswith("JOB_")]
    assert max(job_page) + layout.WORD <= node_words.NODES < node_words.NAMES < layout.PAGE
    assert layout.UNFIT_BYTES < node_words.NUMBER < layout.SLOTS
    assert layout.SIZE < node_words.GROUP_NUMBER < node_words.GROUP_FIRST < layout.MEMBERS
    assert layout.READS < node_words.CALL
    assert node_words.CALL + node_words.CALL_ENDED + layout.WORD <= layout.TABLES


def test_facts_are_read_as_they_were_written(job):
    a, b = seen(job)
    assert (b.facts.job, b.facts.nodes, b.facts.node, b.facts.ranks, b.facts.name) == (JOB, 3, 1, 5, "b")
    assert (a.numbers, b.numbers) == ((0, 2), (1, 3))
    assert nodes_status.fits(b, [a]) and not nodes_status.fits(a, [a])


def test_an_arena_of_one_machine_is_no_node(make):
    assert nodes_status.observed(make(2)) is None


def test_what_cannot_be_seen_has_a_name_and_a_number_of_ranks(job):
    assert nodes_status.unseen_in_words(seen(job)) == "node c (1 rank)"
    assert nodes_status.unseen_in_words(seen(job[:1])) == "node b (2 ranks), node c (1 rank)"


def test_of_many_nodes_the_first_ones_are_named(make):
    nodes, arena = [(2 * node, 2 * node + 1) for node in range(1000)], make(2)
    node_words.write_facts(arena, JOB, nodes, [f"a-long-name-{node}" for node in range(1000)], 900)
    (node,) = seen([arena])
    assert node.facts.name == "a-long-name-900"
    assert node.numbers == (1800, 1801)
    told = nodes_status.unseen_in_words([node])
    assert told.startswith("node a-long-name-0 (2 ranks), ")
    assert told.endswith(", 991 more nodes (1982 ranks)")
    assert sum(count for _, count in nodes_status.unseen([node])) == 1998


def test_names_cannot_hold_what_a_terminal_obeys(make):
    arena = make(2)
    node_words.write_facts(arena, JOB, ((0, 1), (2,)), ("\x1b[2J", "b\udcff"), 0)
    assert seen([arena])[0].facts.names == ("?[2J", "b?")


def test_a_rank_that_has_not_arrived_keeps_those_of_all_nodes_waiting(job):
    for arena, local, number in ((job[0], 0, 2), (job[0], 1, 2), (job[1], 0, 2), (job[1], 1, 1)):
        one = recorder(arena, local)
        one.begin(code("all_reduce"), number)
        if number == 1:
            one.end()
    found = by_rank(job)
    assert [found[rank].blames for rank in range(4)] == [(3,), (3,), (3,), ()]
    assert found[0].place == "in all_reduce #2"
    assert (found[3].state, found[3].place, found[3].node) == ("outside", "after all_reduce #1", "b")
    told = nodes_status.verdict_over_nodes(seen(job), list(found.values()), patience=0)
    assert told.startswith("Rank 3 (node b) keeps ranks 0, 1, 2 waiting, for ")
    assert told.endswith("Not seen from this machine: node c (1 rank).")


def test_where_all_that_can_be_seen_have_arrived_nobody_is_blamed(job):
    for local in range(2):
        recorder(job[0], local).begin(code("barrier"), 7)
    found = nodes_status.standings(seen(job[:1]))
    assert [(one.state, one.blames) for one in found] == [("in it", ())] * 2
    told = nodes_status.verdict_over_nodes(seen(job[:1]), found, patience=0)
    assert told.startswith("Ranks 0, 2 have been in barrier #7 for ")
    assert "every rank that can be seen has arrived. Not seen from this machine: node b (2 ranks), node c" in told


def test_a_message_that_is_waited_for_blames_its_sender(job):
    one = recorder(job[0], 1)
    one.begin(code("barrier"), 1)
    one.end()
    one.wait_for_message(code("recv"), 4, 9)
    found = by_rank(job)
    assert (found[2].place, found[2].blames, found[2].state) == ("in recv(source=4, tag=9)", (4,), "waits")
    told = nodes_status.verdict_over_nodes(seen(job), list(found.values()), patience=0)
    assert "Rank 4 keeps rank 2 waiting" in told
    assert "it cannot be seen from this machine" in told
    one.stop_waiting()
    assert by_rank(job)[2].place == "after barrier #1"


def code(name: str) -> int:
    return RECORDS[name].code


def test_a_closed_recorder_leaves_the_arena_alone(job):
    one = recorder(job[0], 0)
    one.begin(code("barrier"), 1)
    before = job[0].read(0, job[0].world + layout.group_bytes(2, 4096))
    one.close()
    one.begin(code("all_reduce"), 2)
    one.wait_for_message(1, 0, 0)
    assert job[0].read(0, len(before)) == before


def test_damaged_words_make_no_node_or_one_that_makes_sense(job, seed):
    """Random words in the place of all that a node writes: no exception, and nothing that is out of range."""
    draw = random.Random(seed)
    arena = job[0]
    page = arena.read(0, layout.PAGE)
    mailbox = Group.world(arena).mailbox(0)
    words = [node_words.NODES, node_words.NODE, node_words.RANKS, node_words.JOB, node_words.NAMES_LENGTH]
    words += [layout.directory_offset(2, local) + node_words.NUMBER for local in range(2)]
    words += [arena.world + node_words.GROUP_NUMBER, arena.world + node_words.GROUP_FIRST]
    words += [mailbox + node_words.CALL + 8 * i for i in range(6)] + [
        mailbox + layout.MESSAGE + 8 * i for i in range(4)
    ]
    refused = 0
    for _ in range(400):
        arena.write(0, page)
        recorder(arena, 0).begin(code("barrier"), 1)
        for word in draw.sample(words, draw.randrange(1, 4)):
            arena.store(word, draw.choice((0, 1, -1, 2, 3, 1 << 31, (1 << 63) - 1, -(1 << 63), draw.getrandbits(62))))
        if draw.random() < 0.3:
            arena.write(node_words.NAMES + draw.randrange(40), draw.randbytes(3))
        nodes = seen([arena])
        refused += not nodes
        for node in nodes:
            assert all(0 <= number < node.facts.ranks for number in node.numbers)
            assert all(name.isprintable() for name in (node.facts.name, *node.facts.names))
            found = nodes_status.standings(nodes)
            assert nodes_status.verdict_over_nodes(nodes, found, patience=0).isprintable()
    assert 20 < refused < 400
