"""How Python and jitted code get into a routine."""
