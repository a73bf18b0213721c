"""The state that all ranks of a job share, made before the first rank starts: environment, log files, arena,
routines."""

import errno
import os
import resource
from dataclasses import dataclass, replace
from pathlib import Path

from shmcoll.engine.memory import arena as shared
from shmcoll.engine.system.processes import check_proc
from shmcoll.engine.system.refusals import refused
from shmcoll.errors import ShmcollError
from shmcoll.startup import rank_process
from shmrun.cli.printing import tell
from shmrun.cli.settings import Options
from shmrun.start import binding, log_files, terminal
from shmrun.start.program import Program, Refused

_LEAST_SPACE = 300 << 20  # bytes


@dataclass(frozen=True)
class Job:
    """The state of a job. programs: by rank. fork: ranks run in forks of this process, which has loaded the routines;
    otherwise each executes its program. terminal: the standard descriptor that is the controlling terminal, or None.
    starter: a descriptor that is ready when the process has ended whose children the ranks are; None if they are not.
    """

    options: Options
    programs: tuple[Program, ...]
    arena: shared.Arena
    fork: bool
    terminal: int | None
    starter: int | None

    @property
    def python(self) -> bool:
        """Whether all ranks run Python programs."""
        return all(program.python for program in self.programs)


def prepare(options: Options, programs: tuple[Program, ...], starter: int | None) -> Job:
    """Set the environment, make log files and arena, and load the routines if ranks will be forks.

    Raises `Refused`. Quick checks, such as that for too little memory, come before anything slow begins.
    """
    screen = terminal.controlling()
    _open_standard_descriptors()
    _check_system()
    for name in options.asked:
        for program in programs:
            if not program.python and name != "mpi":
                raise Refused(f"--{name} is for Python programs, and {program.name!r} is an executable", 2)
    _check_threads(options)
    _set_environment(options)
    _make_log_files(options)
    _check_dumps(options)
    try:
        arena = shared.create(options.ranks, timeout=options.wait_timeout, heap=options.heap, creator=os.getppid())
        fork = (
            any(one.forks for one in programs)
            and not options.fresh
            and not any(_needs_interpreter(name) for name, _ in options.env)
        )
        if fork:
            from shmcoll.startup.join import preload

            preload(lambda text: tell(f"shmrun: {text}"))
        if options.mpi:
            known = {program: _prepared_for_mpi(program) for program in set(programs)}
            programs = tuple(known[program] for program in programs)
    except (ShmcollError, ValueError) as e:
        raise Refused(str(e), 1) from e
    except (ImportError, OSError, MemoryError, SystemError) as e:
        reason = refused(e) or f"{type(e).__name__}: {_gist(e)}{_advice()}"
        raise Refused(f"cannot load what the ranks need: {reason}", 1) from e
    # With OMP_NUM_THREADS set by the user numpy's BLAS has started threads, which a fork would lose.
    return Job(options, programs, arena, fork and rank_process.threads() == 1, screen, starter)


def _prepared_for_mpi(program: Program) -> Program:
    """Return a program that finds our library of MPI. Forks of this process have it already."""
    from shmcoll.mpi import host, installed

    if program.python:
        installed.check()
        return program
    return replace(program, variables=(*program.variables, *host.environment(program.name).items()))


def _open_standard_descriptors() -> None:
    """Open those of 0, 1, 2 that are closed: otherwise the arena would get that number and a rank would print into
    it."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def _check_system() -> None:
    """Refuse what would fail later, with another message or without one."""
    try:
        check_proc()
    except ShmcollError as e:
        raise Refused(str(e), 1) from e
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= limit < _LEAST_SPACE:  # numpy's BLAS would end the process without a message of ours
        raise Refused(
            f"the limit on address space is {limit >> 20} MiB; Python with numpy takes more. Raise it (ulimit -v).", 1
        )


def _check_threads(options: Options) -> None:
    """Refuse more threads than cores for a rank, and say so if the ranks have not enough cores for theirs."""
    if options.threads < 2:
        return
    from shmcoll.engine.system.cores import usable_cores

    usable = usable_cores()
    least = min(len(binding.cores(options.bind_to, r, options.ranks, options.threads)) for r in range(options.ranks))
    most = min(usable, least)
    if options.threads > most:
        raise Refused(f"--threads {options.threads}: a rank may use {most} cores; give at most {most}", 2)
    if options.threads * options.ranks > usable:
        tell(
            f"shmrun: --threads {options.threads}: {options.ranks} ranks of so many threads share {usable} cores; "
            f"one thread each is faster"
        )


def _gist(error: BaseException) -> str:
    """Return the last line with a reason: numpy and llvmlite write much text around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [""])[-1][:300]


def _advice() -> str:
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return "; the address space is limited, perhaps to too little (ulimit -v)" if limited else ""


def _make_log_files(options: Options) -> None:
    for path in filter(None, map(options.log, range(options.ranks))):
        try:
            log_files.make(path)
        except OSError as e:
            raise Refused(f"cannot write the log file {str(path)!r} (--log-dir): {e.strerror or e}", 1) from e


def _check_dumps(options: Options) -> None:
    """Refuse a directory in which a failure could not be kept."""
    if (folder := options.dumps) is None:
        os.environ.pop("SHMCOLL_DUMP", None)
        return
    os.environ["SHMCOLL_DUMP"] = str(folder.absolute())
    if options.dump is None:
        return  # the log files have been made beside it
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as e:
        raise Refused(f"cannot write into {str(folder)!r} (--dump): {e.strerror or e}", 1) from e


def _set_environment(options: Options) -> None:
    """Set the variables of the ranks, before numpy is imported: its BLAS reads OMP_NUM_THREADS then, and would start a
    thread per core in each rank."""
    os.environ.update(options.env)
    asked = {
        "SHMCOLL_CHECK": "1" if options.check else "",
        "SHMCOLL_SHARE_ARRAYS": "1" if options.share_arrays else "",
        "SHMCOLL_THREADS": "" if options.threads == 1 else str(options.threads or "auto"),
        "SHMCOLL_LOG_LEVEL": options.log_level or "",
        "SHMCOLL_TRACE": str(Path(options.trace).absolute()) if options.trace else "",
        "SHMCOLL_STATS": str(Path(options.stats).absolute()) if isinstance(options.stats, str) else "1" * options.stats,
    }
    os.environ.update({name: value for name, value in asked.items() if value})
    rank_process.prepare_environment()


def _needs_interpreter(name: str) -> bool:
    """Return whether a variable is read when an interpreter starts, which is too late for a fork of an interpreter."""
    return name in ("LANG", "TZ", "GLIBC_TUNABLES") or name.startswith(("PYTHON", "LD_", "LC_", "MALLOC_"))
