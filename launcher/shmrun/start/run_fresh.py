"""A rank with an interpreter of its own (`--fresh`).

`spawn` starts it as `python .../fresh_start REPORT-FD MASK BUFFERING ALIASES KIND CODE PROGRAM ...`, with
signals blocked until it is ready for them; MASK is that of the program. It differs from `python PROGRAM ...` only in
this: exceptions are reported to the launcher, output that the launcher tags is line
buffered, and our packages can have other names (`Options.aliases`).
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from shmcoll.engine.system.interpreter import flags
from shmrun.cli.settings import Options
from shmrun.start import run_python
from shmrun.start.program import Kind, Program


def command(program: Program, report_fd: int, mask: Iterable[int], options: Options) -> list[str]:
    """Return the command line that runs `program` here, under its interpreter options, or else the launcher's own."""
    blocked = ",".join(str(int(signum)) for signum in mask)
    buffering = "line" if options.line_buffered else "block"
    own = [str(report_fd), blocked, buffering, ",".join(options.aliases), program.kind.value, program.code]
    return [
        sys.executable,
        *(program.flags or flags()),
        str(Path(__file__).with_name("fresh_start")),
        *own,
        *program.argv,
    ]


def main() -> int:
    report_fd, blocked, buffering, names, kind, code, *argv = sys.argv[1:]
    program = Program(Kind(kind), argv[0], tuple(argv), code)
    mask = [int(signum) for signum in blocked.split(",") if signum]
    aliases = [name for name in names.split(",") if name]
    return run_python.run(program, int(report_fd), mask, line_buffered=buffering == "line", aliases=aliases)
