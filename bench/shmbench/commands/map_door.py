"""`shmbench compare --door map`: a function of many items through shmcoll, joblib, `multiprocessing.Pool` and
`ProcessPoolExecutor`, in turn, in one process; and the first call of a process, in a new one each time.

"map" is `shmcoll.map`, which starts its ranks and ends them in each call; "ranks" is `Ranks.map`. The others keep their
processes, too.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from shmbench.cli.sizes import microseconds, short_size
from shmbench.commands.door import Line

OURS = ("map", "ranks")
FIRST = "the first call of a process"
_PROGRAMS = {
    "joblib": "import joblib; call = lambda: joblib.Parallel(n_jobs={n})(joblib.delayed(abs)(i) for i in range({n}))",
    "Pool": "import multiprocessing\ndef call():\n with multiprocessing.Pool({n}) as pool: pool.map(abs, range({n}))",
    "executor": "import concurrent.futures\ndef call():\n"
    " with concurrent.futures.ProcessPoolExecutor({n}) as pool: list(pool.map(abs, range({n})))",
    "map": "import shmcoll; call = lambda: shmcoll.map(abs, range({n}), n={n})",
}
_TIMED = "import numpy, time\nbegin = time.perf_counter()\n{program}\ncall()\nprint(time.perf_counter() - begin)"


def lines(given: argparse.Namespace) -> Iterator[Line]:
    """Yield each line when all rounds have measured it."""
    from shmbench.doors.map import ways, works

    with ways(given.ranks) as there:
        given.there = list(there)
        if given.call in FIRST:
            yield _first(given)
        for work in works(given.quick):
            if given.call not in work.name:
                continue
            times: dict[str, list[float]] = {name: [] for name in there}
            wrong = 0
            for turn in range(given.rounds + 1):  # the first is not counted: memory is touched, chunks are measured
                for name, way in there.items():
                    begin = time.perf_counter()
                    results = way(work.fn, work.items)
                    spent = time.perf_counter() - begin
                    wrong += sum(not work.right(number, value) for number, value in enumerate(results))
                    wrong += abs(len(results) - len(work.items))
                    del results
                    if turn:
                        times[name].append(1e6 * spent)
            yield Line(f"{len(work.items):,} {work.name}", times, wrong, work.bytes)


def _first(given: argparse.Namespace) -> Line:
    times: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        for name, program in _PROGRAMS.items():
            if name in given.there:
                text = _TIMED.format(program=program.format(n=given.ranks))
                done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
                times.setdefault(name, []).append(1e6 * float(done.stdout))
    return Line(FIRST, times, 0, 0)


def head(given: argparse.Namespace) -> str:
    columns = "".join(f"{name:>12}" for name in ("joblib", "Pool", "executor", *OURS))
    return (
        f"# a function of many items, {given.ranks} processes: microseconds of a call, medians of {given.rounds} "
        f"rounds in turn;\n"
        f"# map: shmcoll.map, with new ranks; ranks: Ranks.map; ratio: of these, the faster one over the fastest of\n"
        f"# the others; every result checked\n"
        f"#\n"
        f"# {'call':<32}{'bytes':>8}{columns}{'ratio':>8}"
    )


def text(line: Line) -> str:
    times = {name: median(each) for name, each in line.microseconds.items()}
    columns = "".join(
        f"{microseconds(times[name]) if name in times else '-':>12}" for name in ("joblib", "Pool", "executor", *OURS)
    )
    best = min(us for name, us in times.items() if name in OURS)
    others = min(us for name, us in times.items() if name not in OURS)
    verdict = f"  {line.wrong} wrong" if line.wrong else ""
    size = short_size(line.bytes) if line.bytes else "-"
    return f"  {line.name:<32}{size:>8}{columns}{best / others:>8.2f}{verdict}"
