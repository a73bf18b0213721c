"""One communicator over several machines: shared memory within a node, MPI between nodes.

Nothing of this room is imported in a job of one machine. `startup/several_nodes.py` makes the communicator; it has the
methods of every other one, because its dispatcher takes the checked arguments of the same `calls/`.

    topology.py       which ranks are on which node
    wire.py           MPI: sends, receives, tags, the control channel
    progress.py       the wait loop: MPI requests, deadlines, dead ranks, the ends of groups
    failures.py       why a group has ended, and how all its ranks learn it
    agreement.py      the opening of every collective: ranks of all nodes make the same call
    native/           openings in native code, and the calls that it makes from their arguments to their results
    within.py         messages between two ranks of a node
    mail.py           messages between two ranks of different nodes
    inbox.py          those that have come, and which receive gets which; arrived.py: one of them
    outbox.py         those that are sent; sender.py: what has not left yet
    mail_limits.py    how long waits for them last
    posted.py         posted receives: of either kind of message, or of both
    operators.py      the arithmetic of reductions, by the kernels of one machine
    reduction.py, prefix.py, moves.py, rooted.py, counted.py, halos.py, transport.py    the algorithms, in Python
    dispatcher.py     from the arguments of a routine to the algorithm; interfaces.py: what the algorithms see of it
    survivors.py      shrink, under an MPI that goes on after a failure
    communicator.py, messages.py, groups.py    what a user sees
    job.py            all groups of a process, and its end; mpi_end.py: the end of MPI when ranks are unreachable
    watcher.py, watcher_process.py    a process per node that reports a death where mpiexec kills all ranks at once

The shape of every collective: the ranks of a node agree in shared memory, one leader per node exchanges a message with
each other leader, the leader publishes the verdict in shared memory. Short arrays travel in that message. Longer ones
follow, on as many ranks of a node at once as `leaders` says.
"""
