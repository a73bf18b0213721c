"""A tensor-parallel and an expert-parallel layer, as a MindSpore program writes them. Run with `shmrun -n 4`.

Ranks 0 and 1, and ranks 2 and 3, each hold a copy of a layer in two parts (group "model"). All four ranks hold an
expert each (the world): tokens are sent to their experts and come back.
"""

import numpy as np

from shmcoll.mindspore import Tensor, ops
from shmcoll.mindspore.communication import create_group
from shmcoll.mindspore.mint import distributed as dist

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(0)  # the same numbers on all ranks
tokens = rng.integers(0, 5, (size, 6, 8)).astype(np.float32)[rank]  # of this rank
first, second = rng.integers(-2, 3, (2, 8, 8)).astype(np.float32)
wanted = tokens @ first @ second

# --- tensor parallel: columns of the first matrix, rows of the second -------------------------------------------------
members = [rank - rank % 2, rank - rank % 2 + 1]
model = f"model {members[0] // 2}"
create_group(model, members)  # only its members call it
part = dist.get_rank(model)
columns, rows = first[:, 4 * part : 4 * part + 4], second[4 * part : 4 * part + 4]
batch = np.zeros((12, 8), np.float32)
dist.all_gather_into_tensor(batch, tokens, group=model)  # both ranks compute on the tokens of both
total = ops.AllReduce(group=model)(Tensor(batch @ columns @ rows))
mine = total.asnumpy()[6 * part : 6 * part + 6]
print("tensor parallel:", np.array_equal(mine, wanted))

# --- expert parallel: expert r multiplies by r + 1 --------------------------------------------------------------------
experts = rng.integers(0, size, (size, 6))[rank]  # of each token of this rank
order = np.argsort(experts, kind="stable")
counts = Tensor(np.bincount(experts, minlength=size))
arriving = Tensor(np.zeros(size, np.int64))
dist.all_to_all_single(arriving, counts)  # how many tokens come from each rank
there, here = counts.asnumpy().tolist(), arriving.asnumpy().tolist()
dispatched = np.zeros((sum(here), 8), np.float32)
dist.all_to_all_single(dispatched, tokens[order], here, there)
answers = np.zeros((6, 8), np.float32)
dist.all_to_all_single(answers, dispatched * (rank + 1), there, here)
combined = np.zeros_like(answers)
combined[order] = answers
print("expert parallel:", np.array_equal(combined, tokens * (experts[:, None] + 1)))
