"""Run a small transformer whose layers are divided between the ranks (tensor parallelism), without gloo.

    torchrun --nproc-per-node 2 examples/torch_tensor_parallel.py
    shmrun -n 2 examples/torch_tensor_parallel.py

Every rank has a part of the heads and of the hidden units. Rank 0 prints whether the logits are those of the whole
model.
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import shmcoll.torch  # noqa: F401  # registers the backend

WIDTH, HEADS, LAYERS, WORDS = 64, 4, 2, 100


class Block(torch.nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm_1(x)
        # as many heads as this rank has
        parts = (each(normed).unflatten(-1, (-1, WIDTH // HEADS)) for each in (self.query, self.key, self.value))
        heads = torch.nn.functional.scaled_dot_product_attention(
            *(part.transpose(1, 2) for part in parts), is_causal=True
        )
        x = x + self.out(heads.transpose(1, 2).flatten(-2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm_2(x))))


dist.init_process_group("shmcoll")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Embedding(WORDS, WIDTH), *(Block() for _ in range(LAYERS)), torch.nn.Linear(WIDTH, WORDS)
)
words = torch.randint(WORDS, (2, 16))
with torch.inference_mode():
    expected = model(words)

mesh = init_device_mesh("cpu", (size,))
plan = dict.fromkeys(("query", "key", "value", "up"), ColwiseParallel()) | dict.fromkeys(
    ("out", "down"), RowwiseParallel()
)
for block in model[1 : 1 + LAYERS]:
    parallelize_module(block, mesh, plan)
with torch.inference_mode():
    logits = model(words)
if rank == 0:
    print(f"{size} ranks, {HEADS // size} heads on each: same logits: {torch.allclose(logits, expected, atol=1e-5)}")
dist.destroy_process_group()
