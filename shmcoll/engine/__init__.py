"""The engine: memory, atomics, waiting, kernels, compilation. Nothing here knows a collective or a communicator."""
