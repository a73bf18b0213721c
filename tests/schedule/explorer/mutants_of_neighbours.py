"""Seeded bugs in the operations between neighbours."""

from explorer.mutants import Mutant

MUTANTS_OF_NEIGHBOURS = {
    "a sender does not wait for its target": Mutant(
        "collectives.collective_permute.lay_again",
        "if k > 1 else",
        "if False else",
        "chain of permute, then all_reduce",
    ),
    "a sender waits for one round less of its target": Mutant(
        "collectives.collective_permute.lay_again",
        "k - 1, target",
        "k - 2, target",
        "chain of permute of 4 rounds",
    ),
    "a sender leaves the cell that its target reads": Mutant(
        "collectives.collective_permute.move", "rounds & -2", "0", "permute of 2 rounds, then all_reduce"
    ),
    "a sender of odd rounds leaves the cell that its target reads": Mutant(
        "collectives.collective_permute.move",
        "rounds & -2, target",
        "0 if rounds & 1 else rounds, target",
        "chain of permute, then all_reduce",
    ),
    "a target does not wait for its source": Mutant(
        "collectives.collective_permute.fetch", "await_step(ctx, sequence, k, source)", "c.OK", "permute"
    ),
    "a target says so before it reads": Mutant(
        "collectives.collective_permute.move",
        "        if source != NOBODY:\n",
        "        publish_step(ctx, sequence, k + 1)\n        if source != NOBODY:\n",
        "permute",
    ),
}
