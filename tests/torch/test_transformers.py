"""Hugging Face's tensor parallelism over the backend, where transformers is installed."""

import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import torch.distributed as dist  # noqa: E402

import shmcoll.torch  # noqa: E402

pytestmark = pytest.mark.slow


def logits_of_a_divided_model(comm: Any, folder: Path) -> Any:
    os.environ.update(LOCAL_RANK=str(comm.rank), LOCAL_WORLD_SIZE=str(comm.size))
    dist.init_process_group(
        "shmcoll", store=dist.FileStore(str(folder / "store"), comm.size), rank=comm.rank, world_size=comm.size
    )
    words = torch.arange(10).view(1, 10)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4,
    )  # fmt: skip
    whole = transformers.LlamaForCausalLM(config).eval()
    if comm.rank == 0:
        whole.save_pretrained(folder / "model")
    dist.barrier()
    divided = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "model", distributed_config=transformers.DistributedConfig(tp_size=comm.size, tp_plan="auto")
    ).eval()
    weight = divided.model.layers[0].mlp.up_proj.weight
    part = weight.to_local() if hasattr(weight, "to_local") else weight
    with torch.no_grad():
        before, expected = divided(words).logits, whole(words).logits
        undo = shmcoll.torch.replace_collectives(divided.model.layers[0].mlp.up_proj.weight.device_mesh.get_group())
        after = divided(words).logits
        undo()
        same = torch.allclose(before, expected, atol=1e-4) and torch.equal(before, after)
    dist.destroy_process_group()
    return same, tuple(part.shape)


def test_a_divided_model_has_the_same_logits(ranks: Any, tmp_path: Path) -> None:
    assert ranks(2, logits_of_a_divided_model, tmp_path) == [(True, (32, 32))] * 2
