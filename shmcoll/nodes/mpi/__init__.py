"""MPI between the nodes of a job: what is sent, how waits poll, which rank is where, and why a group has ended."""
