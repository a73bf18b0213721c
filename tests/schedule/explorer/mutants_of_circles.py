"""Seeded bugs in the proof that ranks wait for one another: see `mutants.py`."""

from tests.schedule.explorer.mutants import Mutant

REORDERED = {"reordered": True}
PROTOCOL = "engine.protocol.deadlock."

MUTANTS_OF_CIRCLES = {
    "a circle is found although a message is on its way": Mutant(
        PROTOCOL + "is_circle",
        "flag_is_set(ctx, box) or ",
        "",
        "a receive that looks",
    ),
    "a circle is followed once": Mutant(
        PROTOCOL + "is_deadlocked",
        "is_circle(ctx, 0) and is_circle(ctx, 1)",
        "is_circle(ctx, 0)",
        "a receive that looks, 3 ranks",
        sampled=True,
    ),
    "a sleep has no end": Mutant(
        PROTOCOL + "end_receive",
        "    store(mine + RECEIVES, (load(mine + RECEIVES) | 1) + 1)\n",
        "    pass\n",
        "a receive that looks when the ring has gone round",
    ),
    "the words of the next sleep are no releases": Mutant(
        PROTOCOL + "begin_receive",
        "    store_release(mine + RECEIVES_FROM, source)\n"
        "    store_release(mine + RECEIVES_FLAG, flag - peek(ctx + c.ARENA))\n"
        "    store_release(mine + RECEIVES_VALUE, value)\n",
        "    store(mine + RECEIVES_FROM, source)\n"
        "    store(mine + RECEIVES_FLAG, flag - peek(ctx + c.ARENA))\n"
        "    store(mine + RECEIVES_VALUE, value)\n",
        "a receive that looks at two sleeps",
        REORDERED,
    ),
}
