"""shmbench: how fast the collectives are, in the columns of nccl-tests, every result checked.

`__main__` reads the options, then starts the ranks with shmrun. The rooms, from the bottom up:

    cli/           what is to be measured: options, flags that all commands share, sizes ("64M" and sweeps)
    collectives/   one file a collective, each with the same functions; payload: inputs, and what a result must be
    timing/        measuring
      library        the library under test, as the harness sees it;  peers: others;  launch: how each is started
      measure        buffers in turn, the timed loop, rounds, the check
      ab_timing      things timed in turn;  entries: those with arrays;  other_load: how busy the machine was
    report/        table: for people;  json_report: for programs;  ratios, curves, picture
    features/      one file a group of rows of `shmbench beyond`
    commands/      worker: what every rank does for the table of one collective; the others are `shmbench NAME`
      compare        shmcoll and its peers in turn;  plot: JSON to pictures
      tune           thresholds for this machine;  thresholds: where one algorithm overtakes another
      beyond         what the peers cannot do, beside its limits
      predict        the cost formulas for machines of more cores

Everything but `timing/library`, `commands/tune`, `commands/thresholds` and what belongs to `beyond` is independent of
shmcoll, so that peers are measured by the same code.
"""
