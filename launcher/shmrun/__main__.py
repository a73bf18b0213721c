"""The entry point. The launcher and the process before it (`shmrun/start/foreground.py`) end with the job's exit code.
In a forked rank `main` runs the rank's program, and returns its exit code.

Exit codes: that of the first failing rank, or 128 + signal if it was killed; 124 if `--timeout` is over; 128 + signal
if a signal stopped the launcher and not every rank ended with 0 (130 after Ctrl-C). Before any rank runs: 2 for a wrong
command line; 127 for a program that does not exist and 126 for one that cannot be executed, as in a shell; 1 if the
machine lacks something (memory, processes).
"""

import _signal  # type: ignore[import-not-found]  # `signal` would import more

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Ctrl-C ends this process as it ends any program, without a traceback of imports. The ranks get Python's action.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import gc
import signal
import sys


def main() -> int:
    """Run `shmrun` with `sys.argv`; the return value is for `sys.exit`.

    SIGQUIT would end this process until somebody handles it. So it is held back first of all, before other modules are
    imported, and arrives when the launcher watches the ranks.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGQUIT})
    from shmcoll.startup import orders
    from shmrun.cli import options, printing, subcommands
    from shmrun.start import fast_exit, foreground, program

    fast_exit.be_quick()
    gc.disable()  # until `rank_process.freeze_memory`
    arguments = sys.argv[1:]
    if arguments and arguments[0] in subcommands.SUBCOMMANDS:  # the first word only: shmrun -n 2 doctor runs a program
        from shmrun.commands import dispatch

        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return printing.printing("shmrun", lambda: dispatch.run(*arguments))
    try:
        order = orders.take()
    except ValueError as error:
        printing.tell(f"shmrun: {error}")
        return 2
    wanted = options.parse(arguments)
    try:
        if (code := foreground.stand()) is not None:
            fast_exit.leave(code)
        from shmrun.start import prepare, programs, spawn
        from shmrun.watch import failure_summary, supervise

        what = programs.of_ranks(wanted, order)
        ready = prepare.prepare(wanted, what, programs.starter(order))
        started = spawn.start(ready, mask)
        if not isinstance(started, spawn.Self):
            outcome = supervise.watch(ready, started)
            if wanted.trace or wanted.stats:
                from shmcoll.profiling import output

                output.tell("shmrun", output.publish(outcome.arena, wanted.trace, wanted.stats))
            if wanted.report or wanted.report_json:
                from shmrun.watch import resource_table

                if wanted.report:
                    printing.tell(resource_table.table(outcome))
                if wanted.report_json:
                    resource_table.write_json(outcome, wanted.report_json)
            manner = " (as by MPI_Abort)" if "mpi" in wanted.aliases else ""
            fast_exit.leave(failure_summary.speak(outcome, program.remark(what[0]), manner))
    except program.Refused as e:
        if order:
            order.refuse(str(e))
        else:
            printing.tell(f"shmrun: {e}")
        return e.code
    except OSError as e:
        from shmcoll.engine.system.refusals import refused

        if not (reason := refused(e)):
            raise
        printing.tell(f"shmrun: {reason}")
        return 1
    # This process is a rank. It leaves through here and the interpreter's own end, so that threads are joined and
    # atexit handlers run as they would without a launcher.
    from shmrun.start import run_python

    buffered, aliases = wanted.line_buffered, wanted.aliases
    return run_python.run(started.program, started.report, started.mask, line_buffered=buffered, aliases=aliases)


if __name__ == "__main__":
    sys.exit(main())
