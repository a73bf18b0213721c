# The example of `mindspore.ops.AlltoAll`; only the import lines differ.
# shmrun -n 8 examples/alltoall.py
# ruff: noqa: UP008, RET504
import os

import numpy as np

import shmcoll.mindspore as ms
import shmcoll.mindspore.nn as nn
import shmcoll.mindspore.ops as ops
from shmcoll.mindspore import Tensor, context
from shmcoll.mindspore.communication import init


class Net(nn.Cell):
    def __init__(self):
        super(Net, self).__init__()
        self.alltoall = ops.AlltoAll(split_count=8, split_dim=-2, concat_dim=-1)

    def construct(self, x):
        out = self.alltoall(x)
        return out


context.set_context(mode=context.GRAPH_MODE, device_target="Ascend")
init()
net = Net()
rank_id = int(os.getenv("RANK_ID"))
input_x = Tensor(np.ones([1, 1, 8, 1]) * rank_id, dtype=ms.float32)
output = net(input_x)
print(output)
