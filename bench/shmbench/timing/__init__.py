"""Measuring: the loop around a call, ranks of the library and of others, A beside B."""
