"""The ranks are forks of the test process: vLLM is imported once, after the variables that it reads then."""

import importlib.util
import os
import warnings

if importlib.util.find_spec("vllm"):
    os.environ.update(VLLM_PLUGINS="shmcoll", VLLM_DIST_IDENT="test", VLLM_LOGGING_LEVEL="ERROR")
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import vllm.distributed.parallel_state
        import vllm.forward_context  # noqa: F401
        from vllm.config import ParallelConfig, VllmConfig

        VllmConfig(parallel_config=ParallelConfig(distributed_executor_backend="mp"))  # which imports more

    torch.set_num_threads(1)
