"""A ring of spans, which its rank writes while another one reads: `engine/native/profile_calls.py`."""

from dataclasses import dataclass

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.native import profile_calls
from shmcoll.engine.protocol import profile as p
from shmcoll.profiling import reading
from tests.schedule.explorer.calls import Call
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.stand_ins import SHARED, WORD

CAPACITY, SPANS = 2, 4
TOLD = (p.SPAN_BEGIN, p.SPAN_LASTED, p.SPAN_BYTES, p.SPAN_NUMBER)  # words of a span that are compared


def region(rank: Rank) -> int:
    return SHARED + rank.job.world_end


def ring(rank: Rank) -> int:
    return region(rank) + p.HEAD_COUNT + WORD


@dataclass(frozen=True)
class WriteSpans(Call):
    """Span i has 10 i + 1, 10 i + 2 and so on in TOLD. SEQUENCE of the context becomes its number."""

    together = False

    def run(self, rank: Rank, _number: int) -> int:
        recorder, profile = rank.take(p.RECORDER_WORDS), rank.take(p.PROFILE_WORDS)
        for offset, value in ((p.SPANS, ring(rank)), (p.MASK, CAPACITY - 1), (p.REGION, region(rank))):
            atomics.poke(recorder + offset, value)
        atomics.poke(rank.ctx + c.PROFILE, profile)
        for i in range(SPANS):
            atomics.poke(rank.ctx + c.SEQUENCE, 10 * i + 4)
            profile_calls.write_span(rank.ctx, recorder, 0, c.OK, 10 * i + 1, 10 * i + 2, 10 * i + 3, 0)
        atomics.poke(rank.ctx + c.PROFILE, 0)
        return c.OK


@dataclass(frozen=True)
class ReadSpans(Call):
    """Read the ring once, as `profiling/reading.py` does."""

    together = False

    def run(self, rank: Rank, _number: int) -> int:
        known = atomics.load_acquire(region(rank) + p.HEAD_COUNT)
        found: tuple[tuple[int, ...], ...] = ()
        for i in range(known):
            span = ring(rank) + i % CAPACITY * p.SPAN_LENGTH
            words: tuple[int, ...] = ()
            for word in TOLD if known - CAPACITY <= i else ():
                words += (atomics.load(span + word),)
            found += (words,)
        atomics.acquire_fence()
        latest = atomics.load_acquire(region(rank) + p.HEAD_COUNT)
        for i in range(reading.first_whole(latest, CAPACITY), known):
            if found[i] != tuple(10 * i + 1 + k for k in range(len(TOLD))):
                raise Violation(f"span {i} is read as {found[i]}")
        return c.OK
