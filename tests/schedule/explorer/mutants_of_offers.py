"""Seeded bugs in messages that are copied from the sender's array: see `mutants.py`."""

from tests.schedule.explorer.mutants import BUFFERED, Mutant

MUTANTS_OF_OFFERS = {
    "no fence where an offer is retracted": Mutant(
        "retract", "    fence()\n", "", "an offered message", BUFFERED, sampled=True
    ),
    "no fence where an offer is claimed": Mutant(
        "read_offered", "    fence()\n", "", "an offered message", BUFFERED, sampled=True,
        runs=3000,
    ),
    "a sender that retracts does not look for a claim": Mutant(
        "await_answer", "if retract(ctx, peer):", "if retract(ctx, peer) or 1:",
        "an offered message",
    ),
    "a receiver copies what has been retracted": Mutant(
        "read_offered", "load_acquire(ring + layout.RING_RETRACTED) <= at", "True", "an offered message"
    ),
    "a receiver copies what was retracted before another offer": Mutant(
        "read_offered",
        "load_acquire(ring + layout.RING_RETRACTED) <= at",
        "load_acquire(ring + layout.RING_RETRACTED) != at + 1",
        "offered messages by tag",
        sampled=True,
    ),
    "a receiver that takes pieces does not answer": Mutant(
        "read_offered", "if status in (c.OK, IN_PIECES):", "if status == c.OK:",
        "an offered message",
    ),
    "a receiver answers before it has copied": Mutant(
        "copy_offered",
        "    status = read_place(",
        "    publish_to(ctx, ring + layout.RING_ANSWER, 2 * load(ring + layout.RING_CLAIMED), source)\n"
        "    status = read_place(",
        "an offered message",
    ),
    "a sender takes any answer for a copy": Mutant(
        "await_answer",
        "peek(ctx + c.X + c.BYTES) if load_acquire(answer) == wanted else 0",
        "peek(ctx + c.X + c.BYTES)",
        "an offered message",
    ),
    "a receiver does not look whether the sender has left": Mutant(
        "copy_offered",
        "c.ABORTED if status == c.OK and has_ended(ctx) else status",
        "status",
        "a handler raises in an offered send",
        {"signals": 1},
    ),
    "the array is noted after the message is there": Mutant(
        "put_parts",
        "            if place != 0:\n"
        "                store(peek(chain + r.RING) + layout.RING_OFFER, place)\n"
        "            put_first_part(ctx, peer, length)\n",
        "            put_first_part(ctx, peer, length)\n"
        "            if place != 0:\n"
        "                store(peek(chain + r.RING) + layout.RING_OFFER, place)\n",
        "an offered message",
    ),
}  # fmt: skip
