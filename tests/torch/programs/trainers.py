"""Programs of the libraries that train: accelerate, transformers' Trainer, Lightning and its Fabric, torchmetrics."""

import logging
import tempfile
from typing import Any

import torch
import torch.distributed as dist

from tests.torch.programs.table import batch, model, program

SAMPLES = [(batch(0, i)[0], i % 5) for i in range(29)]  # no multiple of the ranks


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(output, target)


@program(library="accelerate")
def accelerate_trains_and_saves(rank: int, size: int, backend: str) -> Any:
    """Its own choice for CPUs is gloo; it takes a group that is there."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import broadcast_object_list, gather_object, reduce, set_seed

    AcceleratorState._reset_state(reset_partial_state=True)
    dist.init_process_group(backend)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(7)
    trained = model()
    optimizer = torch.optim.AdamW(trained.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    loader = torch.utils.data.DataLoader(SAMPLES, batch_size=3, shuffle=True)
    trained, optimizer, loader, schedule = accelerator.prepare(trained, optimizer, loader, schedule)
    losses = []
    for _ in range(2):
        for x, target in loader:
            with accelerator.accumulate(trained):
                loss = loss_of(trained(x), target)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(trained.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                losses.append(accelerator.gather(loss.detach()).mean())
    found = torch.cat([accelerator.gather_for_metrics(target) for _, target in loader])
    folder = broadcast_object_list([tempfile.mkdtemp()])[0]
    accelerator.save_state(folder)
    accelerator.wait_for_everyone()
    saved = [one.detach().clone() for one in trained.parameters()]
    with torch.no_grad():
        for one in trained.parameters():
            one.zero_()
    accelerator.load_state(folder)
    with accelerator.split_between_processes(list(range(7)), apply_padding=True) as mine:
        some = list(mine)
    rows = accelerator.pad_across_processes(torch.ones(rank + 1, 2))
    return {
        "type": str(accelerator.distributed_type),
        "losses": losses,
        "targets": sorted(found.tolist()),
        "parameters": saved,
        "loaded": all(torch.equal(one, other) for one, other in zip(saved, trained.parameters(), strict=True)),
        "others": [some, rows, gather_object([rank]), reduce(torch.ones(2) * rank, "mean")],
    }


@program(library="transformers")
def transformers_trains_evaluates_and_goes_on(rank: int, size: int, backend: str) -> Any:
    import transformers
    from transformers.trainer_utils import get_last_checkpoint

    transformers.utils.logging.set_verbosity_error()
    dist.init_process_group(backend)
    holder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(holder)
    words = [torch.randint(0, 40, (8,), generator=torch.Generator().manual_seed(i)) for i in range(26)]
    samples = [{"input_ids": one, "labels": one} for one in words]

    def trainer(steps: int) -> Any:
        transformers.set_seed(5)
        config = transformers.LlamaConfig(
            vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
        )
        arguments = transformers.TrainingArguments(
            output_dir=holder[0], use_cpu=True, max_steps=steps, per_device_train_batch_size=2, learning_rate=1e-2,
            gradient_accumulation_steps=2, logging_steps=1, eval_strategy="steps", eval_steps=2, save_steps=2,
            per_device_eval_batch_size=3, report_to=[], disable_tqdm=True, seed=5,
        )  # fmt: skip
        return transformers.Trainer(
            transformers.LlamaForCausalLM(config), arguments, train_dataset=samples, eval_dataset=samples[:11]
        )

    first = trainer(4)
    first.train()
    later = trainer(6)
    later.train(resume_from_checkpoint=get_last_checkpoint(holder[0]))
    kept = ("loss", "eval_loss", "learning_rate", "step", "grad_norm")
    history = [{key: one[key] for key in kept if key in one} for one in later.state.log_history]
    predicted = later.predict(samples[:7])
    return {
        "type": str(first.accelerator.distributed_type),
        "history": history,
        "parameters": list(later.model.parameters()),
        "predicted": [float(predicted.predictions.sum()), predicted.predictions.shape, predicted.metrics["test_loss"]],
    }


def lightning_module() -> Any:
    import lightning
    import torchmetrics

    class Trained(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.norm = model(), torch.nn.BatchNorm1d(5)
            self.accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=5, average="micro")
            self.seen: list[float] = []

        def training_step(self, one: Any, index: int) -> torch.Tensor:
            loss = loss_of(self.norm(self.layers(one[0])), one[1])
            self.log("loss", loss, sync_dist=True, on_epoch=True, on_step=False)
            return loss

        def validation_step(self, one: Any, index: int) -> None:
            output = self.layers(one[0])
            self.accuracy(output, one[1])
            self.log("accuracy", self.accuracy, on_epoch=True)
            self.log("valid", loss_of(output, one[1]), sync_dist=True)

        def on_validation_epoch_end(self) -> None:
            self.seen.append(self.all_gather(torch.tensor(float(self.global_rank))).sum().item())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Trained()


@program(library="lightning")
def lightning_trains(rank: int, size: int, backend: str) -> Any:
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(3)
    loader = torch.utils.data.DataLoader(SAMPLES, batch_size=4)
    trained = lightning_module()
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="cpu", devices=size, strategy=DDPStrategy(process_group_backend=backend), max_epochs=2,
            sync_batchnorm=False, logger=False, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=folder,
        )  # fmt: skip
        trainer.fit(trained, loader, loader)
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        dist.barrier()
    return [dist.get_backend() == backend, metrics, trained.seen, list(trained.parameters())]


@program(library="lightning")
def fabric_trains(rank: int, size: int, backend: str) -> Any:
    import lightning
    from lightning.fabric.strategies import DDPStrategy, FSDPStrategy

    fabric = lightning.Fabric(accelerator="cpu", devices=size, strategy=DDPStrategy(process_group_backend=backend))
    fabric.launch()
    fabric.seed_everything(3, verbose=False)
    trained, optimizer = fabric.setup(layers := model(), torch.optim.SGD(layers.parameters(), lr=0.1))
    loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(SAMPLES, batch_size=4))
    for i, (x, target) in enumerate(loader):
        with fabric.no_backward_sync(trained, enabled=i % 2 == 0):
            fabric.backward(loss_of(trained(x), target))
        if i % 2:
            fabric.clip_gradients(trained, optimizer, max_norm=0.5)
            optimizer.step()
            optimizer.zero_grad()
    kinds = fabric.all_gather(torch.tensor([rank])), fabric.all_reduce(torch.tensor([1.0 + rank]), reduce_op="sum")
    return [dist.get_backend() == backend, list(trained.parameters()), kinds, FSDPStrategy.__name__]


@program(library="torchmetrics")
def metrics_of_all_ranks(rank: int, size: int, backend: str) -> Any:
    import torchmetrics

    dist.init_process_group(backend)
    drawn = torch.Generator().manual_seed(rank)
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=5)
    curve = torchmetrics.classification.BinaryAUROC()  # keeps lists, of other lengths on each rank
    others = torchmetrics.MetricCollection([torchmetrics.MeanSquaredError(), torchmetrics.R2Score()])
    mean = torchmetrics.MeanMetric()
    for _ in range(2 + rank):
        scores = torch.rand(6, 5, generator=drawn)
        accuracy.update(scores, torch.randint(0, 5, (6,), generator=drawn))
        curve.update(scores[:, 0], torch.randint(0, 2, (6,), generator=drawn))
        others.update(scores[:, 1], scores[:, 2])
        mean.update(scores[0, 0], weight=rank + 1)
    none = torchmetrics.CatMetric()
    if rank == 0:
        none.update(torch.ones(2))
    return [accuracy.compute(), curve.compute(), others.compute(), mean.compute(), none.compute()]
