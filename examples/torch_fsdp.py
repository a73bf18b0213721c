"""Train a small model on handwritten digits with its parameters spread over the ranks (FSDP2), without gloo.

    torchrun --nproc-per-node 2 examples/torch_fsdp.py
    shmrun -n 2 examples/torch_fsdp.py

The data comes with scikit-learn. Each rank keeps its part of the parameters, of their gradients and of the state of the
optimizer. FSDP2 gathers the parameters of a layer before it is used, in memory that the ranks share.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import shmcoll.torch  # noqa: F401  # registers the backend

dist.init_process_group("shmcoll")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)

digits = load_digits()
x = torch.from_numpy(digits.data).float() / 16
y = torch.from_numpy(digits.target)
order = torch.randperm(len(x))
train, test = order[:1500], order[1500:]

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
mesh = init_device_mesh("cpu", (size,))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh).set_allocate_memory_from_process_group_for_comm(True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
for _ in range(5):
    for rows in train[rank::size].split(50):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()

kept = sum(parameter.to_local().numel() for parameter in model.parameters())
whole = sum(parameter.numel() for parameter in model.parameters())
mine = test[rank::size]
with torch.no_grad():
    counts = torch.tensor([(model(x[mine]).argmax(1) == y[mine]).sum(), len(mine)])
dist.all_reduce(counts)
if rank == 0:
    print(f"{size} ranks, {kept} of {whole} parameters on rank 0: {counts[0] / counts[1]:.3f} of the digits are right")
dist.destroy_process_group()
