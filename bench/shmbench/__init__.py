"""shmbench: how fast the collectives are, in the columns of nccl-tests, every result checked.

`__main__` reads the options, then starts the ranks with shmrun. The rooms, from the bottom up:

    cli/           the options: what to measure, flags that all commands share, sizes ("64M" and sweeps)
      conditions     how many arrays in turn, and beside which neighbour: every report names them
    collectives/   table: a line per collective;  payload: inputs and the right results
    timing/        measuring
      library        the library under test, on the side of the harness;  peers: others;  launch: how each is started
      measure        buffers in turn, the timed loop, rounds, the check
      ab_timing      entries timed in turn;  entries: those with arrays;  other_load: how busy the machine was
      neighbour      another program, which computes meanwhile
    report/        table: for people;  json_report: for programs;  ratios, curves, picture
    features/      one function per group of rows of `shmbench beyond`
    doors/         one file per front end, with a line for each of its operations
    commands/      worker: the work of every rank for the table of one collective; the others are `shmbench NAME`
      door           `shmbench --door NAME`: what a front end adds to a native call; `shmbench compare --door NAME`: a
                     front end beside the library that its users come from
      compare        shmcoll and its peers in turn;  plot: JSON to pictures
      tune           thresholds for this machine;  thresholds: where one algorithm overtakes another
      beyond         features that the peers do not have, beside their limits

Everything except `timing/library`, `doors/`, `commands/tune`, `commands/thresholds` and the files of `beyond` is
independent of shmcoll, so that peers are measured by the same code.

PYTEST_DONT_REWRITE: pytest rewrites packages that have a plug-in, and warns of those that are loaded
"""
