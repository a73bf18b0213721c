"""The ranks are forks of the test process, and a fork has none of the threads in which torch computes."""

import importlib.util

if importlib.util.find_spec("torch"):
    import torch

    torch.set_num_threads(1)
