"""More ranks than cores: all_reduce of 8 bytes, the time of a call over the number of ranks."""

from shmbench.timing.ab_timing import Contest, Row, Settings, job
from shmbench.timing.entries import collective

ASKED = {16: 4e-6, 32: 4e-6, 64: 5.5e-6}


def rows(settings: Settings) -> list[Row]:
    return [row for usual in ASKED for row in job(settings.ranks(usual), _measure, settings)]


def _measure(contest: Contest) -> list[Row]:
    ranks = contest.comm.size
    (summed,) = contest.run([collective(contest.comm, "all_reduce", 8)])
    each = [seconds / ranks for seconds in summed.seconds]
    return [Row(f"all_reduce 8, {ranks} ranks, a rank", each, asked=ASKED.get(ranks), wrong=summed.wrong)]
