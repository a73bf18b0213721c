"""The schedule explorer: the routines' own source, every interleaving, any single kill, stores delayed as on x86.

    program.py    one rank's code as a graph of local states, discovered by running the source with `atomics.hooks`
    machine.py    shared memory, doorbells, store buffers; the steps that are possible in a state and what they do
    search.py     all schedules of a machine, or many random ones; counterexamples
    stand_ins.py  what takes the place of the operations on shared words
    calls.py      what ranks call, and the results that are right;  calls_of_messages.py and others: more of them
    job.py        an arena of a few small cells, the ranks on it, and what they call
    scenarios.py  small jobs by name
    mutants.py    the routines' source with one thing changed
    nodes.py      a job over nodes, and what its ranks do when calls differ (disagreement.py);  scenarios_over_nodes.py
    channels.py   MPI between the leaders of nodes

What it claims: every schedule of the given calls on a sequentially consistent machine, or (buffered=True) on one that
keeps its stores in order but delays them, as x86 does, or on one that lets them arrive in another order
(reordered=True), as aarch64 does. What it does not: processors that reorder loads. There the compiled code relies on
acquire, which `tests/engine/test_golden_ir.py` looks for. Over nodes it claims this for the
openings of calls, without arrays that follow them.
"""
