"""`mindspore.ops.operations`: the older path to the operators."""

from shmcoll.mindspore.ops.operations.comm_ops import *  # noqa: F403
from shmcoll.mindspore.ops.operations.comm_ops import __all__ as __all__
