"""Seeded bugs of arrays that peers read where they are."""

from tests.schedule.explorer.mutants import Mutant

SIGNAL = {"signals": 1}

MUTANTS_EXPOSING = {
    "a rank leaves before its exposed array has been read": Mutant(
        "end_exposure",
        "publish_and_await_step(ctx, turn, steps)",
        "c.OK",
        "shared all_reduce",
    ),
    "a rank leaves before its array has been reduced": Mutant(
        "collectives.reduce_scatter.shared", "end_exposure(ctx, turn, 1) if", "c.OK if", "shared reduce_scatter"
    ),
    "a rank leaves before its array is part of a scan": Mutant(
        "collectives.prefix_reduction.direct", "end_exposure(ctx, turn, 1) if", "c.OK if", "shared scan"
    ),
    "a rank leaves before its part of a reduce has been read": Mutant(
        "collectives.all_reduce_parts.reduce_in_parts",
        "end_exposure(ctx, turn, 2 * rounds)",
        "c.OK",
        "shared reduce",
    ),
    "a rank fills a cell that the root still reads": Mutant(
        "collectives.all_reduce_parts.reduce_part",
        "k >= 2 and",
        "False and",
        "shared reduce of 3 rounds",
        sampled=True,
    ),
    "a root replaces elements that another rank still reads": Mutant(
        "collectives.all_reduce_parts.collect_parts",
        "await_step(ctx, turn, 2 * k + 1, peer)",
        "c.OK",
        "shared reduce",
    ),
    "a scan reads an array that its rank replaces": Mutant(
        "collectives.prefix_reduction.prefix_reduce",
        "not has_result or not works_in_place(ctx)",
        "True",
        "shared scan in place, 3 ranks",
        sampled=True,
    ),
}
