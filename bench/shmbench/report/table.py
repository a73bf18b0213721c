"""The table as text, column for column that of nccl-tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from shmbench.cli.sizes import microseconds
from shmbench.timing.measure import Timing

HEAD = """\
#
#                                                            out-of-place                       in-place
#       size        count       type  redop  root      time   algbw   busbw #wrong      time   algbw   busbw #wrong
#        (B)   (elements)                              (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"""


@dataclass(frozen=True)
class Row:
    """One line. A placement is None if the collective has no such form. Bandwidths are in 1e9 bytes per second."""

    size: int
    count: int
    dtype: str
    op: str
    root: int
    bus_factor: float
    out_of_place: Timing | None
    in_place: Timing | None

    def algorithm_bandwidth(self, timing: Timing) -> float:
        return self.size / timing.seconds / 1e9

    def bus_bandwidth(self, timing: Timing) -> float:
        return self.algorithm_bandwidth(timing) * self.bus_factor

    @property
    def timings(self) -> list[Timing]:
        return [timing for timing in (self.out_of_place, self.in_place) if timing]


def line(row: Row) -> str:
    """Return the row as text."""
    name = f"{row.size:>12}{row.count:>13}{row.dtype:>11}{row.op:>7}{row.root:>6}"
    return name + "".join(_cells(row, timing) for timing in (row.out_of_place, row.in_place))


def _cells(row: Row, timing: Timing | None) -> str:
    if timing is None:
        return f"{'N/A':>10}{'N/A':>8}{'N/A':>8}{'N/A':>7}"
    algorithm, bus = row.algorithm_bandwidth(timing), row.bus_bandwidth(timing)
    wrong = "N/A" if timing.wrong is None else timing.wrong
    return f"{microseconds(timing.seconds * 1e6):>10}{algorithm:>8.2f}{bus:>8.2f}{wrong:>7}"


def wrong(rows: Sequence[Row]) -> int:
    """Return the number of wrong elements in all rows."""
    return sum(timing.wrong or 0 for row in rows for timing in row.timings)


def average_bus_bandwidth(rows: Sequence[Row]) -> float:
    """Return the mean over rows and placements, in GB/s."""
    return fmean(row.bus_bandwidth(timing) for row in rows for timing in row.timings)


def foot(name: str, rows: Sequence[Row]) -> str:
    """Return the lines below the table."""
    bad = wrong(rows)
    return (
        f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}\n"
        f"# Avg bus bandwidth    : {average_bus_bandwidth(rows):g}\n"
        f"#\n"
        f"# Collective test concluded: {name}"
    )
