"""How a process becomes a rank: which program started it, where ranks meet, joining, compiling ahead."""
