"""Short calls over nodes, in native code: from the arguments to the result without Python.

layout.py         the words of the state, and the formats of slots and messages
messages.py       messages between leaders: MPI's functions, called by their addresses
opening.py        the opening: what all ranks have brought comes to all of them
marks.py          the table of calls whose marks are known
collectives.py    the short calls, and their entries
state.py          the memory of one group, and what Python calls
"""
