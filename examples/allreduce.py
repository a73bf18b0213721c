# The example of `mindspore.ops.AllReduce`; only the import lines differ.
# shmrun -n 2 examples/allreduce.py
# ruff: noqa: UP008
import numpy as np

import shmcoll.mindspore.nn as nn
import shmcoll.mindspore.ops as ops
from shmcoll.mindspore import Tensor
from shmcoll.mindspore.communication import init
from shmcoll.mindspore.ops import ReduceOp

init()


class Net(nn.Cell):
    def __init__(self):
        super(Net, self).__init__()
        self.allreduce_sum = ops.AllReduce(ReduceOp.SUM)

    def construct(self, x):
        return self.allreduce_sum(x)


input_ = Tensor(np.ones([2, 8]).astype(np.float32))
net = Net()
output = net(input_)
print(output)
