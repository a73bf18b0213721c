"""The text, character for character."""

from shmbench.report import table
from shmbench.report.table import Row
from shmbench.timing.measure import Timing


def timing(microseconds, wrong=0):
    return Timing(microseconds * 1e-6, [microseconds * 1e-6], 100, wrong, pairs=16)


ROWS = [
    Row(8, 2, "float32", "sum", -1, 1.0, timing(1.234), timing(1.0)),
    Row(67108864, 16777216, "bfloat16", "none", 0, 0.5, timing(33554.432), None),
    Row(0, 0, "none", "none", -1, 0.0, timing(150.06, wrong=None), None),
]


def test_table():
    text = "\n".join([table.HEAD, *map(table.line, ROWS)])
    assert text == (
        "#\n"
        "#                                                            out-of-place                       in-place\n"
        "#       size        count       type  redop  root      time   algbw   busbw #wrong"
        "      time   algbw   busbw #wrong\n"
        "#        (B)   (elements)                              (us)  (GB/s)  (GB/s)       "
        "      (us)  (GB/s)  (GB/s)\n"
        "           8            2    float32    sum    -1      1.23    0.01    0.01      0"
        "      1.00    0.01    0.01      0\n"
        "    67108864     16777216   bfloat16   none     0     33554    2.00    1.00      0"
        "       N/A     N/A     N/A    N/A\n"
        "           0            0       none   none    -1     150.1    0.00    0.00    N/A"
        "       N/A     N/A     N/A    N/A"
    )


def test_foot_says_ok():
    assert table.foot("gather", ROWS[1:2]) == (
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n#\n# Collective test concluded: gather"
    )


def test_foot_counts_what_is_wrong_in_both_placements():
    rows = [Row(8, 2, "int8", "sum", -1, 1.0, timing(8, wrong=2), timing(8, wrong=1)), ROWS[0]]
    assert table.wrong(rows) == 3
    assert table.foot("all_reduce", rows).startswith("# Out of bounds values : 3 FAILED\n")
