"""Seeded bugs of the collectives with counts."""

from tests.schedule.explorer.mutants import Mutant

MUTANTS_WITH_COUNTS = {
    "one cell for all rounds": Mutant("stage_part", "sequence, k, me", "sequence, 0, me", "all_to_all_v"),
    "parts are taken without waiting": Mutant(
        "fetch_part", "await_step(ctx, sequence, k, peer)", "c.OK", "all_to_all_v"
    ),
    "one table for all": Mutant("count_tables.table", "(sequence & 1)", "0", "all_to_all_v, then another"),
    "what is received is not judged": Mutant(
        "all_fit",
        "receives_fit(tables + rank * apart, sent_to(tables, size, rank), apart, size, sender)",
        "True",
        "gather_v refused",
    ),
    "a sender judges for itself alone": Mutant(
        "collectives.gather_v.open_and_check", "ANYONE, root", "ANYONE, peek(ctx + c.RANK)", "gather_v refused"
    ),
    "a sender of gather_v does not wait for the root": Mutant(
        "collectives.gather_v.deliver", "if k > 1:", "if False:", "gather_v"
    ),
    "a sender of gather_v waits for one round less": Mutant(
        "collectives.gather_v.deliver", "k - 1, root", "k - 2, root", "gather_v"
    ),
    "a sender of gather_v leaves its cell in use": Mutant(
        "collectives.gather_v.deliver", "mine & -2, root", "0, root", "gather_v of 2 rounds, then all_reduce"
    ),
    "a sender says that it is done before it is": Mutant(
        "collectives.gather_v.deliver",
        "publish_step(ctx, sequence, k)",
        "publish_step(ctx, sequence, rounds)",
        "gather_v",
    ),
    "a short sender does not say that it is done": Mutant(
        "collectives.gather_v.deliver",
        "if rounds > 1:",
        "if mine > 1:",
        "gather_v, one sender is done early",
        sampled=True,
    ),
    "the root of gather_v says so before it reads": Mutant(
        "collectives.gather_v.collect",
        "        for sender in",
        "        publish_step(ctx, sequence, k + 1)\n        for sender in",
        "gather_v of 2 rounds, then all_reduce",
    ),
    "the root of scatter_v does not wait": Mutant("collectives.scatter_v.serve", "if k > 1:", "if False:", "scatter_v"),
    "the root of scatter_v waits for one round less": Mutant(
        "collectives.scatter_v.serve", "k - 1)", "k - 2)", "scatter_v"
    ),
    "the root of scatter_v leaves its cell in use": Mutant(
        "collectives.scatter_v.serve", "rounds & -2", "0", "scatter_v of 2 rounds, then all_reduce"
    ),
    "a receiver says that it has read before it has": Mutant(
        "collectives.scatter_v.receive", "sequence, k + 1)", "sequence, k + 2)", "scatter_v"
    ),
    "a short receiver does not say that it is done": Mutant(
        "collectives.scatter_v.receive",
        "if rounds > 1:",
        "if mine > 1:",
        "scatter_v, one receiver is done early",
        sampled=True,
    ),
    "receivers share one part of the cell": Mutant(
        "cell_in_share", "index * share", "0 * index", "scatter_v, 3 ranks", sampled=True
    ),
    "an array is published before it is laid": Mutant(
        "collectives.all_gather_v.move",
        "            stage_part(ctx, sequence, k, me, part, 1)\n            publish_step(ctx, sequence, k)\n",
        "            publish_step(ctx, sequence, k)\n            stage_part(ctx, sequence, k, me, part, 1)\n",
        "all_gather_v",
    ),
    "cells of all_gather_v are not released": Mutant(
        "collectives.all_gather_v.move",
        "sequence, rounds, rounds",
        "sequence, 1, rounds",
        "all_gather_v of 2 rounds, then all_reduce",
    ),
}
