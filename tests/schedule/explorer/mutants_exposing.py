"""Seeded bugs of arrays that peers read where they are."""

from tests.schedule.explorer.mutants import Mutant

SIGNAL = {"signals": 1}

MUTANTS_EXPOSING = {
    "a rank leaves before its exposed array has been read": Mutant(
        "engine.protocol.exposure.end_exposure",
        "publish_and_await_step(ctx, sequence, steps)",
        "c.OK",
        "exposed all_gather",
    ),
    "a root leaves before its exposed array has been read": Mutant(
        "collectives.broadcast.send", "await_all(ctx, sequence, 1) if", "c.OK if", "exposed broadcast"
    ),
    "a sender leaves before its exposed array has been read": Mutant(
        "collectives.gather.gather", "await_step(ctx, sequence, 1, root)", "c.OK", "exposed gather"
    ),
    "a root of a scatter leaves before its parts have been read": Mutant(
        "collectives.scatter.send", "return await_all(ctx, sequence, 1)", "return c.OK", "exposed scatter"
    ),
    "a sender of a permute leaves before its array has been read": Mutant(
        "collectives.collective_permute.move",
        "steps if exposes else steps & -2",
        "0 if exposes else steps & -2",
        "exposed permute",
    ),
    "a reader does not look whether the root has left": Mutant(
        "engine.protocol.exposure.finish_reading",
        "has_ended(ctx)",
        "False",
        "a handler raises at the root of an exposed broadcast",
        SIGNAL,
    ),
    "a rank publishes that it has read before it reads": Mutant(
        "collectives.broadcast.receive",
        "        status = read_exposed(",
        "        publish_step(ctx, sequence, 1)\n        status = read_exposed(",
        "exposed broadcast",
    ),
    "a rank that exposes does not make the steps of the others": Mutant(
        "collectives.all_gather.fetch",
        "    if k > 0:\n",
        "    if k > 0 and False:\n",
        "exposed by one of two, all_gather",
    ),
}
