"""`mindspore.mint.distributed`: collectives that write into tensors given to them, and may be asynchronous.

    process_group    the job and its groups
    tensors          collectives on one tensor of each rank
    parts            collectives on one tensor of each rank that consists of blocks
    lists            collectives on a list of tensors
    exchanges        all_to_all of lists, and of one tensor with counts
    messages         from rank to rank
    objects          collectives and messages of objects
    tcp_store        TCPStore
    distributed      all of these, under the path where MindSpore has them

Checks, their order and their words are those of MindSpore 2.10: nearly everything is a `TypeError`.
"""

from shmcoll.mindspore.mint.distributed import distributed as distributed
from shmcoll.mindspore.mint.distributed.exchanges import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.handle import CommHandle as CommHandle
from shmcoll.mindspore.mint.distributed.lists import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.messages import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.objects import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.parts import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.process_group import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.tcp_store import TCPStore as TCPStore
from shmcoll.mindspore.mint.distributed.tensors import *  # noqa: F403

_only_there = {"CommHandle", "TCPStore", "gather_into_tensor", "scatter_tensor"}  # as in MindSpore

__all__ = [*sorted({*distributed.__all__} - _only_there)]
