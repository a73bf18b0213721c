"""Point to point: ring buffers in shared memory, and the routines send and recv."""
