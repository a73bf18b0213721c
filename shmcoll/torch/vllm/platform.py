"""The platform: that which vLLM chooses for these CPUs, with another backend and another communicator."""

from typing import TYPE_CHECKING, Any

from vllm.platforms import cpu_platform_plugin
from vllm.utils.import_utils import resolve_obj_by_qualname

import shmcoll.torch  # registers the backend

if TYPE_CHECKING:
    Chosen: Any
else:
    Chosen = resolve_obj_by_qualname(cpu_platform_plugin())


class Platform(Chosen):
    """vLLM's platform of CPUs, over shmcoll. vLLM makes groups of gloo beside it, for metadata."""

    dist_backend = shmcoll.torch.NAME

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Return the name of the communicator's class."""
        return "shmcoll.torch.vllm.communicator.Communicator"
