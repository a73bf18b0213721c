"""Each function of MindSpore's functional APIs, called on a group and compared with a numpy model.

A case makes its calls on one group and returns pairs of what was found and what was wanted. Every rank knows the inputs
of all ranks, because `Setting.data` makes them. All numbers are integers, so sums and averages are exact.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from shmcoll.mindspore import Tensor
from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.mint import distributed
from shmcoll.mindspore.mint.distributed import distributed as every
from shmcoll.mindspore.ops import communication as ops_communication

Pair = tuple[Any, Any]

REDUCED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sum": lambda all_of: all_of.sum(0),
    "prod": lambda all_of: all_of.prod(0),
    "min": lambda all_of: all_of.min(0),
    "max": lambda all_of: all_of.max(0),
    "avg": lambda all_of: all_of.sum(0) / len(all_of),
}


class Setting:
    """A group on which this rank, its rank `i` of `n`, makes the calls. later: asynchronous calls. api: the module."""

    def __init__(self, api: Any, group: str | None, ranks: list[int], me: int, *, kind: Any, later: bool):
        self.api, self.group, self.ranks, self.later = api, group, ranks, later
        self.n, self.i, self.kind = len(ranks), ranks.index(me), kind
        self.root = self.n - 1  # in the group
        self.there: dict[str, Any] = {"group": group, "async_op": later}

    def data(self, rank: int, shape: tuple[int, ...], dtype: Any = np.float32, factor: int = 0) -> np.ndarray:
        """What rank `rank` of the group sends: numbers that `n` divides, or that stay small in a product."""
        size = int(np.prod(shape))
        values = 1 + (np.arange(size) + rank) % 2 if factor else self.n * (1 + np.arange(size) * 3 + 100 * rank)
        return values.reshape(shape).astype(dtype)

    def all_of(self, shape: tuple[int, ...], factor: int = 0) -> np.ndarray:
        return np.stack([self.data(rank, shape, factor=factor) for rank in range(self.n)])

    def tensor(self, *arguments: Any, **keywords: Any) -> Any:
        return self.kind(self.data(self.i, *arguments, **keywords))

    def room(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
        return self.kind(np.full(shape, -7, dtype))

    def ended(self, handle: Any) -> None:
        if self.later:
            assert type(handle) is distributed.CommHandle, handle
            handle.wait()
            handle.wait()
        else:
            assert handle is None, handle


def all_reduce(s: Setting) -> Iterator[Pair]:
    for op, model in REDUCED.items():
        factor = int(op == "prod")
        for shape in ((), (3,), (0, 2), (2, 2)):
            t = s.tensor(shape, factor=factor)
            s.ended(s.api.all_reduce(t, op, **s.there))
            yield t, model(s.all_of(shape, factor))
    t = s.tensor((4,), np.int8)
    s.ended(s.api.all_reduce(t, "max", **s.there))
    yield t, np.max([s.data(rank, (4,), np.int8) for rank in range(s.n)], 0)


def reduce(s: Setting) -> Iterator[Pair]:
    for op, model in REDUCED.items():
        factor = int(op == "prod")
        t = s.tensor((2, 3), factor=factor)
        s.ended(s.api.reduce(t, s.ranks[s.root], op, **s.there))
        yield t, model(s.all_of((2, 3), factor)) if s.i == s.root else s.data(s.i, (2, 3), factor=factor)


def broadcast(s: Setting) -> Iterator[Pair]:
    for root in range(s.n):
        t = s.tensor((2, 3), np.int16)
        s.ended(s.api.broadcast(t, s.ranks[root], **s.there))
        yield t, s.data(root, (2, 3), np.int16)


def barrier(s: Setting) -> Iterator[Pair]:
    s.ended(s.api.barrier(**s.there))
    yield 0, 0


def all_gather_into_tensor(s: Setting) -> Iterator[Pair]:
    for shape in ((2, 3), (1,), (0, 2)):
        out = s.room((s.n * shape[0], *shape[1:]))
        s.ended(s.api.all_gather_into_tensor(out, s.tensor(shape), **s.there))
        yield out, np.concatenate(s.all_of(shape))
    out = s.room((s.n,))
    s.ended(s.api.all_gather_into_tensor(out, s.tensor(()), **s.there))
    yield out, s.all_of(())


def all_gather_into_tensor_uneven(s: Setting) -> Iterator[Pair]:
    sizes = [2 * rank for rank in range(s.n)]
    out = s.room((sum(sizes), 3))
    s.ended(s.api.all_gather_into_tensor_uneven(out, s.tensor((sizes[s.i], 3)), sizes, **s.there))
    yield out, np.concatenate([s.data(rank, (size, 3)) for rank, size in enumerate(sizes)])
    out = s.room((2 * s.n,))
    s.ended(s.api.all_gather_into_tensor_uneven(out, s.tensor((2,)), **s.there))
    yield out, s.all_of((2,)).reshape(-1)


def reduce_scatter_tensor(s: Setting) -> Iterator[Pair]:
    for op, model in REDUCED.items():
        factor = int(op == "prod")
        out = s.room((2, 3))
        s.ended(s.api.reduce_scatter_tensor(out, s.tensor((2 * s.n, 3), factor=factor), op, **s.there))
        yield out, model(s.all_of((2 * s.n, 3), factor))[2 * s.i : 2 * s.i + 2]


def reduce_scatter_tensor_uneven(s: Setting) -> Iterator[Pair]:
    sizes = [rank % 3 for rank in range(s.n)]
    for op in ("sum", "min", "max", "avg"):
        out = s.room((sizes[s.i], 2))
        s.ended(s.api.reduce_scatter_tensor_uneven(out, s.tensor((sum(sizes), 2)), sizes, op, **s.there))
        first = sum(sizes[: s.i])
        yield out, REDUCED[op](s.all_of((sum(sizes), 2)))[first : first + sizes[s.i]]
    out = s.room((2,))
    s.ended(s.api.reduce_scatter_tensor_uneven(out, s.tensor((2 * s.n,)), **s.there))
    yield out, s.all_of((2 * s.n,)).sum(0)[2 * s.i : 2 * s.i + 2]


def gather_into_tensor(s: Setting) -> Iterator[Pair]:
    for shape in ((2, 3), ()):
        wanted = np.concatenate(s.all_of(shape)) if shape else s.all_of(())
        out = s.room(wanted.shape)
        s.ended(s.api.gather_into_tensor(out, s.tensor(shape), s.ranks[s.root], **s.there))
        yield out, wanted if s.i == s.root else np.full(wanted.shape, -7)


def scatter_tensor(s: Setting) -> Iterator[Pair]:
    out = s.room((2, 3))
    s.ended(s.api.scatter_tensor(out, s.tensor((2 * s.n, 3)), s.ranks[s.root], **s.there))
    yield out, s.data(s.root, (2 * s.n, 3))[2 * s.i : 2 * s.i + 2]


def all_gather(s: Setting) -> Iterator[Pair]:
    out = [s.room((2, 2)) for _ in range(s.n)]
    s.ended(s.api.all_gather(out, s.tensor((2, 2)), **s.there))
    yield from zip(out, s.all_of((2, 2)), strict=True)
    shapes = [(rank, 2) if rank % 2 else (3,) for rank in range(s.n)]
    out = [s.room(shape) for shape in shapes]
    s.ended(s.api.all_gather(out, s.tensor(shapes[s.i]), **s.there))
    yield from zip(out, [s.data(rank, shape) for rank, shape in enumerate(shapes)], strict=True)
    one = s.room((2,))
    s.ended(s.api.all_gather([one] * s.n, s.tensor((2,)), **s.there))
    yield one, s.data(s.n - 1, (2,))


def reduce_scatter(s: Setting) -> Iterator[Pair]:
    shapes = [(rank + 1,) for rank in range(s.n)]
    for op, model in REDUCED.items():
        factor = int(op == "prod")
        out = s.room(shapes[s.i])
        inputs = [s.tensor(shape, factor=factor) for shape in shapes]
        s.ended(s.api.reduce_scatter(out, inputs, op, **s.there))
        yield out, model(s.all_of(shapes[s.i], factor))


def gather(s: Setting) -> Iterator[Pair]:
    for root in range(s.n):
        out = [s.room((2,)) for _ in range(s.n)]
        s.ended(s.api.gather(s.tensor((2,)), out, s.ranks[root], **s.there))
        yield from zip(out, s.all_of((2,)) if root == s.i else np.full((s.n, 2), -7), strict=True)
    one, x = s.room((2,)), s.tensor((2,))
    s.ended(s.api.gather(x, [one] * s.n, s.ranks[s.root], **s.there))  # the same tensor more than once
    yield one, s.data(s.n - 1, (2,)) if s.i == s.root else np.full(2, -7)
    out = [s.room((2,)) for _ in range(s.n)]
    out[(s.i + 1) % s.n] = x  # the input at another place than its own
    s.ended(s.api.gather(x, out, s.ranks[s.root], **s.there))
    if s.i == s.root:
        yield from zip(out, s.all_of((2,)), strict=True)


def scatter(s: Setting) -> Iterator[Pair]:
    out = s.room((2,))
    s.ended(s.api.scatter(out, [s.kind(s.data(r, (2,)) + 5) for r in range(s.n)], s.ranks[s.root], **s.there))
    yield out, s.data(s.i, (2,)) + 5


def all_to_all(s: Setting) -> Iterator[Pair]:
    """Rank r sends (r + i) % 3 rows to rank i, which receives them in another shape."""
    inputs = [s.tensor(((s.i + i) % 3, 2)) for i in range(s.n)]
    out = [s.room((2 * ((s.i + i) % 3),)) for i in range(s.n)]
    behind = s.room((2,))
    s.ended(s.api.all_to_all([*out, behind], inputs, **s.there))
    for rank in range(s.n):
        yield out[rank], s.data(rank, ((s.i + rank) % 3, 2)).reshape(-1)
    yield behind, np.full(2, -7)


def all_to_all_single(s: Setting) -> Iterator[Pair]:
    out = s.room((2 * s.n, 3))
    s.ended(s.api.all_to_all_single(out, s.tensor((2 * s.n, 3)), **s.there))
    yield out, np.concatenate([s.data(rank, (2 * s.n, 3))[2 * s.i : 2 * s.i + 2] for rank in range(s.n)])
    send, recv, wanted = _uneven(s)
    out = s.room((sum(recv), 2))
    s.ended(s.api.all_to_all_single(out, s.tensor((sum(send), 2)), recv, send, **s.there))
    yield out, wanted


def all_to_all_v_c(s: Setting) -> Iterator[Pair]:
    send, recv, wanted = _uneven(s)
    out, matrix = s.room((sum(recv), 2)), [(i + j) % 3 for i in range(s.n) for j in range(s.n)]
    s.ended(s.api.all_to_all_v_c(out, s.tensor((sum(send), 2)), matrix, **s.there))
    yield out, wanted


def _uneven(s: Setting) -> tuple[list[int], list[int], np.ndarray]:
    """Rank r sends (r + i) % 3 rows to rank i: counts for sends, for receives, and the result."""
    counts = [[(r + i) % 3 for i in range(s.n)] for r in range(s.n)]
    parts = []
    for rank, sent in enumerate(counts):
        first = sum(sent[: s.i])
        parts.append(s.data(rank, (sum(sent), 2))[first : first + sent[s.i]])
    return counts[s.i], [row[s.i] for row in counts], np.concatenate(parts)


def messages(s: Setting) -> Iterator[Pair]:
    """A ring: send, recv, isend, irecv, P2POp, batch_isend_irecv."""
    if s.n == 1:
        return
    after, before = s.ranks[(s.i + 1) % s.n], s.ranks[s.i - 1]
    wanted = s.data((s.i - 1) % s.n, (2, 2))
    out = s.room((2, 2))
    assert s.api.send(s.tensor((2, 2)), after, s.group, 3) is None
    assert s.api.recv(out, before, s.group, 3) == 0
    yield out, wanted
    out, x = s.room((2, 2)), s.tensor((2, 2))
    receives, sends = s.api.irecv(out, before, s.group), s.api.isend(x, after, s.group)
    assert (receives.wait(), sends.wait()) == (None, None)
    yield out, wanted
    out = s.room((2, 2))
    handles = s.api.batch_isend_irecv(
        [s.api.P2POp("irecv", out, before, s.group), s.api.P2POp(s.api.isend, x, after, s.group)]
    )
    assert [handle.wait() for handle in handles] == [None]
    yield out, wanted


def objects(s: Setting) -> Iterator[Pair]:
    mine = {"rank": s.i, "array": [s.i] * s.i}
    everyone = [{"rank": rank, "array": [rank] * rank} for rank in range(s.n)]
    root = s.ranks[s.root]
    found: list[Any] = [None] * s.n
    s.api.all_gather_object(found, mine, s.group)
    yield found, everyone
    found = [None] * s.n
    s.api.gather_object(mine, found if s.i == s.root else None, root, s.group)
    yield found, everyone if s.i == s.root else [None] * s.n
    found = [s.i, "x" * s.i]
    s.api.broadcast_object_list(found, root, s.group)
    yield found, [s.root, "x" * s.root]
    found = [None, 4]
    s.api.scatter_object_list(found, everyone if s.i == s.root else None, root, s.group)
    yield found, [mine, 4]
    if s.n > 1:
        s.api.send_object_list([mine, 5], s.ranks[(s.i + 1) % s.n], s.group)
        found = [None, None]
        assert s.api.recv_object_list(found, s.ranks[s.i - 1], s.group) == 0
        yield found, [everyone[s.i - 1], 5]


def groups(s: Setting) -> Iterator[Pair]:
    name = s.api.new_group(list(reversed(s.ranks)))
    yield s.api.new_group(s.ranks), name
    yield (s.api.get_rank(name), s.api.get_world_size(name)), (s.i, s.n)
    yield s.api.get_process_group_ranks(name), s.ranks
    yield [s.api.get_global_rank(name, rank) for rank in range(s.n)], s.ranks
    yield [s.api.get_group_rank(name, rank) for rank in s.ranks], list(range(s.n))
    yield (s.api.get_backend(name), s.api.is_available(), s.api.is_initialized()), ("hccl", True, True)
    s.api.destroy_process_group(name)
    yield s.api.get_rank(name), -1


#: the functions of `mint.distributed` and `ops.communication`; the case of a function has its name, except for
#: these, which have cases in common
CASES = (
    all_gather, all_gather_into_tensor, all_gather_into_tensor_uneven, all_reduce, all_to_all, all_to_all_single,
    barrier, broadcast, gather, reduce, reduce_scatter, reduce_scatter_tensor, reduce_scatter_tensor_uneven, scatter,
    messages, objects, groups,
)  # fmt: skip
MORE_CASES = (gather_into_tensor, scatter_tensor, all_to_all_v_c)
IN_COMMON = {
    "messages": {"send", "recv", "isend", "irecv", "P2POp", "batch_isend_irecv"},
    "objects": {
        "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list",
        "recv_object_list",
    },
    "groups": {
        "new_group", "get_rank", "get_world_size", "get_process_group_ranks", "get_global_rank", "get_group_rank",
        "get_backend", "is_available", "is_initialized", "destroy_process_group", "init_process_group",
    },
}  # fmt: skip


def returning(s: Setting) -> Iterator[Pair]:
    """`comm_func`: functions that return a tensor."""
    f: Any = comm_func
    n, i = s.n, s.i
    there: dict[str, Any] = {"group": s.group or "hccl_world_group"}
    both = {**there, "async_op": s.later}
    root = s.ranks[s.root]

    def got(result: Any) -> Any:
        s.ended(result[1])
        return result[0]

    for op in ("sum", "prod", "min", "max"):
        factor = int(op == "prod")
        x = s.tensor((2, 3), factor=factor)
        yield got(f.all_reduce(x, op, **both)), REDUCED[op](s.all_of((2, 3), factor))
        yield x, s.data(i, (2, 3), factor=factor)
    x = s.tensor((2 * n, 3))
    for op in ("sum", "min", "max", "avg"):
        wanted = REDUCED[op](s.all_of((2 * n, 3)))
        yield got(f.reduce_scatter_tensor(x, op, **both)), wanted[2 * i : 2 * i + 2]
    yield f.reduce(x, root, **there), s.all_of((2 * n, 3)).sum(0) if i == s.root else np.zeros(1)
    yield got(f.all_gather_into_tensor(x, **both)), np.concatenate(s.all_of((2 * n, 3)))
    yield f.gather_into_tensor(x, root, **there), np.concatenate(s.all_of((2 * n, 3))) if i == s.root else np.zeros(1)
    yield f.scatter_tensor(x, root, **there), s.data(s.root, (2 * n, 3))[2 * i : 2 * i + 2]
    yield f.broadcast(x, root, **there), s.data(s.root, (2 * n, 3))
    yield x, s.data(i, (2 * n, 3))
    yield f.barrier(**there), None
    shapes = [(2, (i + rank) % 3) for rank in range(n)]
    rooms = [s.room(shape) if rank % 2 else shape for rank, shape in enumerate(shapes)]
    found = got(f.all_to_all_with_output_shape(rooms, [s.tensor(shape[::-1]) for shape in shapes], **both))
    yield from ((found[rank], s.data(rank, shape[::-1]).reshape(shape)) for rank, shape in enumerate(shapes))
    send, recv, wanted = _uneven(s)
    single = f.all_to_all_single_with_output_shape
    yield got(single((sum(recv), 2), s.tensor((sum(send), 2)), recv, send, **both)), wanted
    even = np.concatenate([s.data(rank, (n, 2))[i : i + 1] for rank in range(n)])
    yield got(single(s.room((n, 2)), s.tensor((n, 2)), **both)), even
    out, matrix = s.room((sum(recv), 2)), [(a + b) % 3 for a in range(n) for b in range(n)]
    s.ended(f.all_to_all_v_c(out, s.tensor((sum(send), 2)), matrix, **both))
    yield out, wanted
    yield from _returned_messages(s)


def _returned_messages(s: Setting) -> Iterator[Pair]:
    if s.n == 1:
        return
    f: Any = comm_func
    x, group = s.tensor((2, 2)), s.group or "hccl_world_group"
    after, before, wanted = s.ranks[(s.i + 1) % s.n], s.ranks[s.i - 1], s.data((s.i - 1) % s.n, (2, 2))
    f.send(x, after, group, 2)
    yield f.recv(x, before, group, 2), wanted
    tensor, handle = f.irecv(x, before, group)
    f.isend(x, after, group).wait()
    handle.wait()
    yield tensor, wanted
    found = f.batch_isend_irecv(
        [
            f.P2POp("isend", x, after, s.group),
            f.P2POp(f.irecv, x, before, s.group),
            f.P2POp("isend", x, after, s.group),
            f.P2POp("irecv", (4,), before, s.group, recv_dtype=Tensor([1.0]).dtype),
        ]
    )
    assert type(found[3]) is not np.ndarray  # there was only a shape
    found = (*found[:3], s.kind(found[3].asnumpy()))
    yield from zip(found, (np.zeros(1), wanted, np.zeros(1), wanted.reshape(-1)), strict=True)
    yield x, s.data(s.i, (2, 2))


def not_in_place(s: Setting) -> Iterator[Pair]:
    """`ops.communication` after `set_comm_ops_inplace(False)`."""
    f: Any = ops_communication
    n, i = s.n, s.i
    f.set_comm_ops_inplace(False)
    try:
        x, out = s.tensor((2 * n, 3)), s.room((1,))

        def got(result: Any) -> Any:
            s.ended(result[1])
            return result[0]

        yield got(f.all_reduce(x, "avg", **s.there)), s.all_of((2 * n, 3)).sum(0) / n
        yield got(f.all_gather_into_tensor(None, x, **s.there)), np.concatenate(s.all_of((2 * n, 3)))
        yield got(f.reduce_scatter_tensor(None, x, **s.there)), s.all_of((2 * n, 3)).sum(0)[2 * i : 2 * i + 2]
        wanted = np.concatenate([s.data(rank, (2 * n, 3))[2 * i : 2 * i + 2] for rank in range(n)])
        yield got(f.all_to_all_single(out, x, **s.there)), wanted
        found = got(f.all_to_all([(3, 2)] * n, [s.tensor((2, 3))] * n, **s.there))
        yield from zip(found, s.all_of((2, 3)).reshape(n, 3, 2), strict=True)
        s.ended(f.barrier(**s.there))
        if n > 1:
            f.send(x, s.ranks[(i + 1) % n], s.group)
            yield f.recv(x, s.ranks[i - 1], s.group), s.data((i - 1) % n, (2 * n, 3))
        yield x, s.data(i, (2 * n, 3))
    finally:
        f.set_comm_ops_inplace(True)


#: what a run of one group calls: module and case
ALL: tuple[tuple[Any, Callable[[Setting], Iterator[Pair]]], ...] = (
    *((distributed, case) for case in CASES),
    *((ops_communication, case) for case in (*CASES, *MORE_CASES)),
    *((every, case) for case in (gather_into_tensor, scatter_tensor)),
    (comm_func, returning),
    (ops_communication, not_in_place),
)


def mistakes(group: str | None, ranks: list[int], me: int, kinds: Sequence[Any] = (np.array, Tensor)) -> list[str]:
    """Make all calls on one group. Return the number of values compared, and what was wrong. kinds: of tensors."""
    wrong, compared = [], 0
    for api, case in ALL:
        for kind in kinds:
            for later in (False, True):
                pairs = case(Setting(api, group, ranks, me, kind=kind, later=later))
                for number, (found, wanted) in enumerate(pairs):
                    compared += 1
                    if not same(found, wanted, kind):
                        wrong.append(
                            f"{api.__name__} {case.__name__} {kind} {later} {number}: {found!r}, not {wanted!r}"
                        )
    return [str(compared), *wrong]


def same(found: Any, wanted: Any, kind: Any) -> bool:
    if not isinstance(wanted, (np.ndarray, np.generic)):
        return bool(found == wanted)
    right_kind = type(found) is (np.ndarray if kind is np.array else kind)
    array = found.asnumpy() if hasattr(found, "asnumpy") else found
    return right_kind and array.shape == wanted.shape and array.tolist() == wanted.tolist()
