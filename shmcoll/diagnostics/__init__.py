"""Texts about what ranks do: calls, mismatches, the wait graph, the hang report, Python stacks."""
