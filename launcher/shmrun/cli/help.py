"""The texts of `shmrun --help`, `shmrun doctor --help` and so on."""

from shmrun.cli.settings import SETTINGS, Setting

_MORE_NAMES = {"ranks": ", -np, --nproc-per-node, --worker_num"}

_BEGIN = """\
usage: shmrun -n RANKS [options] script.py [arguments]
       shmrun -n RANKS [options] -m MODULE | -c CODE | - [arguments]
       shmrun doctor        check whether this machine can run shmcoll
       shmrun warm          compile the routines before the first job needs them
       shmrun ps            list the running jobs
       shmrun inspect [JOB] show where each rank of a running job is, and which rank keeps the others waiting
       shmrun verdict DIR   show what --dump has kept of jobs that have failed or hung

Run a program as several ranks on this machine. The ranks communicate through shared memory.

options:
"""

_END = """\
  -m MODULE [arguments]
        run a Python module
  -c CODE [arguments]
        run Python code
  - [arguments]
        run the Python code on the standard input; every rank gets a copy
  --completion bash|zsh
        print the completion for a shell and exit; to use it: source <(shmrun --completion bash)
  --version
        print the version and exit

Each option can also be set by the environment variable in brackets, or in pyproject.toml in this directory or one above
it: [tool.shmrun] with ranks = 4, tag-output = true, env = { NAME = "value" } and so on. The command line overrides the
environment, and the environment overrides pyproject.toml. --no- turns a switch off, as in --no-report.

Options of mpiexec, torchrun and msrun have the meaning that they have there, as far as one machine allows. Unknown
options are named in a warning and ignored.

examples:
  shmrun -n 4 train.py --epochs 3     run a Python script on 4 ranks
  shmrun -n auto -m package.module    run a module, with one rank per usable core
  shmrun -n 2 -l ./program args       run any executable, and mark its output lines with the rank

Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, RANK_ID, RANK_SIZE, DEVICE_ID, MASTER_ADDR and
MASTER_PORT in its environment. The exit code is that of the rank that failed first (128 + signal if a signal killed
it), 124 if --timeout ended the job, or 130 after Ctrl-C. Press Ctrl-C twice to kill all ranks at once. Ctrl-\\
(SIGQUIT) shows where each rank is, with its Python stack; the job goes on.
"""

SUBCOMMANDS = {
    "doctor": """\
usage: shmrun doctor [--json]

Check whether this machine can run shmcoll, and say what to improve: cores, shared memory, limits, the cache of compiled
routines, versions, and whether waiting ranks poll. The exit code is 1 if ranks cannot run. --json: print JSON.
""",
    "warm": """\
usage: shmrun warm [--all | NAME...]

Compile the routines, so that the first job starts at once: for container images and CI. --all: compile the reductions
of all_reduce for every dtype as well. Without it, each of them is compiled when it is first used. NAME: compile these
only: collectives, send, recv, and reductions such as sum_float32. The compiled code is kept in the user's cache
directory, or in SHMCOLL_CACHE_DIR. Where shmcoll was installed from a wheel that brings it, nothing is compiled.
""",
    "ps": """\
usage: shmrun ps [--json]

List the running jobs of this user, whichever launcher started them: the pid of the process that made the job (shmrun,
or rank 0), the first eight digits of its random number, the number of ranks, age, state and command. --json: print
JSON.
""",
    "inspect": """\
usage: shmrun inspect [JOB] [-v] [--stacks] [--json] [--watch[=SECONDS]]

Show where each rank of a running job is: its last operation, since when, and the rank for which it waits. The last line
says which rank keeps the others waiting. JOB is the number that `shmrun ps` prints, the pid of a rank, or the pid of
the process that called shmcoll.run. It may be left out if there is only one job. The job is not disturbed. -v: show the
last operations of each rank as well. --stacks: show the Python stack of each rank; ranks answer a signal, even in
native code. --json: print JSON.

--watch: show it again every second, or every SECONDS, until the job ends, with the collectives that each rank has
called per second, and the bytes of its arrays in them. On a terminal it stays in place; elsewhere a block follows the
other; with --json each is one line. The exit code is 0 if the job has ended well, 3 if it has failed, 1 if there is no
such job.
""",
    "verdict": """\
usage: shmrun verdict DIR [-v] [--json]

Show what was kept of jobs that have failed or hung, from the files alone: DIR of --dump or SHMCOLL_DUMP, of --log-dir,
or one folder in it. It may have been copied from another machine. The last line says what has happened, and which rank
kept the others waiting. -v: show the last operations of each rank, the settings and the versions as well. --json: print
JSON.
""",
}


def text() -> str:
    """Return the help of shmrun itself."""
    return _BEGIN + "".join(_entry(setting) for setting in SETTINGS.values()) + _END


def _entry(setting: Setting) -> str:
    value = f" {setting.metavar}".replace(" [", "[") if setting.metavar else ""
    short = f"{setting.short}{value}, " if setting.short else ""
    names = f"  {short}--{setting.name}{value}{_MORE_NAMES.get(setting.name, '')}"
    return f"{names}\n" + "".join(f"        {line}\n" for line in _wrapped(setting))


def _wrapped(setting: Setting) -> list[str]:
    """Wrap the help text at 100 characters. Importing textwrap would take longer than everything else here."""
    lines = [""]
    for word in f"{setting.help} [{setting.variable}]".removesuffix(" []").split():
        if len(lines[-1]) + len(word) > 100:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
