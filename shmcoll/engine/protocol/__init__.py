"""What routines are made of: waiting, the opening sync, steps, the counts of the _v forms."""
