"""A program for `shmrun --mindspore`: `Model.train` with the settings that MindSpore's tutorials choose.

Graph mode, Ascend, `parameter_broadcast`, data sinking, a sampler, callbacks and a checkpoint. Each rank begins with
other weights; those of rank 0 count. The result is compared with one network and whole batches.
"""

import tempfile

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, train
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.GRAPH_MODE, device_target="Ascend")  # PyNative mode and the CPU, with warnings
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True, parameter_broadcast=True)
ms.set_ps_context(enable_ssl=False)
init()
rank, size = get_rank(), get_group_size()
STEPS, BATCH = 3, 2
rng = np.random.default_rng(5)
images = rng.random((STEPS * BATCH * size, 1, 2, 3), np.float32)
labels = rng.integers(0, 3, len(images)).astype(np.int32)


def network(offset):
    net = nn.SequentialCell(nn.Flatten(), nn.Dense(6, 8), nn.ReLU(), nn.Dense(8, 3))
    for one in net.trainable_params():
        one.set_data(ms.Tensor(np.linspace(-0.4, 0.5, one.size, dtype=np.float32).reshape(one.shape) + offset))
    return net


def data(batch, sampler):
    rows = ds.GeneratorDataset(list(zip(images, labels, strict=True)), ["image", "label"], sampler=sampler)
    rows = rows.map(ds.transforms.TypeCast(ms.int32), "label")
    return rows.batch(batch, drop_remainder=True)


def check(name, got, wanted):
    for one, other in zip(got.trainable_params(), wanted.trainable_params(), strict=True):
        if not np.allclose(one.asnumpy(), other.asnumpy(), rtol=1e-4, atol=1e-6):
            print(f"rank {rank}: {name}: {one.asnumpy()} instead of {other.asnumpy()}", flush=True)


def momentum(net):
    return nn.Momentum(net.trainable_params(), 0.1, 0.9)


whole, loss_fn = network(0), nn.CrossEntropyLoss()
by_weights = ms.value_and_grad(lambda x, y: loss_fn(whole(x), y), None, whole.trainable_params())
optimizer = momentum(whole)
whole.set_train()
for x, y in data(BATCH * size, ds.SequentialSampler()):
    optimizer(by_weights(x, y)[1])

with tempfile.TemporaryDirectory() as folder:
    net = network(rank)
    model = train.Model(net, loss_fn, momentum(net), metrics={"accuracy"})
    save = train.ModelCheckpoint("net", folder, train.CheckpointConfig(save_checkpoint_steps=STEPS))
    shard = ds.DistributedSampler(size, rank, shuffle=False)
    model.train(1, data(BATCH, shard), callbacks=[save], dataset_sink_mode=True)
    check("Model.train", net, whole)
    loaded = network(9)
    ms.load_checkpoint(f"{folder}/net-1_{STEPS}.ckpt", loaded)
    check("a checkpoint", loaded, whole)
    model.eval(data(BATCH, ds.SequentialSampler()))

net = network(rank)
step = nn.TrainOneStepCell(nn.WithLossCell(net, loss_fn), momentum(net))
step.set_train()
for x, y in data(BATCH, ds.DistributedSampler(size, rank, shuffle=False)):
    step(x, y)
check("TrainOneStepCell", net, whole)
ms.reset_auto_parallel_context()
print(f"rank {rank}: right", flush=True)
