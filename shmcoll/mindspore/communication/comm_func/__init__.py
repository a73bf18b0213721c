"""`mindspore.communication.comm_func`: collectives that return a new tensor, and a handle if they may be asynchronous.

    tensors      one tensor of each rank
    exchanges    all_to_all
    messages     from rank to rank

Each makes a tensor for the result, into which the communicator writes. The checks are those of `mint.distributed`.
"""

from shmcoll.mindspore.communication.comm_func import exchanges, messages, tensors
from shmcoll.mindspore.communication.comm_func.exchanges import *  # noqa: F403
from shmcoll.mindspore.communication.comm_func.messages import *  # noqa: F403
from shmcoll.mindspore.communication.comm_func.tensors import *  # noqa: F403

__all__ = [*tensors.__all__, *exchanges.__all__, *messages.__all__]
