"""Seeded bugs of blocks that other ranks hold."""

from tests.schedule.explorer.mutants import BUFFERED, Mutant

SHARED, FAILED = "a shared result", "a shared result of an owner that leaves"

MUTANTS_OF_HOLDS = {
    "a rank that lets go is still seen by the others": Mutant(
        "nobody_sees", "views not in (0, LEAVING)", "views", SHARED
    ),
    "a rank lets go without a fence": Mutant("holds._let_go", "    arena.fence()\n", "", SHARED, BUFFERED),
    "an owner drops its array without a fence": Mutant("holds.give", "    arena.fence()\n", "", SHARED, BUFFERED),
    "a block that is being given back is used again": Mutant(
        "holds.is_held",
        "arena.load(holds + rank * WORD))",
        "arena.load(holds + rank * WORD) not in (0, LEAVING))",
        SHARED,
    ),
    "a block is used again of which a rank still learns": Mutant(
        "holds.is_held", "learns = doubted and", "learns = False and", FAILED
    ),
    "memory is given back that the owner still has": Mutant("holds._let_go", "is_given and", "", SHARED),
}
