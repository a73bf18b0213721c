"""A program for `shmrun --mindspore`: gradients of rows of a table go through `DistributedGradReducer`, as MindSpore's
own sparse class.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore.common.sparse_tensor import RowTensorInner
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.PYNATIVE_MODE)
init()
rank, size = get_rank(), get_group_size()
table = Parameter(Tensor(np.zeros((6, 3), np.float32)), name="table")
rows = RowTensorInner(Tensor([rank, 5]), Tensor(np.full((2, 3), rank + 1.0, np.float32)), (6, 3))
(found,) = nn.DistributedGradReducer([table], mean=False)((rows,))
got = found.indices.asnumpy().tolist(), found.values.asnumpy()[:, 0].tolist(), found.dense_shape
wanted = [one for r in range(size) for one in (r, 5)], [r + 1.0 for r in range(size) for _ in range(2)], (6, 3)
print(f"rank {rank}: {'right' if got == wanted else (got, wanted)}", flush=True)
