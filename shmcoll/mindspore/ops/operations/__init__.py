"""`mindspore.ops.operations`: the older path to the operators."""

from shmcoll.mindspore.functions import Concat as Concat
from shmcoll.mindspore.functions import Depend as Depend
from shmcoll.mindspore.functions import MatMul as MatMul
from shmcoll.mindspore.functions import Split as Split
from shmcoll.mindspore.ops.operations import _inner_ops as _inner_ops
from shmcoll.mindspore.ops.operations.comm_ops import *  # noqa: F403
from shmcoll.mindspore.ops.operations.comm_ops import __all__ as __all__
