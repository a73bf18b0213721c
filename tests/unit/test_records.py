"""Records: one writer each, torn ones never believed, the earliest failure named."""

import os

import pytest
from ranks import close

from shmcoll.engine import arena as arenas
from shmcoll.engine import layout, records
from shmcoll.engine.processes import process_start


@pytest.fixture
def arena():
    made = arenas.create(3, timeout=1)
    yield made
    close(made)


def test_nothing_has_been_written(arena):
    for by in (layout.BY_RANK, layout.BY_LAUNCHER):
        told = records.read(arena, 2, by)
        assert (told.rank, told.by, told.state, told.text) == (2, by, records.UNBORN, "")
    assert records.first_failure(arena, range(3)) is None


def test_what_was_written_is_read(arena):
    records.write(arena, 1, layout.BY_RANK, records.FAILED, records.RAISED, 7, "rank 1 raised é", pid=os.getpid())
    told = records.read(arena, 1, layout.BY_RANK)
    assert (told.state, told.cause, told.code, told.pid) == (records.FAILED, records.RAISED, 7, os.getpid())
    assert told.text == "rank 1 raised é"
    assert told.start == process_start(os.getpid()) > 0
    assert records.read(arena, 1, layout.BY_LAUNCHER).state == records.UNBORN
    assert records.read(arena, 0, layout.BY_RANK).state == records.UNBORN


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
    records.write(arena, 2, layout.BY_LAUNCHER, records.FAILED, records.KILLED, 9, "killed")
    records.write(arena, 1, layout.BY_RANK, records.FAILED, records.VANISHED, 1, "rank 2 left")
    told = records.first_failure(arena, range(3))
    assert told is not None
    assert (told.rank, told.code, told.text) == (2, 9, "killed")
    assert records.first_failure(arena, [0, 1]).rank == 1


def test_abort_says_so_and_rings_every_doorbell(arena):
    assert arena.load(arena.world + layout.ABORT) == 0
    records.abort(arena, arena.world)
    assert arena.load(arena.world + layout.ABORT) == 1
    for rank in range(3):
        mailbox = arena.world + layout.MAILBOXES + rank * layout.mailbox_bytes(3)
        assert arena.load(mailbox + layout.SEMAPHORE) & 0xFFFFFFFF == 1
