"""What ranks do, said in words: calls, mismatches, the wait graph, the hang report, Python stacks."""
