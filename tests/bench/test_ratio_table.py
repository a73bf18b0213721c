"""The tables of docs/performance.md, from made-up results."""

from typing import Any

from shmbench.report.ratio_table import beyond_markdown, markdown, nodes_markdown


def run(library: str, collective: str, *rows: tuple[int, float | None, float | None]) -> dict[str, Any]:
    """Return a run of a library: sizes, microseconds out of place and in place."""
    times = [(size, *({"time": time} if time else None for time in both)) for size, *both in rows]
    table = {"rows": [{"size": size, "out_of_place": out, "in_place": inside} for size, out, inside in times]}
    return {"library": library, "collective": collective, "ranks": 2, "error": None, "table": table}


def test_cells_are_ratios_to_the_fastest_peer_and_to_the_limit():
    results = [
        run("shmcoll", "all_gather", (32, 1, 2), (1 << 20, 30, 10)),
        run("mpich", "all_gather", (32, 4, 2), (1 << 20, 60, 8)),
        run("openmpi", "all_gather", (32, 2, 4), (1 << 20, 40, 80)),
        run("limit", "all_gather", (1 << 20, 20, 9)),
        run("memcpy", "all_gather", (1 << 20, 5, None)),  # of an older file: neither a peer nor the limit
        run("shmcoll", "broadcast", (8, None, 3)),
        run("mpich", "broadcast", (8, None, 1)),
    ]
    assert markdown(results).splitlines() == [
        "| | 8 | 1M |",
        "|---|---|---|",
        "| all_gather | 0.50 | 0.75, 1.50 |",
        "| all_gather, in place | 1.00 | 1.25, 1.11 |",
        "| broadcast | 3.00 |  |",
        "",
        "Geometric mean of 5 cells: 1.07. Above 0.95: all_gather, in place 8 1.00; "
        "all_gather, in place 1M 1.25 (1.11 of the limit); broadcast 8 3.00.",
    ]


def test_what_is_behind_stands_beside_reads_by_the_kernel_too():
    """They are the limit of a library that gets private arrays."""
    limit = run("limit", "scatter", (1 << 20, 20, None))
    ways = {"reads, through the caches": 50, "reads, past the caches": 40, "loads, through the caches": 20}
    limit["table"]["rows"][0]["out_of_place"]["ways"] = [{"way": way, "time": time} for way, time in ways.items()]
    results = [run("shmcoll", "scatter", (1 << 20, 44, None)), run("mpich", "scatter", (1 << 20, 40, None)), limit]
    told = "Above 0.95: scatter 1M 1.10 (2.20 of the limit, 1.10 of reads)."
    assert markdown(results).endswith(told)


def test_a_library_that_failed_once_is_no_peer():
    failed = {"library": "mpich", "collective": "barrier", "ranks": 2, "error": "it ended", "table": None}
    results = [run("shmcoll", "barrier", (0, 1, None)), run("openmpi", "barrier", (0, 2, None)), failed]
    results.append(run("mpich", "barrier", (0, 0.1, None)))
    assert "| barrier | 0.50 |" in markdown(results)
    assert "No cell is above 0.95." in markdown(results)


def test_cells_over_nodes_have_the_time_beside_the_ratio():
    lines = [
        {"collective": "scan", "size": 8, "flat": [20e-6, 10e-6, 30e-6], "shmcoll": [10e-6] * 3},
        {"collective": "scan", "size": 4 << 20, "flat": [2e-3], "shmcoll": [2.346e-3]},
    ]
    assert nodes_markdown({"lines": lines}).splitlines()[2] == "| scan | 10 us, 0.50 | 2.35 ms, 1.17 |"


def test_rows_beyond_the_peers_have_what_is_beside_them():
    row = {"what": "a call", "figure": 2e-6, "beside": "another", "beside_figure": 4e-6, "ratio": 0.5}
    rows = [row, {"what": "alone", "figure": 3e-3, "beside": None, "beside_figure": None, "ratio": None}]
    assert beyond_markdown(rows).splitlines()[2:] == [
        "| a call | 2 us | another: 4 us | 0.50 |",
        "| alone | 3 ms |  |  |",
    ]
