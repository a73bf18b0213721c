"""Running a Python program as if the interpreter had just been started for it.

Used in a fork of the launcher, and by `fresh` in a new interpreter. Everything that a program can see of its start is
equal to `python script.py`, `python folder`, `python -m module` and `python -c code`: `sys.argv`,
`sys.path[0]`, a new `__main__` module, the file name in tracebacks, `SystemExit`, and how the process ends. Uncaught
exceptions go through `sys.excepthook` (see `report`) without the launcher's frames.
"""

import contextlib
import io
import linecache
import os
import runpy
import signal
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import BuiltinImporter, SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from shmcoll.diagnostics import stack_server
from shmcoll.engine.system.text import to_text
from shmcoll.runtime import uncaught
from shmrun.cli import printing
from shmrun.start import exception_report
from shmrun.start.program import Kind, Program

#: modules that end all ranks by MPI_Abort when one exits with a code
_ABORTING = ("mpi4py.run", "mpi4py.futures")


def run(
    program: Program,
    report_fd: int,
    mask: Iterable[int],
    *,
    line_buffered: bool,
    aliases: Sequence[str],
) -> int:
    """Run `program` to its end and return the exit code. `SystemExit` passes through. mask: the signals to block.
    aliases: the packages that it gets from us (`Options.aliases`).

    The caller must return this value all the way out to `sys.exit`, so that the interpreter ends as it always does.
    """
    _look_fresh(program)
    if line_buffered and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    if aliases:
        from shmcoll.startup import module_aliases

        module_aliases.install(aliases)
    report = exception_report.install(report_fd)
    stack_server.offer()
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if program.kind is Kind.MODULE:
            runpy._run_module_as_main(program.name)  # type: ignore[attr-defined]  # what `python -m` itself calls
        elif program.kind is Kind.FOLDER:
            runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]  # and `python folder`
        elif program.kind is Kind.CODE:
            _run_code(program)
        else:
            _run_script(program)
        _flush()
    except SystemExit as e:
        if isinstance(e.code, str):  # a message, which the interpreter would print among the output of other ranks
            uncaught.ends_by(e)
            e.code = 1 if report(e) else e.code
        elif e.code and program.kind is Kind.MODULE and program.name in _ABORTING:
            uncaught.ends_by(e)
        try:
            _flush()
        except OSError as lost:
            if not e.code:
                _tell(lost)
                return 1
        raise
    except BaseException as e:
        _tell(e)
        with contextlib.suppress(OSError):
            _flush()
        if isinstance(e, KeyboardInterrupt):
            # It has been reported already. It is raised again so that the interpreter ends by SIGINT, as its parents
            # expect.
            sys.excepthook = lambda *_: None
            raise
        return 1
    return 0


def _look_fresh(program: Program) -> None:
    flags, first = {
        Kind.SCRIPT: ([], str(Path(program.name).resolve().parent)),
        Kind.ONCE: ([], str(Path(program.name).absolute().parent)),
        Kind.FOLDER: ([], _from_here(program.name)),
        Kind.MODULE: (["-m"], str(Path.cwd())),
        Kind.CODE: ([], ""),
    }[program.kind]
    words = [program.name, program.code] if program.name == "-c" else [program.name]
    sys.orig_argv = [sys.executable, *flags, *words, *program.argv[1:]]
    sys.argv = ["-m" if flags else program.name, *program.argv[1:]]
    if program.kind is Kind.FOLDER and sys.flags.safe_path:
        sys.path.insert(0, first)  # it is not the current directory that it would be safe from
    elif not sys.flags.safe_path:
        sys.path[0] = first
    main = ModuleType("__main__")
    main.__dict__.update(__annotations__={}, __builtins__=sys.modules["builtins"])
    sys.modules["__main__"] = main


def _run_script(program: Program) -> None:
    main = sys.modules["__main__"]
    path = _from_here(program.name)
    main.__file__ = path
    main.__dict__["__cached__"] = None
    main.__loader__ = SourceFileLoader("__main__", path)
    if program.kind is Kind.ONCE:
        source = os.fsencode(program.code)
        lines = to_text(source).splitlines(keepends=True)
        linecache.cache[path] = len(source), None, lines, path  # a traceback must not open it
    else:
        with io.open_code(path) as f:
            source = f.read()
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _run_code(program: Program) -> None:
    main, file = sys.modules["__main__"], "<string>"
    main.__loader__ = BuiltinImporter  # so it is in the interpreter itself
    if program.name == "-":
        main.__file__ = file = "<stdin>"
        main.__dict__["__cached__"] = None
    exec(compile(program.code, file, "exec", dont_inherit=True), main.__dict__)


def _from_here(name: str) -> str:
    return os.path.join(os.getcwd(), name)  # noqa: PTH118, PTH109  # not normalised: the interpreter does not either


def _flush() -> None:
    """Write what the program has printed. Raises `OSError` if it cannot be written, perhaps to a reader that has ended,
    and drops the rest."""
    stream = sys.__stdout__
    if stream and not stream.closed:
        try:
            stream.flush()
        except OSError:
            printing.drop(stream.fileno())
            raise


def _tell(error: BaseException) -> None:
    """Pass an uncaught exception to `sys.excepthook`, and set the variables that the interpreter itself sets for
    debuggers."""
    trace = _without_launcher(error.__traceback__)
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.last_exc = error  # type: ignore[attr-defined,unused-ignore]
    uncaught.ends_by(error)
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit:
        raise
    except BaseException as broken:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, trace)


def _without_launcher(trace: TracebackType | None) -> TracebackType | None:
    ours = {__file__, runpy.__file__, _run_script.__code__.co_filename, runpy.run_module.__code__.co_filename}
    while trace and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    return trace
