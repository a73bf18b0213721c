"""A rank with an interpreter of its own (`--fresh`).

`spawn` starts it as `python .../fresh_start REPORT-FD BUFFERING ALIASES ALIASES KIND CODE PROGRAM ...`. It differs from
`python PROGRAM ...` only in this: exceptions are reported to the launcher, output that the launcher tags is line
buffered, and our packages can have other names (`Options.aliases`).
"""

import signal
import subprocess
import sys
from pathlib import Path

from shmrun.cli.options import Options
from shmrun.start import run_python
from shmrun.start.program import Kind, Program


def command(program: Program, report_fd: int, options: Options) -> list[str]:
    """Return the command line that runs `program` here, under the launcher's own interpreter options."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    aliases = map(",".join, options.aliases)
    own = [str(report_fd), "line" if options.line_buffered else "block", *aliases, program.kind.value, program.code]
    return [sys.executable, *flags, str(Path(__file__).with_name("fresh_start")), *own, *program.argv]


def main() -> int:
    report_fd, buffering, always, where_missing, kind, code, *argv = sys.argv[1:]
    program = Program(Kind(kind), argv[0], tuple(argv), code)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    aliases = [list(filter(None, names.split(","))) for names in (always, where_missing)]
    return run_python.run(program, int(report_fd), mask, line_buffered=buffering == "line", aliases=aliases)
