"""Seeded bugs in the operations between neighbours."""

from tests.schedule.explorer.mutants import Mutant

MUTANTS_OF_NEIGHBOURS = {
    "a face is read before it is laid": Mutant(
        "collectives.halo_exchange.fetch",
        "await_step(ctx, turn, step(axis, k), peer)",
        "c.OK",
        "halo of 2 rounds, then all_reduce",
    ),
    "who has not read a face says so": Mutant(
        "collectives.halo_exchange.exchange_faces",
        "        for side in range(2):\n",
        "        publish_step(ctx, turn, step(axis, k + 1))\n        for side in range(2):\n",
        "halo of 3 rounds",
    ),
    "a face lies in the next operation's cell": Mutant(
        "collectives.halo_exchange.await_readers",
        "2 if rounds > 0 and rounds & 1 == 0 else 0",
        "0",
        "halo of 2 rounds, then all_reduce",
    ),
    "one side is forgotten at the end": Mutant(
        "collectives.halo_exchange.await_readers",
        "range(2 if",
        "range(1 if",
        "halo of a line, 3 ranks",
        sampled=True,
    ),
    "all axes have one place": Mutant(
        "collectives.halo_exchange.place", "2 * axis + side", "side", "halo of 2 axes, 4 ranks", sampled=True
    ),
    "steps of all axes are one": Mutant(
        "collectives.halo_exchange.step", "(axis << ROUND_BITS) + k", "k", "halo of 2 axes, 4 ranks", sampled=True
    ),
    "only the neighbours compare their faces": Mutant(
        "collectives.halo_exchange.faces_match",
        "range(peek(ctx + c.SIZE))",
        "range(peek(ctx + c.RANK), peek(ctx + c.RANK) + 1)",
        "halo of unlike faces",
    ),
}
