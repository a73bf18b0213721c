"""shmrun: starts the ranks of a job on this machine, watches them, and says plainly what went wrong.

How the files follow one another:

    __main__       the way in: options -> program -> job -> ranks -> watching -> last words
    options        what the command line says
    program        what is to be run: a Python script, a module, or any executable
    job            what all ranks share: arena, environment, loaded routines
    spawn          one process a rank, and what such a process must be
    python         running a Python program as if the interpreter had just been started for it
    fresh          the same in a new interpreter (`--fresh`)
    ranks          what the launcher knows of each rank, and can do to one
    report         how an exception gets from a rank to the launcher
    supervise      the loop that watches ranks, signals and time limits
    output         the ranks' output with `[rank] ` before each line (`--tag-output`)
    verdict        which rank failed first, the last words, the exit code

Modules are imported when they are needed: `shmrun --help` imports no more than `options`.
"""
