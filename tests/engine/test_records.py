"""Records: one writer each, torn ones never believed, the earliest failure named."""

import os

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system.processes import process_start
from tests.support.ranks import close


@pytest.fixture
def arena():
    made = arenas.create(3, timeout=1)
    yield made
    close(made)


def test_nothing_has_been_written(arena):
    for by in (layout.BY_RANK, layout.BY_LAUNCHER):
        told = records.read(arena, 2, by)
        assert (told.state, told.text) == (records.UNBORN, "")
    assert records.first_failure(Group.world(arena)) is None


def test_what_was_written_is_read(arena):
    records.write(arena, 1, layout.BY_RANK, records.FAILED, records.RAISED, 7, "raised é", pid=os.getpid())
    told = records.read(arena, 1, layout.BY_RANK)
    assert (told.state, told.cause, told.code, told.pid) == (records.FAILED, records.RAISED, 7, os.getpid())
    assert told.text == "raised é"
    assert told.start == process_start(os.getpid()) > 0
    assert records.read(arena, 1, layout.BY_LAUNCHER).state == records.UNBORN
    assert records.read(arena, 0, layout.BY_RANK).state == records.UNBORN


@pytest.mark.parametrize(("text", "told"), [("", "failed"), ("was killed", "was killed")])
def test_a_failure_without_a_text_is_one(arena, text, told):
    records.write(arena, 1, layout.BY_LAUNCHER, records.FAILED, records.KILLED, 9, text)
    assert records.how_failed(arena, 1) == told
    assert not records.how_failed(arena, 0)


def test_long_texts_are_cut_and_stay_text(arena):
    records.write(arena, 0, layout.BY_RANK, records.FAILED, text="é" * 5000)
    text = records.read(arena, 0, layout.BY_RANK).text
    assert set(text) <= {"é", "\N{REPLACEMENT CHARACTER}"}
    assert 900 < len(text) <= layout.RECORD_TEXT_BYTES // 2 + 1
    assert records.read(arena, 0, layout.BY_LAUNCHER).state == records.UNBORN
    assert records.read(arena, 1, layout.BY_RANK).state == records.UNBORN


@pytest.mark.parametrize("offset", [*range(0, 56, 8), layout.RECORD_TEXT])
def test_a_record_of_which_a_word_is_wrong_is_not_believed(arena, offset):
    records.write(arena, 0, layout.BY_RANK, records.FAILED, records.RAISED, 1, "some text", pid=os.getpid())
    at = layout.record_offset(3, 0, layout.BY_RANK) + offset
    arena.store(at, arena.load(at) ^ 4)
    assert records.read(arena, 0, layout.BY_RANK).state == records.UNBORN


def test_the_earliest_failure_is_the_first_cause(arena):
    records.write(arena, 0, layout.BY_RANK, records.JOINED)
    records.write(arena, 2, layout.BY_LAUNCHER, records.FAILED, records.KILLED, 9, "was killed")
    records.end(Group.world(arena), 1, records.VANISHED, "rank 2 left")
    told = records.first_failure(Group.world(arena))
    assert told is not None
    assert (told.code, told.text) == (9, "rank 2 was killed")
    assert told.rank == 2
    assert records.knew_of_a_failure(Group.world(arena), 1)
    assert not records.knew_of_a_failure(Group.world(arena), 2)


def test_a_group_knows_the_lives_of_its_members_alone(arena):
    offset = layout.align(arena.world + layout.group_bytes(3, layout.CELL_BYTES), layout.PAGE)
    arena.commit(offset, layout.group_bytes(2, layout.CELL_BYTES), "a group of 2")
    pair = Group(arena, offset, (0, 2))
    records.write(arena, 1, layout.BY_RANK, records.FAILED, records.RAISED, 1, "is of no concern")
    assert records.first_failure(pair) is None
    records.end(pair, 1, records.MISMATCHED, "they disagree")
    told = records.first_failure(pair)
    assert told is not None
    assert told.text == "they disagree"
    assert (pair.has_ended(), Group.world(arena).has_ended()) == (True, False)
    assert records.first_failure(Group.world(arena)).text == "rank 1 is of no concern"


def test_a_refusal_is_noted_until_the_group_has_ended(arena):
    world = Group.world(arena)
    records.note_refusal(world, 1, 5, "refused")
    told = records.ending(world, 1)
    assert (told.state, told.code, told.text) == (records.JOINED, 5, "refused")
    assert records.first_failure(world) is None
    records.end(world, 1, records.TIMED_OUT, "late")
    records.note_refusal(world, 1, 6, "refused again")
    assert records.ending(world, 1).text == "late"


def test_abort_says_so_and_rings_every_doorbell(arena):
    world = Group.world(arena)
    assert not world.has_ended()
    world.abort()
    assert arena.load(arena.world + layout.ABORT) == 1
    for rank in range(3):
        assert arena.load(world.mailbox(rank) + layout.SEMAPHORE) & 0xFFFFFFFF == 1
