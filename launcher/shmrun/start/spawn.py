"""One process per rank, and its state before its program runs.

The launcher is single-threaded and forks all ranks in a row. Each child
 * dies with the launcher: PR_SET_PDEATHSIG, then a check whether the launcher died before that took effect;
 * leads a process group, so that it can be signalled with its children;
 * reads the launcher's standard input if it is rank 0, otherwise /dev/null, and has no terminal (`terminal.py`);
 * writes into its log file, or into pipes to the launcher (`output_channels.py`);
 * is bound to its cores, so that all its threads will be;
 * holds no other descriptor of the launcher than the arena's and its end of the report pipe.

Signals stay blocked from before the first fork until the child is ready for them and the launcher watches: a signal
that arrives in between is neither lost nor delivered to half of the ranks. Descriptors are plain numbers here, because
a Python object that owned one would close that number in a child at some later time, when it may be another file's.
"""

import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from shmcoll.engine.system.refusals import refused
from shmcoll.startup import rank_process
from shmrun.start import binding, exception_report, fast_exit, log_files, output_channels, terminal
from shmrun.start.foreground import FORWARDED
from shmrun.start.output_channels import Channel
from shmrun.start.prepare import Job
from shmrun.start.program import Program, Refused
from shmrun.start.rank import Rank
from shmrun.start.terminal import Terminal

READ = (*FORWARDED, signal.SIGCHLD)  # the signals that the launcher reads; the last one says that rank 0 has stopped

_SPARE = 8  # descriptors: the signals' pipe, and those for reading stacks


@dataclass(frozen=True)
class Self:
    """The state of a forked rank: the descriptor for its report, the signal mask to restore when it is ready, and its
    program."""

    report: int
    mask: Iterable[int]
    program: Program


def start(job: Job, mask: Iterable[int]) -> list[Rank] | Self:
    """Start all ranks. Returns the ranks in the launcher and `Self` in each rank that is to run Python code.

    mask: the signals that `shmrun` was started with blocked, which ranks are to have.

    Raises `Refused` when the system has no room for so many processes or descriptors; then no rank is left running.
    """
    launcher = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, READ)
    _settle(job)
    before = _open_descriptors()
    limits = _allow_descriptors(job, len(before))
    ranks: list[Rank] = []
    for rank in range(job.options.ranks):
        try:
            report_pipe = os.pipe()
            output = tuple(output_channels.make(job.options, rank))
            started = time.monotonic_ns()
            pid = os.fork()
            if pid == 0:
                return _become(job, rank, launcher, before, limits, report_pipe[1], output, mask)
            for theirs in (report_pipe[1], *(channel.write for channel in output)):
                os.close(theirs)
            log = job.options.log(rank)
            screen = Terminal(job.terminal, pid) if rank == 0 and job.terminal is not None else None
            ranks.append(Rank(rank, pid, os.pidfd_open(pid), started, report_pipe[0], output, log, screen))
        except OSError as e:
            for other in ranks:
                os.kill(other.pid, signal.SIGKILL)
                os.waitpid(other.pid, 0)
            raise Refused(rank_process.cannot_start(rank, job.options.ranks, e), 1) from e
    return ranks


def _allow_descriptors(job: Job, taken: int) -> tuple[int, int]:
    """Raise the launcher's own limit of open files if necessary. Returns the limits for the ranks.

    Before any rank runs, it refuses a job that would leave the launcher without descriptors while it watches.
    """
    options = job.options
    channels = len(output_channels.wanted(options))
    each = 2 + channels + bool(channels and options.log_dir)  # pidfd, report, output, log
    need, (limit, most) = taken + options.ranks * each + _SPARE, resource.getrlimit(resource.RLIMIT_NOFILE)
    if need > limit and (need <= most or most == resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, most))
    elif need > limit:
        raise Refused(
            f"{options.ranks} ranks need up to {need} open files in the launcher, and the limit is {most}. "
            f"Start fewer ranks, or raise the limit (ulimit -n).",
            1,
        )
    return limit, most


def _settle(job: Job) -> None:
    """Do once what each rank would otherwise do itself: import, flush buffered output, freeze objects, clear
    modules."""
    if job.fork:
        pass
    for stream in (sys.stdout, sys.stderr):
        if stream:  # None if the launcher was started with it closed
            stream.flush()
    fast_exit.note_loaded()
    rank_process.freeze_memory()


def _become(
    job: Job,
    rank: int,
    launcher: int,
    before: set[int],
    limits: tuple[int, int],
    report_fd: int,
    output: Iterable[Channel],
    mask: Iterable[int],
) -> Self:
    """Turn into the rank, in the child. Returns for Python programs in this interpreter, and executes all others."""
    program = job.programs[rank]
    try:
        rank_process.begin(launcher, job.arena, rank, "shmrun")
        if job.options.mpi:
            os.environ.update(rank_process.variables_of_mpich(job.arena, rank))
        options = job.options
        os.environ.update(program.variables)
        if job.starter is not None:
            os.close(job.starter)
        if program.folder:
            os.chdir(program.folder)
        if options.msrun:
            os.environ["MS_NODE_ID"] = str(rank)
        if options.bind_to != "none":
            os.sched_setaffinity(0, binding.cores(options.bind_to, rank, options.ranks, options.threads))
        silent = rank or options.stdin == "none"
        if job.terminal is not None:
            if silent:
                terminal.give_up(job.terminal)
            else:
                signal.signal(signal.SIGQUIT, signal.SIG_IGN)
        if silent:
            rank_process.replace(os.open(os.devnull, os.O_RDONLY), 0)
        for channel in output:
            for number in channel.numbers:
                rank_process.replace(os.dup(channel.write), number)
        if not output and (log := options.log(rank)):
            for number in (1, 2):
                rank_process.replace(log_files.append(log), number)
        for fd in _open_descriptors() - before - {report_fd}:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        if not (job.fork and program.forks):
            _execute(job, program, report_fd, mask)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        rank_process.begin_in_fork(job.arena)
    except BaseException as e:
        text = f"cannot run {program.name!r}: {refused(e) or e}"
        if isinstance(e, OSError) and e.errno == errno.ENOEXEC:
            text += ". If it is a script, its first line must name the interpreter: #!/bin/sh"
        report = exception_report.Report(text, time.monotonic_ns(), is_consequence=False, text=text)
        exception_report.send(report_fd, report)
        os._exit(126)
    return Self(report_fd, mask, program)


def _execute(job: Job, program: Program, report_fd: int, mask: Iterable[int]) -> None:
    path, argv = program.name, list(program.argv)
    if program.python:
        from shmrun.start import run_fresh

        path, argv = sys.executable, run_fresh.command(program, report_fd, mask, job.options)
        os.set_inheritable(report_fd, True)
    else:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.set_inheritable(job.arena.fd, True)
    rank_process.begin_to_execute()
    os.execv(path, argv)


def _open_descriptors() -> set[int]:
    listed = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    return {fd for fd in listed if _is_open(fd)}  # the descriptor of the listing itself is closed by now


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
