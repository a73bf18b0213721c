"""The ranks are forks of the test process: SGLang is imported once, with its hooks."""

import importlib.util
import os
import warnings

if importlib.util.find_spec("sglang"):
    os.environ.update(SGLANG_PLUGINS="shmcoll", SGLANG_USE_CPU_ENGINE="1")
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sglang.srt.distributed.parallel_state  # noqa: F401
        from sglang.srt.plugins import load_plugins

        load_plugins()
    torch.set_num_threads(1)
