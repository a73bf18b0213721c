"""The ranks are forks of the test process, and a fork has none of the threads in which torch computes.

What torch imports when it is first used, for 10 s and more, is imported here once, and not in each rank.
"""

import importlib.util

if importlib.util.find_spec("torch"):
    import torch
    import torch._dynamo
    import torch.distributed.checkpoint
    import torch.distributed.fsdp
    import torch.distributed.tensor.parallel

    torch.set_num_threads(1)

if importlib.util.find_spec("tqdm"):
    import tqdm

    tqdm.tqdm.monitor_interval = 0  # no thread that outlives its test
