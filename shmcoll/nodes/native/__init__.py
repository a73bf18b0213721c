"""Calls over nodes in native code: from the arguments to the result without Python.

layout.py            the words of the state, and the formats of slots and messages
messages.py          messages between ranks of several nodes: MPI's functions, called by their addresses
ranks.py             which rank is on which node
opening.py           the opening: all ranks make the same call, and share what they contribute to it
count_rows.py        the opening in which the ranks contribute tables of counts
fingerprint.py       what all ranks must have alike, in words
node_calls.py        the routines of the node's group that long calls are made of
long_moves.py        long calls that move bytes; leaders.py: short blocks between many ranks
partials.py          what is reduced, in which type
reduce_long.py, reduce_scatter_long.py, scan_long.py, ordered_long.py    long reductions
call.py              how a call begins
reductions.py, rooted_calls.py, counted.py, collectives.py    the calls, and their entries
memory.py, state.py  the memory of one group, and what Python calls
message_words.py     messages between two ranks of different nodes: their protocol, words and format
message_sends.py, message_receives.py    these messages; message_requests.py: the requests of MPI that both use
message_state.py     their memory, and what Python calls
message_entries.py   the entries of all messages
"""
