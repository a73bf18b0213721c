"""vLLM on the CPUs of one machine, with the backend "shmcoll": a platform plug-in.

    VLLM_PLUGINS=shmcoll vllm serve ...

vLLM finds it by the entry point `vllm.platform_plugins`. It is used only if VLLM_PLUGINS names it, so a vLLM beside an
installed shmcoll stays as it is.

platform       the platform, which names the backend and the communicator
communicator   what the groups of vLLM call
"""

import os


def register() -> str | None:
    """Return the name of the platform's class for vLLM, if VLLM_PLUGINS names "shmcoll" and vLLM runs on CPUs.

    Source: the entry points `vllm.platform_plugins`.
    """
    if "shmcoll" not in os.environ.get("VLLM_PLUGINS", "").split(","):
        return None
    from vllm.platforms import cpu_platform_plugin

    return "shmcoll.torch.vllm.platform.Platform" if cpu_platform_plugin() else None


__all__ = ["register"]
