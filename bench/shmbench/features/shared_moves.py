"""Every collective that moves data, on arrays in shared memory (`comm.empty`) beside ordinary ones."""

from shmbench.cli.sizes import short_size
from shmbench.timing.ab_timing import Contest, Row, Settings, job
from shmbench.timing.entries import collective

SIZES = (64 << 10, 4 << 20, 64 << 20)
MOVES = (
    "broadcast",
    "scatter",
    "scatter_v",
    "gather",
    "gather_v",
    "all_gather",
    "all_gather_v",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
)


def rows(settings: Settings) -> list[Row]:
    return job(2, _measure, settings)


def _measure(contest: Contest) -> list[Row]:
    return [_row(contest, name, size) for name in MOVES for size in dict.fromkeys(map(contest.settings.size, SIZES))]


def _row(contest: Contest, name: str, size: int) -> Row:
    private, shared = contest.run(
        [collective(contest.comm, name, size, shared=one, in_place=name == "broadcast") for one in (False, True)]
    )
    return Row(
        f"{name} {short_size(size)}, shared arrays",
        shared.seconds,
        "private arrays",
        private.seconds,
        wrong=shared.wrong + private.wrong,
    )
