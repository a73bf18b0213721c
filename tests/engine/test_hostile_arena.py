"""Arenas that somebody else has filled: any bytes at all are an `ArenaError`, or an arena that makes sense.

One file stands for all: its bytes change, its descriptor stays. Besides random bytes there are good pages with some
words replaced by numbers that tend to break things: those pass the first checks.
"""

import random
from collections.abc import Iterator

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.errors import ArenaError
from tests.support.ranks import close

WORDS = [value for name, value in vars(layout).items() if name.startswith("JOB_")]
AWKWARD = (0, 1, -1, 2, 4095, 4096, 1 << 16, (1 << 16) - 1, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1, -(1 << 63))


@pytest.fixture
def target() -> Iterator[Arena]:
    made = arenas.create(2, timeout=1, cell_bytes=4096, window_bytes=4096, heap=1 << 20)
    yield made
    close(made)


def attack(target: Arena, draw: random.Random, times: int) -> tuple[int, int]:
    """How many of so many pages were refused, and how many accepted."""
    good, nonce = target.read(0, layout.PAGE), target.nonce
    refused = accepted = 0
    for i in range(times):
        if i % 3 == 0:
            target.write(0, draw.randbytes(layout.PAGE))
        else:
            target.write(0, good)
            for offset in draw.sample(WORDS, draw.randrange(1, 5)):
                if offset != layout.JOB_NONCE:
                    target.store(offset, draw.choice((*AWKWARD, target.size, draw.getrandbits(63))))
            if i % 3 == 2:
                target.store(layout.JOB_MAGIC, layout.MAGIC)
                target.store(layout.JOB_VERSION, layout.VERSION)
                target.store(layout.JOB_BYTES, target.size)
        taken = is_taken(target, draw.choice((nonce, None)), draw)
        refused, accepted = refused + (not taken), accepted + taken
    target.write(0, good)
    return refused, accepted


def is_taken(target: Arena, nonce: int | None, draw: random.Random) -> bool:
    """Whether somebody attaches to the arena; then it must make sense."""
    try:
        attached = arenas.attach(target.fd, nonce)
    except ArenaError:
        return False
    check_sane(attached, draw)
    attached.unmap()
    return True


def check_sane(arena: Arena, draw: random.Random) -> None:
    """All that its words describe lies within it, thresholds too."""
    cell, window, ranks = arena.load(layout.JOB_CELL_BYTES), arena.load(layout.JOB_WINDOW_BYTES), arena.ranks
    assert cell <= window
    assert layout.arena_bytes(ranks, window) <= arena.size
    assert cell >= layout.LINE and cell % layout.WORD == 0, cell
    for name in ("FLAT_BYTES", "SLICE_BYTES", "STREAM_BYTES", "RING_BYTES", "TIMEOUT"):
        assert arena.load(getattr(layout, f"JOB_{name}")) > 0, name
    assert arena.load(layout.JOB_SLICE_BYTES) <= cell
    assert arena.load(layout.JOB_HEAP) >= 0
    group = Group.world(arena)
    rank = draw.randrange(ranks)
    arena.load(group.mailbox(rank))
    arena.load(arena.world + layout.cells_offset(ranks) + 2 * rank * cell)


def test_any_job_page_is_refused_or_makes_sense(target: Arena, seed: int) -> None:
    refused, accepted = attack(target, random.Random(seed), 600)
    assert refused > 300 and accepted > 5
    assert arenas.attach(target.fd, target.nonce).ranks == 2


def test_any_job_page_with_one_awkward_word(target: Arena, seed: int) -> None:
    good, draw, taken = target.read(0, layout.PAGE), random.Random(seed), 0
    for offset in WORDS:
        for value in AWKWARD:
            target.store(offset, value)
            taken += is_taken(target, None, draw)
            target.write(0, good)
    assert 0 < taken < len(WORDS) * len(AWKWARD)


@pytest.mark.stress
def test_a_hundred_thousand_job_pages(target: Arena, seed: int) -> None:
    refused, accepted = attack(target, random.Random(seed), 100_000)
    print(f"figure: {refused + accepted:,} hostile headers: {refused:,} ArenaError, {accepted:,} sane, 0 crashes")
