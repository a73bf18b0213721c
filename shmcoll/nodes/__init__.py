"""One communicator over several machines: shared memory within a node, MPI between nodes.

Nothing of this room is imported in a job of one machine. `startup/several_nodes.py` makes the communicator; it has the
methods of every other one, because its dispatcher takes the checked arguments of the same `calls/`.

    topology.py       which ranks are on which node
    wire.py           MPI: sends, receives, tags, the control channel
    progress.py       the wait loop: MPI requests, deadlines, dead ranks, the ends of groups
    waiting.py        how all waits poll, nap, and look around: their numbers
    failures.py       why a group has ended, and how all its ranks learn it
    native/           every collective, from its arguments to its result, and what messages share with that
    agreement.py      what follows if the ranks disagree in the opening of a call, or refuse its arguments
    staging.py        forms of calls that are brought into those of native code; halos.py: the exchange of halos
    within.py         messages between two ranks of a node
    far_messages.py   messages between two ranks of different nodes
    matching.py       unexpected messages, and which receive gets which; unexpected.py: one of them
    far_sends.py      messages that are sent; pending_sends.py: what has not left yet
    message_limits.py how long waits for them last
    posted_receives.py    posted receives: of either kind of message, or of both
    dispatcher.py     from checked arguments to the native entry, and from its status to an error; interfaces.py: what
                      the other files see of it
    survivors.py      shrink, under an MPI that goes on after a failure
    communicator.py, messages.py, groups.py    what a user sees
    job.py            all groups of a process, and its end; mpi_end.py: the end of MPI when ranks are unreachable
    watcher.py, watcher_process.py    a process per node that reports a death where mpiexec kills all ranks at once

The shape of every collective: the ranks of a node agree in shared memory, one leader per node exchanges a message with
each other leader, the leader publishes the verdict in shared memory. Short arrays travel in that message. Longer ones
follow, on as many ranks of a node at once as `leaders` says.
"""
