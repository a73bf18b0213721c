"""The command `shmbench`: read the options, then become `shmrun` with the number of ranks asked for.

Its subcommands: `compare` starts one job after another, of shmcoll and its peers. `plot` draws the results of runs, and
`diff` compares them. `predict` computes the cost formulas for more ranks. `tune` measures the thresholds of later jobs.
`beyond` measures features that the peers do not have. `--door` measures what a front end adds to calls;
`compare --door` measures a front end beside the library that its users come from; `compare --nodes` measures shmcoll
over simulated nodes beside MPI.

Inside a job that has been started already (`shmrun -n 4 -m shmbench all_reduce`, `mpiexec -n 16 shmbench all_reduce`)
the process is a rank itself.
"""

import os
import sys
from importlib import import_module
from typing import NoReturn

from shmrun.cli.printing import printing

from shmbench.cli.options import SUBCOMMANDS, Options, parse


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark. Returns 0, or 1 if a result was wrong. Exits with 2 for wrong options (SystemExit)."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["compare"] and "--door" in arguments:
        return printing("shmbench", lambda: int(import_module("shmbench.commands.door_compare").main(arguments[1:])))
    if arguments[:1] == ["compare"] and any(word.partition("=")[0] == "--nodes" for word in arguments):
        return printing("shmbench", lambda: int(import_module("shmbench.commands.nodes_compare").main(arguments[1:])))
    if arguments and arguments[0] in SUBCOMMANDS:
        return printing("shmbench", lambda: int(import_module(f"shmbench.commands.{arguments[0]}").main(arguments[1:])))
    if any(word.partition("=")[0] == "--door" for word in arguments):
        return printing("shmbench", lambda: int(import_module("shmbench.commands.door").main(arguments)))
    if "SHMCOLL_ARENA" not in os.environ and not _is_rank_of_mpi():
        _become_job(parse(arguments), arguments)
    from shmbench.commands.worker import main as work

    return work(arguments)


def _is_rank_of_mpi() -> bool:
    """Return whether mpiexec or srun has started this process as a rank of a job."""
    from shmcoll.startup.launchers import MPI_LAUNCHERS, SeveralMachines, find_placement

    try:
        place = find_placement(os.environ)
    except SeveralMachines:
        return True
    return place is not None and place.launcher in MPI_LAUNCHERS


def _become_job(options: Options, arguments: list[str]) -> NoReturn:
    from shmcoll.engine.system.interpreter import interpreter_environment

    if options.conditions.neighbour and not options.neighbour_pid:
        from shmbench.timing.neighbour import start

        # It stays a child of this process, which becomes shmrun, and ends with it.
        arguments = [*arguments, "--neighbour", str(start(options.conditions.neighbour).pid)]
    if sys.stdout:
        sys.stdout.flush()
    shared = ["--share-arrays"] if options.conditions.share_arrays else []
    command = [
        sys.executable,
        "-m",
        "shmrun",
        "-n",
        str(options.ranks),
        *shared,
        "-m",
        "shmbench.commands.worker",
        *arguments,
    ]
    os.execve(sys.executable, command, interpreter_environment(os.environ, sys.path))


if __name__ == "__main__":
    sys.exit(main())
