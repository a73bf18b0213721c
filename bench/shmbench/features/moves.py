"""Collectives that move long arrays, ordinary and shared ones, beside copies of the same length by all ranks."""

from shmbench.cli.sizes import short_size
from shmbench.timing.ab_timing import Contest, Row, Settings, job
from shmbench.timing.entries import collective

SIZE = 64 << 20
MOVES = (("all_to_all", False, 1.35), ("all_to_all", True, 1.0), ("broadcast", True, 1.0), ("all_gather", True, 1.0))


def rows(settings: Settings) -> list[Row]:
    return job(2, _measure, settings)


def _measure(contest: Contest) -> list[Row]:
    comm, size = contest.comm, contest.settings.size(SIZE)
    entries = [collective(comm, name, size, shared=shared, in_place=name == "broadcast") for name, shared, _ in MOVES]
    memcpy, *ours = contest.run([collective(comm, "memcpy", size), *entries])
    return [
        Row(
            f"{name} {short_size(size)}, {'shared arrays' if shared else 'out given'}",
            one.seconds,
            "memcpy, both ranks",
            memcpy.seconds,
            asked,
            wrong=one.wrong + memcpy.wrong,
        )
        for (name, shared, asked), one in zip(MOVES, ours, strict=True)
    ]
