"""The command `shmbench`: read the options, then become `shmrun` with the number of ranks asked for.

Its subcommands: `compare` starts one job after another, of shmcoll and its peers. `plot` draws the results of runs, and
`diff` compares them. `timeline` draws a timeline of `shmrun --trace`. `tune` measures the thresholds of later jobs.
`beyond` measures features that the peers do not have. `--door` measures what a front end adds to calls;
`compare --door` measures a front end beside the library that its users come from; `compare --nodes` measures shmcoll
over simulated nodes beside MPI. `growth` compares for several numbers of ranks, and `start` times jobs that do nothing.

Inside a job that has been started already (`shmrun -n 4 -m shmbench all_reduce`, `mpiexec -n 16 shmbench all_reduce`)
the process is a rank itself.
"""

import _signal  # type: ignore[import-not-found]  # `signal` would import more

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # Ctrl-C ends this process without a traceback of imports

import os
import sys
from importlib import import_module
from typing import NoReturn

from shmrun.cli.printing import interruptible, printing

from shmbench.cli.options import SUBCOMMANDS, Options, parse


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark. Returns 0, or 1 if a result was wrong. Exits with 2 for wrong options (SystemExit)."""
    arguments = sys.argv[1:] if argv is None else argv
    name, rest = _subcommand(arguments)
    if name:
        command = import_module(f"shmbench.commands.{name}").main
        with interruptible():
            return printing("shmbench", lambda: int(command(rest)))
    if "SHMCOLL_ARENA" not in os.environ and not _is_rank_of_mpi():
        _become_job(parse(arguments), arguments)
    from shmbench.commands.worker import main as work

    with interruptible():
        return work(arguments)


def _subcommand(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the module of a subcommand, or '', and its arguments."""
    flags = {word.partition("=")[0] for word in arguments}
    if "--door" in flags and arguments[0] not in set(SUBCOMMANDS) - {"compare"}:
        return "door", arguments
    if arguments[:1] == ["compare"] and "--nodes" in flags:
        return "nodes_compare", arguments[1:]
    if arguments and arguments[0] in SUBCOMMANDS:
        return arguments[0], arguments[1:]
    return "", arguments


def _is_rank_of_mpi() -> bool:
    """Return whether mpiexec or srun has started this process as a rank of a job."""
    from shmcoll.startup.launchers import MPI_LAUNCHERS, SeveralMachines, find_placement

    try:
        place = find_placement(os.environ)
    except SeveralMachines:
        return True
    return place is not None and place.launcher in MPI_LAUNCHERS


def _become_job(options: Options, arguments: list[str]) -> NoReturn:
    from shmcoll.engine.system.interpreter import flags, interpreter_environment

    if options.conditions.neighbour and not options.neighbour_pid:
        from shmbench.timing.neighbour import start

        # It stays a child of this process, which becomes shmrun, and ends with it.
        arguments = [*arguments, "--neighbour", str(start(options.conditions.neighbour).pid)]
    if sys.stdout:
        sys.stdout.flush()
    shared = ["--share-arrays"] if options.conditions.share_arrays else []
    command = [
        sys.executable,
        *flags(),
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
