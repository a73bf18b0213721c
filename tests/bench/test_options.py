"""Every mistake in the options is one line on stderr and exit code 2."""

import subprocess
import sys

import pytest
from shmbench.cli.options import COLLECTIVES, parse

from tests.support.patience import PATIENCE


def test_flags():
    line = "all_reduce -n 2 -b 8 -e 64M -f 8 -d float -o max --iters 7 -w 0 --rounds 3 -c 0"
    o = parse(line.split())
    assert (o.collective, o.ranks, o.min_bytes, o.max_bytes, o.factor) == ("all_reduce", 2, 8, 64 << 20, 8)
    assert (o.dtype, o.op, o.iters, o.warmup, o.rounds, o.check) == ("float32", "max", 7, 0, 3, False)


def test_sizes_may_be_listed():
    assert parse(["gather", "--sizes", "8,16K,1M"]).sizes == (8, 16 << 10, 1 << 20)
    assert parse(["gather"]).sizes == ()


def test_ranks_come_from_the_job_when_not_given():
    assert parse(["barrier"], ranks=5).ranks == 5
    assert parse(["barrier", "-n", "3"], ranks=5).ranks == 3


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("reduce_all", "unknown collective 'reduce_all'"),
        ("", "collective"),
        ("all_reduce -d float31", "unknown dtype 'float31'"),
        ("all_reduce -o xor", "unknown op 'xor'"),
        ("all_reduce -b 8Q", "'8Q' is no size"),
        ("all_reduce -b 0", "'0' is no size"),
        ("all_reduce -b 2K -e 1K", "-b 2048 is larger than -e 1024"),
        ("all_reduce -f 1", "'1' is no whole number of at least 2"),
        ("all_reduce -n 0", "'0' is no whole number of at least 1"),
        ("all_reduce --iters many", "'many' is no whole number"),
        ("all_reduce -o avg -d int32", "avg of int32"),
        ("scan -o avg", "scan has no running average"),
        ("reduce_scatter -o avg -d int32", "avg of int32"),
        ("all_reduce --algorithm chain", "--algorithm chain is not one of all_reduce: flat, ring, cells"),
        ("gather --algorithm ring", "--algorithm ring is not one of gather: there is only one"),
        ("gather --sizes 8,,16", "'' is no size"),
        ("gather -n 4 -r 4", "-r 4 is not a rank of 4"),
        ("gather -J no/such/folder/x.json", "there is no folder no/such/folder"),
        ("barrier --limit", "--limit: barrier moves nothing"),
        ("gather --what", "--what"),
    ],
)
def test_mistakes_are_told_in_one_line(line, told, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(line.split())
    assert caught.value.code == 2
    complaint = capsys.readouterr().err
    assert told in complaint
    assert complaint.count("\n") == 1


def test_help_names_everything_and_loads_no_numpy():
    code = (
        "import sys; from shmbench.__main__ import main\n"
        "try: main(['--help'])\n"
        "finally: sys.stderr.write(str('numpy' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0
    assert done.stderr == "False"
    assert all(name in done.stdout for name in COLLECTIVES)
