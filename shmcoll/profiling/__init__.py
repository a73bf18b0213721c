"""Profiles of ranks: what they called, when, for how long, and of that how long they waited for others."""
