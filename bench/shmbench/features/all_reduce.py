"""all_reduce of long arrays, ordinary and shared, beside adding two arrays that every rank has already."""

from shmbench.cli.sizes import short_size
from shmbench.timing.ab_timing import Contest, Row, Settings, job
from shmbench.timing.entries import collective

SIZE = 64 << 20
WAYS = (  # shared arrays, in place, what is asked
    ("out given", False, False, 1.25),
    ("in place", False, True, 0.95),
    ("shared arrays", True, False, 0.8),
    ("shared, in place", True, True, 0.5),
)


def rows(settings: Settings) -> list[Row]:
    return job(2, _measure, settings)


def _measure(contest: Contest) -> list[Row]:
    comm, size = contest.comm, contest.settings.size(SIZE)
    entries = [collective(comm, "all_reduce", size, shared=shared, in_place=placed) for _, shared, placed, _ in WAYS]
    add, *ours = contest.run([collective(comm, "add", size), *entries])
    return [
        Row(
            f"all_reduce {short_size(size)}, {way}",
            one.seconds,
            "c = a + b, both ranks",
            add.seconds,
            asked,
            wrong=one.wrong + add.wrong,
        )
        for (way, _, _, asked), one in zip(WAYS, ours, strict=True)
    ]
