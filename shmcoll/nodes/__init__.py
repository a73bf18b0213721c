"""One communicator over several machines: shared memory within a node, MPI between nodes.

Nothing of this room is imported in a job of one machine. `startup/several_nodes.py` makes the communicator; it has the
methods of every other one, because its dispatcher takes the checked arguments of the same `calls/`.

    mpi/              MPI, the waits for it, which rank is where, why a group has ended, and the watcher of a node
    opening/          how all ranks agree on a call, in native code, and share what they contribute to it
    point_to_point/   messages between two ranks
    algorithms/       every collective, from its arguments to its result, and the memory of that
    agreement.py      what follows if the ranks disagree in the opening of a call, or refuse its arguments
    dispatcher.py     from checked arguments to the native entry, and from its status to an error; interfaces.py: what
                      the other files see of it
    communicator.py, messages.py, groups.py    what a user sees; survivors.py: shrink, after a failure
    job.py            all groups of a process, and its end; group_watch.py: what ranks look at while one is made

Imports go down from the end of this list. Each room says at its top what it is for.

The shape of every collective: the ranks of a node agree in shared memory, one leader per node exchanges a message with
each other leader, the leader publishes the verdict in shared memory. Short arrays travel in that message. Longer ones
follow, on as many ranks of a node at once as `leaders` says.
"""
