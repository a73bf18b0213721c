"""A program for 2 ranks: collectives that MindSpore itself has on a CPU, and refusals. It prints `rank|call|answer`.

With an argument, `mindspore` is our package, even if MindSpore is installed.
"""

import sys

if len(sys.argv) > 1:
    import shmcoll.mindspore

    sys.modules["mindspore"] = shmcoll.mindspore

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.communication import get_group_size, get_rank, init

CALLS = """
get_rank(), get_group_size()
ops.AllReduce()
ops.AllReduce()(x)
ops.AllReduce()(x[0])
ops.AllReduce()(Tensor(2.0))
ops.AllReduce()(Tensor([1.0, 2.0], ms.float16))
ops.AllGather()
ops.AllGather()(x)
ops.Broadcast(1)((x,))
ops.Broadcast(0)((x, x))
ops.AllReduce()(5)
ops.Broadcast(0)(x)
ops.AlltoAll(3, 0, 0)(x)
ops.AlltoAll(2, 5, 5)(x)
ops.AlltoAll(2, 5, 1)(x)
ops.AlltoAll(2, 0, 0)(Tensor([1.0, 2.0, 3.0]))
ops.ReduceScatter()(Tensor([1.0, 2.0, 3.0]))
"""
ms.set_context(device_target="CPU")
init()
rank = get_rank()
x = Tensor(np.arange(4).reshape(2, 2) + rank, ms.float32)
names = {"Tensor": Tensor, "get_group_size": get_group_size, "get_rank": get_rank, "ms": ms, "ops": ops, "x": x}
for call in CALLS.strip().splitlines():
    try:
        answer = repr(eval(call, names))
    except NameError:  # of this program
        raise
    except Exception as error:
        answer = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    print(f"{rank}|{call}|{answer}".replace("\n", " "), flush=True)
