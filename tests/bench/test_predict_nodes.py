"""`shmbench predict --over`: the formulas over nodes with figures made by hand in them."""

import json
import math
from pathlib import Path

import pytest
from shmbench.commands import predict, predict_nodes
from shmbench.commands.predict_nodes import FORMULAS, NODES, SIZES, Cluster

KEPT = Path(__file__).parents[2] / "docs" / "measurements"
US = 1e-6

#: a sync takes 1 us, copying a byte 1 ns, adding one 2 ns
NODE = predict.Machine(US, [(1, 1e-9)], [(1, 2e-9)], 1, 64, 1e12, math.inf, 1, 0)


def cluster(nodes: int, ranks: int = 4) -> Cluster:
    return Cluster(NODE, nodes, ranks, 10 * US, 1 * US, 1e9, 50 * US)


@pytest.mark.parametrize(("nodes", "time"), [(2, 12), (4, 14), (1024, 1034)])
def test_a_barrier_is_two_syncs_and_a_message_to_each_other_leader(nodes, time):
    assert FORMULAS["barrier"](cluster(nodes), 0) == pytest.approx(time * US)


def test_short_arrays_travel_in_the_opening():
    """4 KiB of 4 ranks: 16 KiB to each of 3 leaders, 16 KiB copied in and 64 KiB out. A sum is made in the node first:
    4 KiB to each leader, copied in and out, and the sums of 4 nodes."""
    size = 4 << 10
    expected = 14 * US + (3 * 4 + 4 + 16) * size * 1e-9
    assert FORMULAS["all_gather"](cluster(4), 16 * size) == pytest.approx(expected)
    reduced = 14 * US + (3 + 1 + 1 + 3 * 2) * size * 1e-9 + predict.all_reduce(NODE, 4, size)
    assert FORMULAS["all_reduce"](cluster(4), size) == pytest.approx(reduced)
    assert FORMULAS["all_to_all"](cluster(4), size) == pytest.approx(expected + size * 1e-9)


def test_long_sums_cross_each_link_once():
    """64 MiB of 1 rank: 2 (N - 1) / N S bytes, in two exchanges a segment, of which each rank adds up its piece."""
    size = 64 << 20
    two = (10 + 2 * 64 * 10) * US + size * 1e-9 + size / 2 * 2e-9
    assert FORMULAS["all_reduce"](cluster(2, 1), size) == pytest.approx(two)
    eight = (16 + 2 * 64 * 16) * US + 2 * 7 / 8 * size * 1e-9 + 7 / 8 * size * 2e-9
    assert FORMULAS["all_reduce"](cluster(8, 1), size) == pytest.approx(eight)


def test_a_broadcast_goes_along_a_tree():
    size = 32 << 10
    assert FORMULAS["broadcast"](cluster(1024, 1), size) == pytest.approx((10 + 1022 + 100) * US + 10 * size * 1e-9)


def run(capsys, over: Path, *options: str) -> tuple[int, str, str]:
    code = predict.main([str(KEPT / "compare-2-ranks.json"), "--over", str(over), *options])
    return code, *capsys.readouterr()


def test_what_has_been_kept(capsys):
    """The formulas are within a factor of 3 of every time in the committed comparison."""
    code, out, _ = run(capsys, KEPT / "nodes-2-ranks.json")
    assert code == 0
    checked, predicted = ([line.split() for line in part.splitlines()] for part in out.split("# predicted"))
    ratios = [float(word) for line in checked if line[0] != "#" for word in line[1:]]
    assert len(ratios) == 1 + 4 * len(SIZES)
    assert all(1 / 3 < ratio < 3 for ratio in ratios)
    rows = [line for line in predicted if line[0] in FORMULAS]
    assert len(rows) == 1 + 4 * len(SIZES)
    assert all(len(row) == len(NODES) + (1 if row[0] == "barrier" else 2) for row in rows)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "No such file"),
        ("no json", "is not what shmbench compare --nodes writes"),
        ({"format": 1, "results": []}, "is not what shmbench compare --nodes writes (KeyError: 'nodes')"),
        ({"nodes": 2, "ranks": 4, "lines": []}, "is of 4 ranks on 2 nodes: shmbench compare --nodes 2 -n 2"),
        ({"nodes": 2, "ranks": 2, "lines": []}, "needs barrier and collective_permute"),
    ],
)
def test_a_file_that_has_not_what_is_needed_is_refused_in_one_line(tmp_path, capsys, found, said):
    file = tmp_path / "nodes.json"
    if found is not None:
        file.write_text(found if isinstance(found, str) else json.dumps(found))
    code, out, error = run(capsys, file)
    assert (code, out) == (2, "")
    assert said in error and error.count("\n") == 1, error


def test_more_ranks_than_cores_are_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        run(capsys, KEPT / "nodes-2-ranks.json", "--ranks", "9", "--cores", "4")
    assert ended.value.code == 2
    assert "--ranks 9: a node has 2 sockets of 4 cores" in capsys.readouterr().err
    assert predict_nodes.NODES[-1] == 1024
