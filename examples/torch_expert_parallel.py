"""Send tokens to experts on other ranks and back (expert parallelism), without gloo.

    torchrun --nproc-per-node 2 examples/torch_expert_parallel.py
    shmrun -n 2 examples/torch_expert_parallel.py

Every rank has tokens and some of the experts. A router picks an expert for each token. Two calls of
`all_to_all_single` bring the tokens to their experts and the results back. Rank 0 prints whether these are the results
of a rank that has all experts.
"""

import torch
import torch.distributed as dist

import shmcoll.torch  # noqa: F401  # registers the backend

WIDTH, EXPERTS_PER_RANK, TOKENS = 32, 2, 100

dist.init_process_group("shmcoll")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
experts = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS_PER_RANK * size)]
router = torch.nn.Linear(WIDTH, len(experts))
torch.manual_seed(1 + rank)
tokens = torch.randn(TOKENS, WIDTH)

with torch.inference_mode():
    chosen = router(tokens).argmax(1)
    order = chosen.argsort(stable=True)
    per_expert = chosen.bincount(minlength=len(experts))
    arriving = torch.empty_like(per_expert)
    dist.all_to_all_single(arriving, per_expert)  # how many tokens each rank sends to each expert of this rank

    sent = per_expert.view(size, -1).sum(1).tolist()
    received = arriving.view(size, -1).sum(1).tolist()
    inputs = torch.empty(sum(received), WIDTH)
    dist.all_to_all_single(inputs, tokens[order], received, sent)

    # the tokens from each rank are in the order of the experts
    mine = range(rank * EXPERTS_PER_RANK, (rank + 1) * EXPERTS_PER_RANK)
    parts = inputs.split(arriving.tolist())
    outputs = torch.cat([experts[mine[i % EXPERTS_PER_RANK]](part) for i, part in enumerate(parts)])

    returned = torch.empty_like(tokens)
    dist.all_to_all_single(returned, outputs, sent, received)
    results = torch.empty_like(tokens)
    results[order] = returned

    expected = torch.stack([experts[expert](token) for expert, token in zip(chosen.tolist(), tokens, strict=True)])
right = torch.tensor([torch.allclose(results, expected, atol=1e-5)])
dist.all_reduce(right, dist.ReduceOp.BAND)
if rank == 0:
    print(f"{size} ranks, {len(experts)} experts, {size * TOKENS} tokens: same results: {bool(right)}")
dist.destroy_process_group()
