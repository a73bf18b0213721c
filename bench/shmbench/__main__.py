"""The command `shmbench`: read the options, then become `shmrun` with as many ranks as asked for.

`shmbench compare` starts one job after another, of shmcoll and its peers; `shmbench plot` draws what runs have left,
`shmbench predict` puts more ranks into the cost formulas, `shmbench tune` measures what later jobs go by, `shmbench beyond`
what the peers have nothing like.
Inside a job that has been started already (`shmrun -n 4 -m shmbench all_reduce`) it is a rank itself.
"""

import os
import sys
from typing import NoReturn

from shmbench.options import parse


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark. Returns 0, 1 when a result was wrong, 2 when the options were (by SystemExit)."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["plot"]:
        from shmbench.plot import main as plot

        return plot(arguments[1:])
    if arguments[:1] == ["compare"]:
        from shmbench.compare import main as compare

        return compare(arguments[1:])
    if arguments[:1] == ["tune"]:
        from shmbench.tune import main as tune

        return tune(arguments[1:])
    if arguments[:1] == ["beyond"]:
        from shmbench.beyond import main as beyond

        return beyond(arguments[1:])
    if arguments[:1] == ["predict"]:
        from shmbench.predict import main as predict

        return predict(arguments[1:])
    if "SHMCOLL_ARENA" not in os.environ:
        _become_job(parse(arguments).ranks, arguments)
    from shmbench.worker import main as work

    return work(arguments)


def _become_job(ranks: int, arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "shmrun", "-n", str(ranks), "-m", "shmbench.worker", *arguments])


if __name__ == "__main__":
    sys.exit(main())
