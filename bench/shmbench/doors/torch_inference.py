"""Inference with a model that is divided among the ranks: short calls, and a token of a small Llama.

The model has random weights, made here, and computes one token after a cache of others. Each rank has its share of the
heads and of the hidden units, so each layer adds up two vectors over the ranks. All ways of doing that are entries of
one row: native calls, gloo, this backend, and its operator.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from shmbench.doors import Rivals

LENGTHS = (8, 16 << 10, 64 << 10)
WIDTH, HEAD, HIDDEN, WORDS, PAST = 1024, 64, 2816, 8192, 64
LAYERS = 4

Reduce = Callable[[Any], Any]


def rivals(comm: Any, groups: Mapping[str, Any], quick: bool) -> Iterator[Rivals]:
    """Yield the rows of the operators.

    Args:
        comm: the communicator of all ranks.
        groups: a torch group of all ranks for each backend.
        quick: whether a tiny model is enough.
    """
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional

    import shmcoll.torch

    group, operators = shmcoll.torch.ops.handle(groups["shmcoll"]), torch.ops.shmcoll
    own = shmcoll.torch.backend_of(groups["shmcoll"]).comm
    size = comm.size

    for length in LENGTHS:
        x = torch.empty(length // 4)
        array, expected = x.numpy(), torch.full((length // 4,), float(size))
        reducing = partial(x.fill_, 1.0), partial(_different, x, expected)
        entries: dict[str, Any] = {"native": partial(own.all_reduce, array, out=array)}
        entries |= {name: partial(dist.all_reduce, x, group=one) for name, one in groups.items()}
        entries["operator"] = partial(operators.all_reduce_, x, group)
        yield Rivals("inference: all_reduce_", length, entries, *reducing)

    y, whole = torch.ones(LENGTHS[1] // 4), torch.empty(size * LENGTHS[1] // 4)
    gathering = partial(whole.fill_, -1.0), partial(_different, whole, torch.ones_like(whole))
    entries = {"native": partial(own.all_gather, y.numpy(), out=whole.numpy())}
    entries |= {name: partial(dist.all_gather_single, whole, y, group=one) for name, one in groups.items()}
    entries["operator"] = partial(operators.all_gather_into_tensor_, whole, y, group)
    yield Rivals("inference: all_gather_into_tensor_", LENGTHS[1], entries, *gathering)

    def waited(group: Any) -> Any:
        return functional.wait_tensor(functional.all_reduce(y, "sum", group))

    found = torch.empty_like(y)
    functionals = {name: partial(_into, found, waited, one) for name, one in groups.items()}
    functionals["operator"] = partial(_into, found, partial(operators.all_reduce, y), group)
    summed = partial(_different, found, torch.full_like(found, float(size)))
    yield Rivals("inference: functional all_reduce, waited for", LENGTHS[1], functionals, found.zero_, summed)

    reduces: dict[str, Reduce] = {"native": lambda x: own.all_reduce(x.numpy(), out=x.numpy())}
    reduces |= {name: partial(dist.all_reduce, group=one) for name, one in groups.items()}
    reduces["operator"] = lambda x: operators.all_reduce_(x, group)
    with torch.inference_mode():
        token = _token(comm, *((64, 32, 64, 64, 4, 1) if quick else (WIDTH, HEAD, HIDDEN, WORDS, PAST, LAYERS)))
        reference = token(reduces["native"]).clone()
    made = torch.empty_like(reference)
    tokens = {name: partial(_into, made, torch.inference_mode()(token), reduce) for name, reduce in reduces.items()}
    yield Rivals(
        "inference: a token of a small Llama",
        0,
        tokens,
        made.zero_,
        partial(_different, made, reference),
        unit="tokens",
    )


def _into(target: Any, call: Callable[[Any], Any], argument: Any) -> None:
    target.copy_(call(argument))


def _different(found: Any, expected: Any) -> int:
    return int(((found - expected).abs() > 1e-3).sum())


def _token(
    comm: Any, width: int, head: int, hidden: int, words: int, past: int, layers: int
) -> Callable[[Reduce], Any]:
    """Return what computes the logits of the next token, for the way in which vectors are added up over the ranks."""
    import torch
    from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

    seeded = torch.Generator().manual_seed(comm.rank)
    heads, units = max(1, width // head // comm.size), max(1, hidden // comm.size)

    def weight(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, generator=seeded) / columns**0.5

    def layer() -> Any:
        projections = [weight(heads * head, width) for _ in range(3)]
        mlp = weight(units, width), weight(units, width), weight(width, units)
        caches = [torch.randn(1, heads, past + 1, head, generator=seeded) for _ in range(2)]
        return *projections, weight(width, heads * head), *mlp, *caches

    model = [layer() for _ in range(layers)]
    vocabulary = torch.randn(words, width, generator=torch.Generator().manual_seed(7))  # on all ranks
    angles = past / 10000 ** (torch.arange(0, head, 2) / head)
    turn = torch.polar(torch.ones_like(angles), angles)

    def turned(x: Any) -> Any:
        """Return x with the position of the token, by rotary embedding."""
        pairs = torch.view_as_complex(x.view(1, heads, 1, head // 2, 2))
        return torch.view_as_real(pairs * turn).view(1, heads, 1, head)

    def token(reduce: Reduce) -> Any:
        x = vocabulary[11:12]
        for q, k, v, o, gate, up, down, keys, values in model:
            y = rms_norm(x, (width,))
            keys[:, :, -1:] = turned(linear(y, k))
            values[:, :, -1:] = linear(y, v).view(1, heads, 1, head)
            seen = scaled_dot_product_attention(turned(linear(y, q)), keys, values)
            part = linear(seen.view(1, -1), o)
            reduce(part)
            x = x + part
            y = rms_norm(x, (width,))
            part = linear(silu(linear(y, gate)) * linear(y, up), down)
            reduce(part)
            x = x + part
        return linear(rms_norm(x, (width,)), vocabulary)

    return token
