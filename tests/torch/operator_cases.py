"""What every operator of `torch.ops.shmcoll` must do: cases in a table of their own, run as those of `cases.py`."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

import shmcoll.torch
from shmcoll.torch import ops
from shmcoll.torch.ops import groups, kernels
from tests.torch.cases import FLOATS, INTEGERS, Case, Op, apart, given, reduced, run_table, same

CASES: dict[str, Case] = {}
OPS = torch.ops.shmcoll
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
COMPLEX = (torch.complex64, torch.complex128)
OPERATORS = {"sum": Op.SUM, "avg": Op.AVG, "prod": Op.PRODUCT, "min": Op.MIN, "max": Op.MAX}
OPERATORS |= {"band": Op.BAND, "bor": Op.BOR, "bxor": Op.BXOR}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def run_all(comm: Any, store: Path) -> dict[str, str]:
    return run_table(comm, store, CASES)


def inputs(size: int, shape: Any = (4,), dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [given(rank, shape, dtype) for rank in range(size)]


@case
def all_reduce_of_every_operator_and_dtype(rank: int, size: int) -> None:
    group = ops.handle()
    for dtype in (*FLOATS, *INTEGERS):
        names = ["sum", "prod", "min", "max", *(["avg"] if dtype in FLOATS else ["band", "bor", "bxor"])]
        for name in names:
            tensor = given(rank, dtype=dtype)
            expected = reduced(OPERATORS[name], inputs(size, dtype=dtype))
            same(OPS.all_reduce(tensor, group, name), expected, (name, dtype))
            same(tensor, given(rank, dtype=dtype))
            assert OPS.all_reduce_(tensor, group, name) is None
            same(tensor, expected, (name, dtype))
    for dtype in (*UNSIGNED, *COMPLEX):
        tensor = given(rank).to(dtype)
        OPS.all_reduce_(tensor, group)
        same(tensor, sum(inputs(size)).to(dtype), dtype)
    truth = torch.tensor([rank == 0, True, False])
    same(OPS.all_reduce(truth, group, "bor"), torch.tensor([True, True, False]))


@case
def the_native_entry_makes_the_call(rank: int, size: int) -> None:
    """It reads every dtype of the engine; plain tensors, parameters, those of inference mode, of any shape."""
    group = ops.handle()
    entry = groups.entries[group]
    for dtype in (*FLOATS, *INTEGERS, *UNSIGNED, *COMPLEX, torch.bool):
        tensor = given(rank).to(dtype)
        OPS.all_reduce_(tensor, group)  # the first call loads the kernel
        assert entry(kernels.ALL_REDUCE, 1, 0, tensor, tensor) == 0, dtype
    with torch.inference_mode():
        made = torch.ones(3)
    for tensor in (made, torch.nn.Parameter(torch.ones(3), False), torch.ones(2, 3), torch.ones(()), made[1:]):
        assert entry(kernels.ALL_REDUCE, 1, 0, tensor, tensor) == 0
        same(tensor, torch.full_like(tensor, size if tensor.shape != (2,) else size * size), tensor.shape)
    for other in (torch.ones(2, 2).t(), torch.ones(2).to_sparse(), torch.ones(2, device="meta"), made.numpy(), None):
        assert entry(kernels.ALL_REDUCE, 1, 0, other, other) == shmcoll.engine.context.NEEDS_PYTHON


@case
def python_makes_what_the_native_entry_does_not(rank: int, size: int) -> None:
    """It never does where the interpreter or torch is not as `native.py` expects it."""
    group = ops.handle()
    native = groups.entries[group]
    groups.entries[group] = lambda *_: shmcoll.engine.context.NEEDS_PYTHON
    for function in (all_reduce_of_every_shape_and_layout, broadcast, gathering_and_scattering, all_to_all_single):
        function(rank, size)
    groups.entries[group] = native


@case
def all_reduce_of_every_shape_and_layout(rank: int, size: int) -> None:
    group = ops.handle()
    for shape in ((), (0,), (5,), (2, 3), (1000,)):
        expected = reduced(Op.SUM, inputs(size, shape))
        same(OPS.all_reduce(given(rank, shape), group), expected, shape)
        same(OPS.all_reduce(apart(given(rank, shape)), group), expected, shape)
        tensor = given(rank, shape)
        OPS.all_reduce_(tensor, group)
        same(tensor, expected, shape)
    negative = torch._neg_view(given(rank))
    same(OPS.all_reduce(negative, group), -sum(inputs(size)))
    OPS.all_reduce_(negative, group)
    same(negative.resolve_neg(), -sum(inputs(size)))
    conjugate = torch.complex(given(rank), given(rank)).conj()
    OPS.all_reduce_(conjugate, group)
    same(conjugate.resolve_conj(), torch.complex(sum(inputs(size)), -sum(inputs(size))))


@case
def broadcast(rank: int, size: int) -> None:
    group = ops.handle()
    for root in range(size):
        for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.float8_e5m2):
            tensor, expected = given(rank).to(dtype), given(root).to(dtype).view(torch.uint8)
            same(OPS.broadcast(tensor, group, root).view(torch.uint8), expected, dtype)
            OPS.broadcast_(tensor, group, root)
            same(tensor.view(torch.uint8), expected, dtype)


@case
def gathering_and_scattering(rank: int, size: int) -> None:
    group = ops.handle()
    for shape in ((2,), (2, 3), (0, 3), ()):
        whole = torch.cat([one.reshape(-1, *shape[1:]) for one in inputs(size, shape)])
        same(OPS.all_gather_into_tensor(given(rank, shape), group), whole, shape)
        same(OPS.all_gather_into_tensor(apart(given(rank, shape)), group), whole, shape)
        out = torch.zeros(size, *shape)
        OPS.all_gather_into_tensor_(out, given(rank, shape), group)
        same(out, whole.view(size, *shape), shape)
    for name in ("sum", "max", "avg"):
        for shape in ((size, 3), (size * 2,)):
            total = reduced(OPERATORS[name], inputs(size, shape)).chunk(size)[rank]
            same(OPS.reduce_scatter_tensor(given(rank, shape), group, name), total, shape)
            out = torch.zeros_like(total)
            OPS.reduce_scatter_tensor_(out, given(rank, shape), group, name)
            same(out, total, shape)


@case
def all_to_all_single(rank: int, size: int) -> None:
    group = ops.handle()
    for shape in ((size, 3), (size * 2,)):
        blocks = torch.cat([one.chunk(size)[rank] for one in inputs(size, shape)])
        same(OPS.all_to_all_single(given(rank, shape), group), blocks, shape)
        out = torch.zeros_like(blocks)
        OPS.all_to_all_single_(out, given(rank, shape), group)
        same(out, blocks, shape)
    sent = [[(a + b) % 3 for b in range(size)] for a in range(size)]  # rows from a to b
    received = [row[rank] for row in sent]
    rows = [given(a, (sum(sent[a]), 2)) for a in range(size)]
    expected = torch.cat([rows[a].split(sent[a])[rank] for a in range(size)])
    same(OPS.all_to_all_single(rows[rank], group, received, sent[rank]), expected)


@case
def a_handle_is_that_of_its_group(rank: int, size: int) -> None:
    assert ops.handle() == ops.handle(dist.group.WORLD)
    half = list(range((size + 1) // 2))
    part = dist.new_group(half)
    if rank in half:
        group = ops.handle(part)
        assert group != ops.handle()
        same(OPS.all_reduce(given(rank), group), sum(inputs(len(half))))
        dist.destroy_process_group(part)
        for call in (OPS.all_reduce_, OPS.all_reduce, OPS.all_gather_into_tensor):
            with pytest.raises(ValueError, match=f"{call.__name__}: the group of handle {group} has ended; get"):
                call(given(rank), group)
        with pytest.raises(ValueError, match="no group has the handle 0"):
            OPS.all_reduce_(given(rank), 0)
    same(OPS.all_reduce(given(rank), ops.handle()), sum(inputs(size)))


def refused(kind: type[Exception], text: str, call: Callable[..., Any], *arguments: Any) -> None:
    with pytest.raises(kind, match=text) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)


@case
def bad_input(rank: int, size: int) -> None:
    """Nothing has moved: the last call, which is right, is the first that the ranks make together."""
    group, x = ops.handle(), torch.ones(size, 2)
    refused(ValueError, "x is written and must be contiguous, got strides", OPS.all_reduce_, apart(x), group)
    refused(ValueError, "x is written and must be contiguous", OPS.broadcast_, x.t(), group)
    refused(ValueError, "op must be one of sum, .*, got 'mean'", OPS.all_reduce_, x, group, "mean")
    refused(ValueError, "op must be one of sum, .*, got 'mean'", OPS.reduce_scatter_tensor, x, group, "mean")
    refused(RuntimeError, "requires grad would be written", OPS.all_reduce_, torch.ones(2, requires_grad=True), group)
    refused(TypeError, "x must be on the CPU, got meta", kernels.all_reduce_, x.to("meta"), group)  # as of a GPU
    refused(TypeError, "x must be dense, got torch.sparse_coo; pass", OPS.all_reduce_, x.to_sparse(), group)
    refused(TypeError, "out must be torch.float32 as x", OPS.all_gather_into_tensor_, x.repeat(size, 1).int(), x, group)
    refused(ValueError, "output tensor size", OPS.all_gather_into_tensor_, x, x, group)
    refused(ValueError, "must be a multiple of the", OPS.reduce_scatter_tensor, torch.ones(size + 1), group)
    refused(ValueError, "must be a multiple of the", OPS.all_to_all_single, torch.ones(size + 1), group)
    refused(ValueError, f"root {size} is not a rank", OPS.broadcast_, x, group, size)
    refused(TypeError, "no quantised tensors, got one of torch.qint8; pass", OPS.all_reduce, quantized(), group)
    refused(TypeError, "the group must be one of the backend", ops.handle, dist.new_group(backend="gloo"))
    with torch.no_grad():
        parameter = torch.ones(2, requires_grad=True)
        OPS.all_reduce_(parameter, group)
        same(parameter.detach(), torch.full((2,), float(size)))


def quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is about to drop them
        return torch._empty_affine_quantized([2], scale=1.0, zero_point=0, dtype=torch.qint8)


@case
def tensors_without_memory(rank: int, size: int) -> None:
    group, x = ops.handle(), torch.ones(size, 2, device="meta")
    assert OPS.all_reduce_(x, group) is None
    for name, rows in (
        ("all_reduce", size),
        ("broadcast", size),
        ("all_gather_into_tensor", size * size),
        ("reduce_scatter_tensor", 1),
        ("all_to_all_single", size),
    ):
        made = getattr(OPS, name)(x, group)
        assert (made.device.type, made.shape) == ("meta", (rows, 2)), name


def weights(shape: Any, rank: int) -> torch.Tensor:
    return torch.arange(1.0, 1 + torch.Size(shape).numel(), dtype=torch.float64).view(shape) * (rank + 1)


@case
def gradients(rank: int, size: int) -> None:
    """They are those of the plain formula: all ranks' inputs in one process, and the sum of all ranks' losses."""
    group = ops.handle()
    sent = [[1 + (a + b) % 2 for b in range(size)] for a in range(size)]
    received = [[row[b] for row in sent] for b in range(size)]

    def parts(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.cat([x.chunk(size)[r] for x in xs]) for r in range(size)]

    def splits(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.cat([x.split(sent[a])[r] for a, x in enumerate(xs)]) for r in range(size)]

    formulas: list[tuple[Any, Any]] = [
        (lambda x: OPS.all_reduce(x, group), lambda xs: [sum(xs)] * size),
        (lambda x: OPS.all_reduce(x, group, "avg"), lambda xs: [sum(xs) / size] * size),
        (lambda x: OPS.broadcast(x, group, size - 1), lambda xs: [xs[-1]] * size),
        (lambda x: OPS.all_gather_into_tensor(x, group), lambda xs: [torch.cat(xs)] * size),
        (lambda x: OPS.reduce_scatter_tensor(x, group), lambda xs: list(sum(xs).chunk(size))),
        (lambda x: OPS.reduce_scatter_tensor(x, group, "avg"), lambda xs: list((sum(xs) / size).chunk(size))),
        (lambda x: OPS.all_to_all_single(x, group), parts),
    ]
    formulas = [(*one, (2 * size, 3)) for one in formulas]
    formulas += [(lambda x: OPS.all_to_all_single(x, group, received[rank], sent[rank]), splits, None)]
    for number, (call, formula, shape) in enumerate(formulas):
        shapes = [shape or (sum(sent[r]), 3) for r in range(size)]
        xs = [given(r, shapes[r], torch.float64).requires_grad_() for r in range(size)]
        loss = sum(((2 * y) ** 2 * weights(y.shape, r)).sum() for r, y in enumerate(formula(xs)))
        loss.backward()
        own = given(rank, shapes[rank], torch.float64).requires_grad_()
        y = call(own)
        ((2 * y) ** 2 * weights(y.shape, rank)).sum().backward()
        same(own.grad, torch.zeros_like(own) if xs[rank].grad is None else xs[rank].grad, number)
    saved, weight = given(rank), given(rank).requires_grad_()
    loss = (saved * weight).sum()
    OPS.all_reduce_(saved, group)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    x = given(rank).requires_grad_()
    refused(RuntimeError, "op='max' has no gradient", OPS.all_reduce(x, group, "max").sum().backward)


@case
def what_torch_says_of_an_operator(rank: int, size: int) -> None:
    """`opcheck` compares the schema, the fake kernel, the gradient and a traced call with the operator."""
    warnings.filterwarnings("ignore", "The .grad attribute")  # of its own code, from torch 2.14 on
    group, x = ops.handle(), given(rank, (2 * size, 3))
    for name in ("all_reduce", "broadcast", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
        for one in (x, x.clone().requires_grad_()):
            torch.library.opcheck(getattr(OPS, name).default, (one, group))
    for arguments in (("all_reduce_", x), ("broadcast_", x), ("all_to_all_single_", torch.zeros_like(x), x)):
        torch.library.opcheck(getattr(OPS, arguments[0]).default, (*arguments[1:], group))
    torch.library.opcheck(OPS.all_gather_into_tensor_.default, (torch.zeros(2 * size * size, 3), x, group))
    torch.library.opcheck(OPS.reduce_scatter_tensor_.default, (torch.zeros(2, 3), x, group))


def calls_of_torch(rank: int, size: int, group: Any) -> list[torch.Tensor]:
    """Make collectives as a program does that knows torch only."""
    x, mesh = given(rank, (2 * size,)), init_device_mesh("cpu", (size,))
    results = [x.clone() for _ in range(5)] + [torch.empty(2 * size * size), torch.empty(2), torch.empty(2 * size)]
    summed, twice, largest, later, across, gathered, scattered, exchanged = results
    dist.all_reduce(summed, group=group)
    dist.all_reduce(twice, Op.SUM, group)
    dist.all_reduce(largest, op=Op.MAX, group=group)
    dist.all_reduce(later, async_op=True, group=group).wait()
    dist.all_reduce(across.view(2, size).t(), group=group)  # its elements are not next to each other
    dist.all_gather_into_tensor(gathered, x, group=group)
    dist.reduce_scatter_tensor(scattered, x, op=Op.SUM, group=group)
    dist.all_to_all_single(exchanged, x, group=group)
    results += [functional.all_reduce(x, name, group) for name in ("sum", "product", "max", "avg")]
    results += [functional.all_gather_tensor(x, 0, group), functional.reduce_scatter_tensor(x, "sum", 0, group)]
    results += [functional.all_to_all_single(x, None, None, group), functional.broadcast(x, size - 1, group)]
    for placement in (Partial(), Shard(0)):
        results.append(DTensor.from_local(x, mesh, [placement]).redistribute(placements=[Replicate()]).to_local())
    differentiated = x.clone().requires_grad_()
    functional.all_reduce(differentiated**2, "sum", group).pow(2).sum().backward()
    return [one + 0 for one in [*results, differentiated.grad]]


@case
def torch_s_own_collectives_replaced(rank: int, size: int) -> None:
    group, function = dist.group.WORLD, dist.all_reduce
    before = calls_of_torch(rank, size, group)
    undo = shmcoll.torch.replace_collectives()
    assert dist.all_reduce is not function
    assert all(map(torch.equal, before, calls_of_torch(rank, size, group)))
    assert type(functional.all_reduce(given(rank), "sum", group)) is torch.Tensor  # there is nothing to wait for
    other, x = dist.new_group(backend="gloo"), given(rank)
    dist.all_reduce(x, group=other)  # as before
    same(x, sum(inputs(size)))
    undo()
    assert dist.all_reduce is function
    assert type(functional.all_reduce(given(rank), "sum", group)) is functional.AsyncCollectiveTensor
    assert all(map(torch.equal, before, calls_of_torch(rank, size, group)))


def layer(x: torch.Tensor, group: int, size: int) -> torch.Tensor:
    """Call every operator once."""
    y = x * 2
    OPS.all_reduce_(y, group)
    OPS.broadcast_(y, group)
    y = OPS.all_reduce(y.t(), group, "max").t() + x
    y = OPS.broadcast(y, group, size - 1) + x
    y = OPS.reduce_scatter_tensor(OPS.all_gather_into_tensor(y, group), group)
    out = torch.empty_like(y)
    OPS.all_to_all_single_(out, y + 1, group)
    return OPS.all_to_all_single(out - x, group, [2] * size, [2] * size).sum(1)


def compiled(rank: int, size: int, backend: str) -> None:
    group = ops.handle()
    for x in (given(rank, (2 * size, 3)), given(rank, (2 * size, 5))):  # the second time with symbolic sizes
        whole = torch.compile(layer, backend=backend, fullgraph=True)
        same(whole(x, group, size), layer(x, group, size))

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y)
        dist.all_reduce(y, op=Op.SUM, group=dist.group.WORLD)
        return functional.all_gather_tensor(y, 0, dist.group.WORLD) + 1

    undo = shmcoll.torch.replace_collectives()
    same(torch.compile(step, backend=backend, fullgraph=True)(given(rank)), step(given(rank)))
    undo()

    def lost(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        OPS.all_reduce_(y, group)
        return y

    with pytest.raises(RuntimeError, match="requires grad would be written"):
        torch.compile(lost, backend=backend, fullgraph=True)(given(rank).requires_grad_())

    def loss(x: torch.Tensor) -> torch.Tensor:
        return OPS.all_gather_into_tensor(OPS.all_reduce(x.sin(), group).cos(), group).sum() * (rank + 1)

    one, other = (given(rank, dtype=torch.float64).requires_grad_() for _ in range(2))
    torch.compile(loss, backend=backend, fullgraph=True)(one).backward()
    loss(other).backward()
    assert torch.allclose(one.grad, other.grad, rtol=1e-12)
