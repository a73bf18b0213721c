"""Seeded bugs of the collectives with counts."""

from tests.schedule.explorer.mutants import Mutant

MUTANTS_WITH_COUNTS = {
    "one table for all": Mutant("mailboxes.table", "(turn & 1)", "0", "all_to_all_v, then another"),
    "what is received is not judged": Mutant(
        "all_fit",
        "receives_fit(tables + rank * apart, sent_to(tables, size, rank), apart, size, sender)",
        "True",
        "gather_v refused",
    ),
    "a sender judges for itself alone": Mutant(
        "count_tables.open_and_check",
        "check_counts(ctx, turn, sender, receiver)",
        "check_counts(ctx, turn, sender, me)",
        "gather_v refused",
    ),
    "receivers share one part of the cell": Mutant(
        "cell_in_share", "index * share", "0 * index", "scatter_v, 3 ranks", sampled=True
    ),
}
