"""shmbench: how fast the collectives are, in the columns of nccl-tests, every result checked.

    __main__   the command: reads the options, then starts the ranks with shmrun
    options    the flags and what is wrong with them;  flags: what all commands share in reading them
    sizes      "64M" and the sweep from the smallest to the largest size
    worker     what every rank does: one row of the table after another
    library    the library under test, as the harness sees it
    measure    buffers in turn, the timed loop, rounds, the check
    payload    inputs that depend on rank and sequence number, and what a result must be
    collectives/   one file a collective, each with the same functions
    table, report  text for people, JSON for programs
    plot       `shmbench plot`: JSON to pictures;  curves: what is drawn;  picture: how, the only one with matplotlib
    compare    `shmbench compare`: shmcoll and its peers in turn;  peers: which there are;  launch: how each is started;
               ratios: the table
    tune       `shmbench tune`: thresholds for this machine;  crossings: where one algorithm overtakes another;
               others: how busy the machine was
    beyond     `shmbench beyond`: what the peers cannot do, beside its limits
    abilities/     one file a group of its rows;  contest: things timed in turn;  entries: those with arrays
    predict    `shmbench predict`: the cost formulas for machines of more cores

Everything but `library`, `tune`, `crossings` and what belongs to `beyond` is independent of shmcoll, so that peers are
measured by the same code.
"""
