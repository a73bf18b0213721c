"""The command line: what to measure."""
