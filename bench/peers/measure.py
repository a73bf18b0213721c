"""Measure the peers beside shmcoll with shmbench's own harness: `python bench/peers/measure.py -o peers.json`.

Installs each peer in a virtual environment (about 1.6 GB in all), runs every library in turn at every size and rank
count, all that several times over, so that a noisy minute hurts them alike, and writes one JSON document with all the
tables, as `shmbench -J` writes them. One repetition takes about five minutes. shmcoll is the one that can be imported.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from operator import itemgetter
from pathlib import Path
from statistics import median

from install import PEERS, install
from start import run

SIZES = ["8", "256K", "4M", "64M"]
TABLES = {"barrier": [""], "all_reduce": SIZES, "all_to_all": ["64M"], "gather": ["64M"]}


def main() -> int:
    given = _parser().parse_args()
    folder = given.folder.absolute()
    for library in given.libraries:
        if library in PEERS:
            install(library, folder)
    results = []
    for ranks in given.ranks:
        for name, sizes in TABLES.items():
            for size, _, library in product(sizes, range(given.repeat), given.libraries):
                results.append(_measure(library, folder / library, name, size, ranks, given.timeout))
                given.output.write_text(json.dumps({"format": 1, "results": results}, indent=1) + "\n")
    print(*_summary(results), sep="\n")
    return 1 if any(result["error"] for result in results) else 0


def _measure(library: str, home: Path, name: str, size: str, ranks: int, timeout: float) -> dict:
    """One table on one library: {library, collective, size, ranks, error, table}."""
    print(f"{library}: {name} {size}, {ranks} ranks", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "table.json"
        sizes = ["-b", size, "-e", size] if size else []
        error = run(library, home, [name, "-n", str(ranks), *sizes, "-J", str(out)], ranks, timeout)
        table = json.loads(out.read_text()) if out.exists() else None
    return {"library": library, "collective": name, "size": size, "ranks": ranks, "error": error, "table": table}


def _summary(results: list[dict]) -> Iterator[str]:
    """A line for each library and case: the median over the repetitions out of place and in place, or what failed."""
    same = itemgetter("ranks", "collective", "size", "library")
    for case in dict.fromkeys(map(same, results)):
        ranks, name, size, library = case
        runs = [result for result in results if same(result) == case]
        errors = [result["error"] for result in runs if result["error"]]
        rows = [result["table"]["rows"][0] for result in runs if not result["error"]]
        cells = [f"{len(errors)} of {len(runs)}: {errors[0]}"] if errors else []
        for placement in ("out_of_place", "in_place"):
            times = [row[placement]["time"] for row in rows if row[placement]]
            cells += [f"{median(times):.2f} us"] if times else []
        yield f"{ranks:>3} ranks  {name:<12}{size:>6}  {library:<8}" + "".join(f"{cell:>16}" for cell in cells)


def _parser() -> argparse.ArgumentParser:
    libraries = ["shmcoll", *PEERS]
    parser = argparse.ArgumentParser(description="Measure shmcoll, MPI libraries and gloo on this machine.")
    parser.add_argument("--folder", type=Path, default=Path(".peers"), help="where the environments live (.peers)")
    parser.add_argument("--libraries", nargs="+", choices=libraries, default=libraries, metavar="NAME",
                        help=f"which of {', '.join(libraries)} (all)")  # fmt: skip
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="repetitions of everything (3)")
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 8], metavar="N", help="rank counts (2 8)")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds a table may take (120)")
    parser.add_argument("-o", "--output", type=Path, default=Path("peers.json"), help="the JSON (peers.json)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
