"""all_reduce over a link of limited speed: flat MPI and shmcoll in turn, beside what the link alone needs.

    python bench/limited_link.py --bits 1e9 --sizes 4M,16M,64M --rounds 5     # in a clone, as root

It makes two nodes on this machine (`tests/nodes/network.py`) and limits what each of them sends. Then mpiexec starts
two ranks on each, which run `bench/peers/nodes.py`. mpiexec and mpi4py are those of the interpreter and of the PATH, as
in `make test-nodes`.

With 2 nodes every byte of an array must leave each node once: the link alone needs 8 S / bits seconds for S bytes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "launcher")]

from shmbench.cli.flags import at_least, size_list  # noqa: E402
from shmbench.cli.sizes import short_size  # noqa: E402
from shmbench.report.json_report import write  # noqa: E402

try:
    from tests.nodes import started
    from tests.nodes.network import Network, NoNetwork
except ModuleNotFoundError as missing:
    sys.exit(f"limited_link.py needs {missing.name}, as the tests do: pip install -e '.[test]'")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--bits", type=float, default=1e9, metavar="N", help="bits a second that each node can send (1e9); 0: no limit")
    add("--sizes", type=size_list, default="4M,16M,64M", metavar="SIZE,...", help="(4M,16M,64M)")
    add("--per-node", type=at_least(1), default=2, metavar="N", help="ranks of each node (2)")
    add("--rounds", type=at_least(1), default=5, metavar="N", help="rounds, whose medians are compared (5)")
    add("-J", "--json", type=Path, metavar="FILE", help="write all figures")
    given = parser.parse_args()
    if given.bits and not 1e3 <= given.bits <= 1e12:
        parser.error(f"--bits {given.bits:g}: give 1e3 to 1e12, or 0 for no limit")
    try:
        found = measured(given)
    except NoNetwork as reason:
        sys.exit(f"limited_link.py: {reason}")
    found["bits"] = given.bits
    found["load"] = os.getloadavg()[0]
    print(f"# {found['mpi']}; shmcoll {found['shmcoll']}; {given.per_node} ranks on each of 2 nodes; ms, medians")
    print(f"# {'all_reduce':<12}{'link alone':>12}{'flat MPI':>12}{'shmcoll':>12}{'flat/link':>12}{'shmcoll/link':>14}")
    for line in found["lines"]:
        alone = 8 * line["size"] / given.bits if given.bits else float("nan")
        flat, ours = median(line["flat"]), median(line["shmcoll"])
        times = "".join(f"{1e3 * one:>12.1f}" for one in (alone, flat, ours))
        ratios = f"{flat / alone:>12.2f}{ours / alone:>14.2f}"
        print(f"  {short_size(line['size']):<12}{times}{ratios}{'  WRONG' * bool(line['wrong'])}")
    if given.json:
        write(given.json, found)


def measured(given: argparse.Namespace) -> dict:
    """Run the job, and return what its ranks have measured."""
    with tempfile.TemporaryDirectory() as scratch:
        network = Network(Path(scratch), memory="2g")
        try:
            if given.bits:
                network.limit(int(given.bits))
            out = Path(scratch) / "found.json"
            asked = {
                "nodes": 2,
                "collectives": ["all_reduce"],
                "sizes": given.sizes,
                "rounds": given.rounds,
                "out": str(out),
            }
            nodes = "a" * given.per_node + "b" * given.per_node
            script = str(ROOT / "bench/peers/nodes.py")
            path = os.pathsep.join([str(ROOT / "bench"), str(ROOT / "launcher"), str(ROOT)])
            subprocess.run(
                started.command(script, nodes, [json.dumps(asked)], network=network),
                env=started.environment(network, PYTHONPATH=path, OMP_NUM_THREADS="1"),
                stdin=subprocess.DEVNULL,
                check=True,
            )
            return json.loads(out.read_text())
        finally:
            network.close()


if __name__ == "__main__":
    main()
