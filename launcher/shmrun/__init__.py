"""shmrun: starts the ranks of a job on this machine, watches them, and says plainly what went wrong.

How the files follow one another:

    __main__       the way in: options -> program -> job -> ranks -> watching -> last words
    options        what is wanted: joins what the following say
      words          the command line: which words are options, and where the program begins
      foreign        what options of mpiexec, torchrun and msrun mean here
      sources        defaults in the environment and in pyproject.toml
      settings       the table of all options;  values: from text to value;  usage: --help
    program        what is to be run: a Python script, a module, or any executable
    job            what all ranks share: environment, log files, arena, loaded routines
    spawn          one process a rank, and what such a process must be;  binding: its cores
    logs           the ranks' log files (`--log-dir`)
    python         running a Python program as if the interpreter had just been started for it
    fresh          the same in a new interpreter (`--fresh`), which fresh_start/ starts
    ranks          what the launcher knows of each rank, and can do to one
    report         how an exception gets from a rank to the launcher
    supervise      the loop that watches ranks, signals and time limits
    output         the ranks' output where it passes through the launcher (`--tag-output`, `--tee`)
    summary        the table at the end (`--report`)
    verdict        which rank failed first, the last words, the exit code
    printing       what shmrun prints itself, for readers that may go away

    doctor         `shmrun doctor`: what machine and installation have found, as findings;  trial: what two ranks do
    warming        `shmrun warm`

Modules are imported when they are needed: `shmrun --help` imports no more than `options` and `usage`.
"""
