"""The arithmetic of reductions over nodes: by the kernels of shmcoll, in the order of the nodes, so that all ranks get
the same bits, whatever the MPI.

Partial results are kept in the accumulator's type: float16 and bfloat16 are widened once, before the first addition,
and rounded once, at the end. avg is a sum until the end. So the routines of a node see a `Partial`, and `finish` makes
the result from the last partial result.
"""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shmcoll.engine import context as c
from shmcoll.engine.compiler.user_operators import of_kernel
from shmcoll.engine.kernels.dtypes import BY_NUMPY, PREMUL_SUM, REDUCTION_NAMES, REDUCTIONS, USER
from shmcoll.engine.kernels.kernels import JOIN, START, STORE
from shmcoll.engine.native.entry import kernel_slot
from shmcoll.engine.native.entry_counts import mark_of
from shmcoll.nodes.agreement import Facts
from shmcoll.nodes.transport import at_address
from shmcoll.nodes.wire import as_bytes

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)


def partial_of(d: "NodesDispatcher", dtype: np.dtype, kind: int, identity: int, kernel: int, ordered: int) -> "Partial":
    """Return the reduction that the arguments of a reducing routine describe. Those of named operators are kept: their
    kernels stay where they are as long as the process lives."""
    if kind in (USER, PREMUL_SUM):
        return Partial(d, dtype, kind, identity, kernel, ordered)
    key = dtype, kind, identity, kernel, ordered
    if key not in d.partials:
        d.partials[key] = Partial(d, dtype, kind, identity, kernel, ordered)
    return d.partials[key]


class Partial:
    """A reduction of arrays of one dtype over nodes, from the arguments of a reducing routine."""

    def __init__(self, d: "NodesDispatcher", dtype: np.dtype, kind: int, identity: int, kernel: int, ordered: int):
        known = BY_NUMPY[dtype]
        self._d, self._dtype, self.wide = d, dtype, known.accumulator
        self._kind, self._identity, self._last = kind, identity, kernel
        self._ordered = ordered
        wide = BY_NUMPY[self.wide]
        if kind == USER:
            self._kernel = of_kernel(kernel).kernel(wide) if wide is not known else kernel
        elif kind == PREMUL_SUM:
            self._kernel = kernel
        else:
            name = "sum" if REDUCTION_NAMES[kind] == "avg" else REDUCTION_NAMES[kind]
            self._kind = REDUCTIONS[name]
            self._kernel = d.kernel(wide, name, self._kind)
        self._call = _KERNEL(self._kernel)
        self.is_finished = kind != REDUCTIONS["avg"] and wide is known  # nothing is left to do at the end
        # Of nodes that are not in the order of ranks the partial results cannot be combined in that order
        self.needs_all = bool(ordered) and not d.topology.in_rank_order
        self.facts: Facts = (
            REDUCTION_NAMES.get(kind, f"function {identity:x}"),
            f"{dtype}" if wide is not known else "",
        )

    def widened(self, operand: np.ndarray) -> np.ndarray:
        """Return an operand, flat, in the type of partial results."""
        flat = operand.reshape(-1)
        return flat if flat.dtype == self.wide else flat.astype(self.wide)

    def in_node(self, operation: str, operand: np.ndarray, target: np.ndarray | None) -> None:
        """Run a reducing routine of the node on partial results; its root is the leader."""
        kind, identity, ordered = self._kind, self._identity, self._ordered
        arguments = operand, target, kind, 0, identity, 0, self._kernel, ordered, 0
        self._d.inner._dispatcher.run(operation, *arguments)

    def move(
        self,
        name: str,
        source: np.ndarray,
        result: np.ndarray,
        blocks: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        """Reduce flat arrays of partial results over all ranks in native code, after the opening. blocks: counts and
        places of the blocks of a reduce_scatter."""
        agreement = self._d.agreement
        agreement.state.describe_reduction(source, result, self._kind, self._identity, self._kernel, self._ordered)
        if blocks is not None:
            agreement.state.describe_blocks(*blocks)
        status = agreement.state.move(name)
        if status == c.RAISED:
            self._raise(*agreement.state.values_that_raised)
        agreement.check(status)

    def open(self, facts: Facts, operand: np.ndarray, native: tuple[np.ndarray, int, int] | None) -> np.ndarray:
        """Reduce a flat array over all ranks in the opening. Return the result, which is there until the next one."""
        agreement = self._d.agreement
        agreement.state.prepare("reduce_scatter")
        what = self._kind, self._identity, self._kernel, self._ordered
        agreement.state.describe_reduction(operand, operand, *what)
        return agreement.open_partials(facts, operand.nbytes, native).view(operand.dtype)

    def reduce_scatter_in_node(
        self, starts: Sequence[int] | np.ndarray, lengths: Sequence[int], operand: np.ndarray
    ) -> np.ndarray:
        """Reduce block i over the ranks of this node, for its rank i, and return this rank's. starts, lengths: of the
        blocks in `operand`, in elements."""
        inner, counts = self._d.inner, np.array(lengths, np.int64)
        if inner.size == 1:
            return self.started(operand[int(starts[0]) :][: lengths[0]])
        target = np.empty(lengths[inner.rank], self.wide)
        table = np.concatenate([operand.ctypes.data + np.asarray(starts, np.int64) * operand.itemsize, counts])
        whole, mark = operand[: counts.sum()], mark_of(counts.ctypes.data, counts.size)
        arguments = whole, target, self._kind, mark, self._identity, 0, self._kernel, self._ordered, table.ctypes.data
        inner._dispatcher.complete("reduce_scatter_v", inner._dispatcher.routine("reduce_scatter"), arguments)
        return target

    def started(self, array: np.ndarray) -> np.ndarray:
        """Return the partial result of one array alone, which is not always its copy: of "lor" it is 0 or 1."""
        made = np.empty_like(array)
        if array.size:
            self._call(START, made.ctypes.data, 0, array.ctypes.data, array.size, 1)
        return made

    def fold_bytes(self, parts: Sequence[np.ndarray], *, into: np.ndarray) -> None:
        """Combine partial results that are given as bytes at addresses of whole words."""
        into[:] = parts[0]
        for part in parts[1:]:
            self._join(into.ctypes.data, into.ctypes.data, part.ctypes.data, into.size // self.wide.itemsize)

    def fold_ranks(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Combine the arrays of all ranks: those of a node in their order, then the nodes."""
        nodes = self._d.topology.nodes
        return self.fold([self.fold([self.started(rows[ranks[0]]), *(rows[i] for i in ranks[1:])]) for ranks in nodes])

    def native(self, operand: np.ndarray, root: int) -> tuple[np.ndarray, int, int] | None:
        """Return what native code must know to make this reduction by itself; None if it cannot."""
        if not self.is_finished or self._kind not in REDUCTION_NAMES or self._kind == PREMUL_SUM:
            return None
        self._d.words[kernel_slot(BY_NUMPY[self._dtype].code, self._kind)] = self._kernel
        return operand, self._kind, root

    def fold(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Combine partial results in this order. The first one is overwritten, and returned."""
        total = parts[0]
        for part in parts[1:]:
            self.combine(total, part, total)
        return total

    def combine(self, first: np.ndarray, second: np.ndarray, target: np.ndarray) -> None:
        """Combine two partial results; `target` may be one of them. Raises what a user's function raises."""
        self._join(target.ctypes.data, first.ctypes.data, second.ctypes.data, first.size)

    def _join(self, target: int, first: int, second: int, count: int) -> None:
        if count and (failed := self._call(JOIN, target, first, second, count, self._d.size)):
            behind = (failed - 1) * self.wide.itemsize
            self._raise(first + behind, second + behind)

    def _raise(self, *addresses: int) -> None:
        """Raise what a user's function has raised for the values at two addresses."""
        values = (at_address(one, self.wide.itemsize).view(self.wide)[0].item() for one in addresses)
        raise of_kernel(self._kernel).raised(*values)

    def finish(self, total: np.ndarray, target: np.ndarray) -> None:
        """Write the result, in the dtype of the operands."""
        if self.is_finished:
            if total.ctypes.data != target.ctypes.data:
                as_bytes(target)[:] = as_bytes(total)
        elif total.size:
            addresses = target.ctypes.data, total.ctypes.data, 0
            _KERNEL(self._last)(STORE, *addresses, total.size, self._d.size)
