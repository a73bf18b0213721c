"""What `shmrun --help` and `shmrun doctor --help` and the like say."""

from shmrun.cli.settings import SETTINGS, Setting

_MORE_NAMES = {"ranks": ", -np, --nproc-per-node, --worker_num"}

_BEGIN = """\
usage: shmrun -n RANKS [options] script.py [arguments]
       shmrun -n RANKS [options] -m MODULE | -c CODE | - [arguments]
       shmrun doctor        whether this machine is fit for shmcoll, and what would make it fitter
       shmrun warm          compile ahead what the first job would have to compile
       shmrun ps            the jobs that run, whoever started them
       shmrun inspect [JOB] where each rank of a running job stands, and who keeps the others waiting

Run a program as several ranks on this machine, joined by shared memory.

options:
"""

_END = """\
  -m MODULE [arguments]
        run a Python module, with its arguments
  -c CODE [arguments]
        run Python code
  - [arguments]
        run the Python code on the standard input; every rank gets a copy
  --version
        print the version and exit

Every option may also stand in the environment, as the variable in brackets, or in pyproject.toml, in this directory or
one above it: [tool.shmrun] with ranks = 4, tag-output = true, env = { NAME = "value" } and so on. The command line
comes first, then the environment, then pyproject.toml. A switch is taken back by --no-, as in --no-report.

Options of mpiexec, torchrun and msrun mean here what they mean there, as far as that is possible on one machine;
unknown ones are named in a warning and ignored.

examples:
  shmrun -n 4 train.py --epochs 3     a Python script on 4 ranks
  shmrun -n auto -m package.module    a module, one rank per usable core
  shmrun -n 2 -l ./program args       any executable, its output lines marked with the rank

Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, RANK_ID, RANK_SIZE, DEVICE_ID, MASTER_ADDR and
MASTER_PORT in its environment. The exit code is that of the rank that failed first (128 + signal when it was killed),
124 when --timeout is over, 130 after Ctrl-C. Press Ctrl-C twice to kill all ranks at once. Ctrl-\\ (SIGQUIT)
shows where each rank is, with its Python stack, and the job goes on.
"""

SUBCOMMANDS = {
    "doctor": """\
usage: shmrun doctor

Say whether this machine is fit for shmcoll, and what would make it fitter: cores, shared memory, limits, the cache of
compiled routines, versions, whether waiting ranks poll. The exit code is 1 when something keeps ranks from running.
""",
    "warm": """\
usage: shmrun warm [--all]

Compile the routines ahead, for images and CI, so that the first job starts at once. --all: the reductions of all_reduce
for every dtype as well, each of which is otherwise compiled when it is first used. SHMCOLL_CACHE_DIR says where to.
""",
    "ps": """\
usage: shmrun ps

The jobs of this user, whoever started them: the pid of who made it (shmrun, or rank 0), eight digits that tell it from
others, ranks, age, what it does, its command.
""",
    "inspect": """\
usage: shmrun inspect [JOB] [-v] [--stacks]

Where each rank of a running or hanging job stands: its last operation, since when, whom it waits for; and who keeps the
others waiting. JOB is what `shmrun ps` prints, or the pid of a rank; it may be left out when there is one only. The job
takes no notice. -v: the last operations of each rank, too. --stacks: each rank's Python stack, by a signal that ranks
catch and answer, even in native code.
""",
}


def text() -> str:
    """The help of shmrun itself."""
    return _BEGIN + "".join(_entry(setting) for setting in SETTINGS.values()) + _END


def _entry(setting: Setting) -> str:
    value = f" {setting.metavar}" if setting.metavar else ""
    short = f"{setting.short}{value}, " if setting.short else ""
    names = f"  {short}--{setting.name}{value}{_MORE_NAMES.get(setting.name, '')}"
    return f"{names}\n" + "".join(f"        {line}\n" for line in _wrapped(setting))


def _wrapped(setting: Setting) -> list[str]:
    """The help text in lines of at most 100 characters; textwrap would take longer to import than all the rest."""
    lines = [""]
    for word in f"{setting.help} [{setting.variable}]".removesuffix(" []").split():
        if len(lines[-1]) + len(word) > 100:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
