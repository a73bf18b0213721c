"""Attributes that a program attaches to communicators, windows and datatypes."""


class Attributes(dict[int, int]):
    """The values, addresses, by their keys."""
