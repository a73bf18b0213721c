"""Train a small model on handwritten digits with DistributedDataParallel, without gloo.

    torchrun --nproc-per-node 2 examples/torch_ddp.py
    shmrun -n 2 examples/torch_ddp.py

The data comes with scikit-learn. Rank 0 prints the share of the test digits that the model gets right.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

import shmcoll.torch  # noqa: F401  # registers the backend

dist.init_process_group("shmcoll")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)

digits = load_digits()
x = torch.from_numpy(digits.data).float() / 16
y = torch.from_numpy(digits.target)
order = torch.randperm(len(x))
train, test = order[:1500], order[1500:]

model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
for _ in range(6):
    for rows in train[rank::size].split(50):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()

mine = test[rank::size]
with torch.no_grad():
    counts = torch.tensor([(model.module(x[mine]).argmax(1) == y[mine]).sum(), len(mine)])
dist.all_reduce(counts)
if rank == 0:
    print(f"{size} ranks: {counts[0] / counts[1]:.3f} of {counts[1]} test digits are right")
dist.destroy_process_group()
