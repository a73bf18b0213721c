"""shmrun: starts the ranks of a job on this machine, watches them, and reports plainly what went wrong.

`__main__` is the entry point: options -> program -> job -> ranks -> watching -> summary. The rooms, from the bottom up:

    cli/         the options: the command line, the environment, pyproject.toml, help
      options          joins the results of the following files
      command_line     which words are options, and where the program begins
      other_launchers  what options of mpiexec, torchrun and msrun mean here;  msrun: what only msrun has
      config_sources   defaults in the environment and in pyproject.toml
      settings         the table of all options;  values: from text to value;  help: --help
      printing         output of shmrun itself, for readers that may end
    start/       from the options to running ranks
      program          the program to run: a Python script, a module, or any executable
      prepare          the state that all ranks share: environment, log files, arena, loaded routines
      spawn            one process per rank, and its state before its program runs;  binding: its cores
      foreground       the process that was started, and represents the job;  log_files: `--log-dir`
      terminal         rank 0 and the terminal
      run_python       running a Python program as if the interpreter had just been started for it
      run_fresh        the same in a new interpreter (`--fresh`), which fresh_start/ starts
      exception_report how a rank sends an exception to the launcher;  fast_exit: a quick end
      rank             a rank on the side of the launcher: its process and its pipes
    watch/       from running ranks to the summary
      supervise        the loop that watches the ranks: what it adds to shmcoll/startup/watcher.py
      signals          signals with their senders
      output           the ranks' output where it passes through the launcher (`--tag-output`, `--tee`)
      resource_table   the table at the end (`--report`)
      failure_summary  the summary at the end, the exit code
    commands/    `shmrun doctor`, `warm`, `ps`, `inspect`
      doctor           the findings of machine and installation

Modules are imported when they are needed: `shmrun --help` imports no more than `options` and `help`.

PYTEST_DONT_REWRITE: pytest rewrites packages that have a plug-in, and warns of those that are loaded
"""
