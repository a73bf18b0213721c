"""How Python and jitted code get into a routine, and how numpy allocates arrays in the arena."""
