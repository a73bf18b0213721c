"""shmrun: starts the ranks of a job on this machine, watches them, and says plainly what went wrong.

`__main__` is the way in: options -> program -> job -> ranks -> watching -> last words. The rooms, from the bottom up:

    cli/         what is wanted: the command line, the environment, pyproject.toml, help
      options          joins what the following say
      command_line     which words are options, and where the program begins
      other_launchers  what options of mpiexec, torchrun and msrun mean here
      config_sources   defaults in the environment and in pyproject.toml
      settings         the table of all options;  values: from text to value;  help: --help
      printing         what shmrun prints itself, for readers that may go away
    start/       from what is wanted to running ranks
      program          what is to be run: a Python script, a module, or any executable
      prepare          what all ranks share: environment, log files, arena, loaded routines
      spawn            one process a rank, and what such a process must be;  binding: its cores
      foreground       who has the terminal;  log_files: `--log-dir`
      run_python       running a Python program as if the interpreter had just been started for it
      run_fresh        the same in a new interpreter (`--fresh`), which fresh_start/ starts
      exception_report how an exception gets from a rank to the launcher;  fast_exit: leaving without waiting
      rank             a rank as the launcher sees it: its process and its pipes
    watch/       from running ranks to the last words
      supervise        the loop that watches the ranks: what it adds to shmcoll/startup/watcher.py
      output           the ranks' output where it passes through the launcher (`--tag-output`, `--tee`)
      resource_table   the table at the end (`--report`)
      failure_summary  the last words, the exit code
    commands/    `shmrun doctor`, `warm`, `ps`, `inspect`
      doctor           what machine and installation have found, as findings;  barrier_job: what two ranks do

Modules are imported when they are needed: `shmrun --help` imports no more than `options` and `help`.
"""
