"""All functions of `mint.distributed`, under the path where MindSpore has them.

Their names are listed once, in the `__all__` of the file that has the functions.
"""

from shmcoll.mindspore.mint.distributed import exchanges, lists, messages, objects, parts, process_group, tensors
from shmcoll.mindspore.mint.distributed.exchanges import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.handle import CommHandle as CommHandle
from shmcoll.mindspore.mint.distributed.lists import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.messages import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.objects import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.parts import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.process_group import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.tcp_store import TCPStore as TCPStore
from shmcoll.mindspore.mint.distributed.tensors import *  # noqa: F403

#: the functions that communicate
COLLECTIVES = [
    *(*tensors.__all__, *parts.__all__, *lists.__all__),
    *(*exchanges.__all__, *messages.__all__, *objects.__all__),
]
_elsewhere = {"all_to_all_v_c"}  # MindSpore has it in `ops.communication`

__all__ = [*sorted({"CommHandle", "TCPStore", *COLLECTIVES, *process_group.__all__} - _elsewhere)]
