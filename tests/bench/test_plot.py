"""Pictures: what is drawn from which results, and what is told instead when there is nothing to draw."""

import json
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest
from shmbench.cli.sizes import short_size
from shmbench.commands import plot
from shmbench.report import curves
from shmbench.timing.peers import PEERS

from tests.support.benched import shmbench

needs_matplotlib = pytest.mark.skipif(
    find_spec("matplotlib") is None, reason="matplotlib is not installed: pip install 'shmcoll[bench]'"
)


def document(library="shmcoll", times=None, *, collective="all_reduce", ranks=2, wrong=0, in_place=True):
    """What `shmbench -J` writes, as far as pictures need it; times: {size: microseconds}, in place half of it."""

    def timing(size, time):
        return {"time": time, "busbw": size / time / 1e3}

    return {
        "format": 1,
        "library": library,
        "machine": {"processor": "Some CPU", "cores": 2},
        "collective": collective,
        "ranks": ranks,
        "rows": [
            {
                "size": size,
                "type": "float32",
                "redop": "sum",
                "out_of_place": timing(size, time),
                "in_place": timing(size, time / 2) if in_place else None,
            }
            for size, time in (times or {8: 2.0, 1 << 20: 500.0}).items()
        ],
        "wrong": wrong,
    }


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def test_a_curve_for_each_library_and_placement():
    chart = curves.chart([document(), document("MPICH", {4096: 8.0}, in_place=False)])
    assert chart.title == "all_reduce, 2 ranks, float32 sum"
    assert chart.machine == "Some CPU, 2 cores"
    assert chart.curves == [
        curves.Curve("shmcoll", "out_of_place", [8, 1 << 20], [2.0, 500.0], [8 / 2e3, 2**20 / 500e3]),
        curves.Curve("shmcoll", "in_place", [8, 1 << 20], [1.0, 250.0], [8 / 1e3, 2**20 / 250e3]),
        curves.Curve("MPICH", "out_of_place", [4096], [8.0], [4096 / 8e3]),
    ]


def test_results_of_one_library_are_joined_and_medians_taken():
    chart = curves.chart([document(times=times) for times in ({64: 9.0}, {8: 2.0, 64: 4.0}, {64: 5.0})])
    assert chart.title == "shmcoll: all_reduce, 2 ranks, float32 sum"
    assert [(curve.sizes, curve.times) for curve in chart.curves] == [([8, 64], [2.0, 5.0]), ([8, 64], [1.0, 2.5])]


def results(*names_and_documents):
    return [curves.Results(Path(name), "", documents) for name, *documents in names_and_documents]


def test_before_and_after_of_a_library_are_two_curves():
    before, after = document(times={8: 2.0}, in_place=False), document(times={8: 1.0}, in_place=False)
    chart = curves.chart(curves.labelled(results(("a.json", before), ("b.json", after))))
    assert [(curve.name, curve.times, curve.age) for curve in chart.curves] == [
        ("shmcoll, a", [2.0], 1),
        ("shmcoll, b", [1.0], 0),
    ]
    labels = [d["label"] for d in curves.labelled(results(("x/a.json", before), ("y/a.json", after)))]
    assert labels == ["x/a.json", "y/a.json"]


def test_files_with_different_sizes_of_a_library_are_one_curve():
    parts = [document(times={size: 2.0}, in_place=False) for size in (8, 64)]
    (curve,) = curves.chart(curves.labelled(results(("a.json", parts[0]), ("b.json", parts[1])))).curves
    assert (curve.name, curve.sizes) == ("shmcoll", [8, 64])


def test_a_comparison_is_one_curve_for_each_library():
    """Its rounds share sizes; the file is one."""
    (curve,) = curves.chart(curves.labelled(results(("a.json", *[document(in_place=False)] * 3)))).curves
    assert curve.name == "shmcoll"


@needs_matplotlib
def test_a_library_has_its_colour_in_every_picture():
    from shmbench.report import picture

    def colours(*documents):
        return picture.colours_of(curves.chart(documents).curves)

    both = colours(document("Open MPI"), document())
    assert both == {"Open MPI": "#D55E00", "shmcoll": "#0072B2"}
    assert colours(document()) == {"shmcoll": "#0072B2"}
    assert colours(document("mine"), document("Open MPI"))["Open MPI"] == "#D55E00"
    assert {peer.title for peer in PEERS.values()} | {"shmcoll", "limit"} == picture.COLOURS.keys()
    older = picture.colours_of([curves.Curve("shmcoll", "in_place", [8], [1.0], [1.0], label=str(age), age=age)
                                for age in range(4)])  # fmt: skip
    assert len(set(older.values())) == 4 and older["shmcoll, 0"] == "#0072B2"


@needs_matplotlib
@pytest.mark.slow
def test_before_and_after_in_one_picture(tmp_path):
    files = [
        write(tmp_path / name, document(times={8: t, 64: t})) for name, t in (("old.json", 2.0), ("new.json", 1.0))
    ]
    shmbench("plot", *files, "-o", tmp_path / "x.svg")
    shmbench("plot", f"before={files[0]}", f"after={files[1]}", "-o", tmp_path / "y.svg")
    assert all((tmp_path / "x.svg").read_text().count(f">shmcoll, {name}<") == 2 for name in ("old", "new"))
    assert all((tmp_path / "y.svg").read_text().count(f">shmcoll, {name}<") == 2 for name in ("before", "after"))


def test_what_compare_writes_is_read_too(tmp_path):
    failed = {"library": "gloo", "error": "exit code 1", "table": None}
    content = {"format": 1, "results": [{"library": "shmcoll", "error": None, "table": document()}, failed]}
    assert curves.read(write(tmp_path / "peers.json", content)) == [document()]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([1], "not JSON that shmbench -J"),
        ({"format": 1}, "not JSON that shmbench -J"),
        (document() | {"rows": []}, "not JSON that shmbench -J"),
        (document() | {"format": 7}, "format 7, and this shmbench reads 1"),
        (document(wrong=3), "3 wrong elements from shmcoll: not drawn"),
    ],
)
def test_files_that_are_not_drawn(content, told, tmp_path):
    with pytest.raises(ValueError, match=told) as caught:
        curves.read(write(tmp_path / "x.json", content))
    assert "x.json" in str(caught.value)


def test_only_one_case_goes_into_a_picture():
    with pytest.raises(ValueError, match="here are 2: all_reduce, 2 ranks, float32 sum; all_reduce, 4 ranks"):
        curves.chart([document(), document(ranks=4)])
    with pytest.raises(ValueError, match="no results"):
        curves.chart([])
    for draw in (curves.chart, curves.charts):
        with pytest.raises(ValueError, match="no sizes"):
            draw([document(times={0: 1.0})])


def test_a_chart_for_each_case_with_sizes():
    drawn = curves.charts(
        [document(), document(ranks=4), document("MPICH"), document(collective="barrier", times={0: 1.0})]
    )
    assert [(chart.title, len(chart.curves)) for chart in drawn] == [
        ("all_reduce, 2 ranks, float32 sum", 4),
        ("shmcoll: all_reduce, 4 ranks, float32 sum", 2),
    ]


def test_sizes_as_people_write_them():
    assert [short_size(size) for size in (8, 1023, 1024, 1536, 64 << 20, 1 << 30)] == [
        "8",
        "1023",
        "1K",
        "1.5K",
        "64M",
        "1G",
    ]


@pytest.mark.parametrize(
    ("output", "told"),
    [("x.gif", "-o x.gif: a picture's name ends in .png, .svg, .pdf"), ("no/such/x.png", "there is no folder no/such")],
)
def test_a_picture_that_cannot_be_written(output, told, capsys):
    with pytest.raises(SystemExit, match="2"):
        plot.main(["x.json", "-o", output])
    assert told in capsys.readouterr().err


def test_without_matplotlib(monkeypatch, capsys):
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        plot.main(["x.json", "-o", "x.png"])
    complaint = capsys.readouterr().err
    assert "matplotlib: pip install 'shmcoll[bench]'" in complaint and complaint.count("\n") == 1


@needs_matplotlib
def test_the_results_of_a_run_are_drawn(tmp_path):
    kept, out = tmp_path / "run.json", tmp_path / "run.png"
    shmbench("all_reduce", "-n", 2, "-e", "4K", "--iters", "5", "--rounds", "1", "-w", "1", "-J", kept)
    shmbench("plot", kept, "-o", out)
    head = out.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">2I", head[16:]) == (1650, 720)


@pytest.mark.slow
@needs_matplotlib
def test_one_point_and_no_bandwidth(tmp_path):
    alone = document(times={8: 1.0}, ranks=1, in_place=False)
    alone["rows"][0]["out_of_place"]["busbw"] = 0.0
    done = shmbench("plot", write(tmp_path / "a.json", alone), "-o", tmp_path / "x.svg")
    assert (done.stdout, done.stderr) == ("", "")  # matplotlib warns of limits that are equal


@pytest.mark.slow
@needs_matplotlib
def test_several_results_in_one_picture(tmp_path):
    ours, theirs = write(tmp_path / "a.json", document()), write(tmp_path / "b.json", document("Open MPI", {8: 3.0}))
    other = write(tmp_path / "c.json", document(collective="gather", ranks=4))
    shmbench("plot", ours, theirs, other, "-o", tmp_path / "all.svg")
    assert all(
        f">{case}, float32 sum<" in (tmp_path / "all.svg").read_text()
        for case in ("all_reduce, 2 ranks", "shmcoll: gather, 4 ranks")
    )

    pictures = []
    for name in ("x.svg", "y.svg"):
        shmbench("plot", ours, theirs, other, "-c", "all_reduce", "-n", 2, "-o", tmp_path / name)
        pictures.append((tmp_path / name).read_text())
    assert pictures[0] == pictures[1]
    title, styles = "all_reduce, 2 ranks, float32 sum", "solid: out of place"
    assert all(text in pictures[0] for text in (title, styles, "Time of a call", "Bus bandwidth", "Some CPU, 2 cores"))
    assert pictures[0].count("Open MPI") == pictures[0].count("shmcoll") >= 2  # a name in each half
