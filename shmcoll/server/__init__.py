"""The server of `shmcoll.run`: a process that has everything loaded, starts ranks by fork and watches them.

__main__     `python -m shmcoll.server`: wait for calls, serve one after the other
caller       the process that started it, and the socket to it
calls        what the caller sends and what each rank answers; the caller uses it, too
supervise    one call: the loop that watches its ranks
start        one process a rank
fates        how each rank fared; which failed first
perform      the call in a rank
"""
