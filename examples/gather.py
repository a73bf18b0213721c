# The example of `mindspore.mint.distributed.gather`; only the import lines differ.
# shmrun -n 2 examples/gather.py
# Rank 0 prints what it gathered. Rank 1 prints its zeros, which gather leaves alone.
import numpy as np

from shmcoll.mindspore import Tensor
from shmcoll.mindspore.mint.distributed import gather, init_process_group

# Launch 2 processes.
init_process_group()
input = Tensor(np.arange(4).reshape([2, 2]).astype(np.float32))
outputs = [Tensor(np.zeros([2, 2]).astype(np.float32)), Tensor(np.zeros([2, 2]).astype(np.float32))]
gather(input, outputs, dst=0)
print(outputs)
