"""Seeded bugs of the ring of spans."""

from tests.schedule.explorer.mutants import REORDERED, Mutant

SPANS = "spans that are read"

MUTANTS_OF_PROFILES = {
    "a span counts before it is written": Mutant(
        "profile_calls.write_span",
        "    prefetch(span + AHEAD)\n",
        "    store_release(peek(recorder + p.REGION) + p.HEAD_COUNT, number + 1)\n",
        SPANS,
    ),
    "the reader keeps what may be written over": Mutant(
        "reading.first_whole", "count - capacity + 1", "count - capacity", SPANS
    ),
    "the first word of a span is no release": Mutant(
        "profile_calls.write_span",
        "    store_release(span + p.SPAN_BEGIN, begin)\n",
        "    store(span + p.SPAN_BEGIN, begin)\n",
        SPANS,
        REORDERED,
    ),
}
