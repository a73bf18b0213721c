"""Results with `shared=True` over several nodes: one on each node. `communicator/shared_results.py` has the protocol.

Each node has an owner of its result: the root on its node, the first rank elsewhere. All ranks of all nodes meet, as
the ranks of one node do there. These steps are different:

    shapes            are exchanged first, because owners without the array need them
    addresses         are exchanged by all ranks; each rank uses those of its node's owner. If one owner has none, all
                      raise its error
    all_gather        each owner gathers the arrays of all ranks into the result of its node
    gather            only the root's node has a result
    broadcast         the root sends its array to the owners of the other nodes, in a scatter_v
    scatter           likewise: each node's result are the parts of its ranks, in the order of the node
"""

from typing import Any

import numpy as np

from shmcoll.calls.arrays import whole_shape
from shmcoll.communicator import shared_arrays
from shmcoll.communicator.objects import Parts
from shmcoll.communicator.shared_results import GATHERING, SharedResults, differing
from shmcoll.errors import ArenaError


class NodesSharedResults(SharedResults):
    """What differs of these calls over nodes."""

    _dispatcher: Any

    def _owners(self, operation: str, root: int) -> list[int]:
        """Return the rank of each node that owns its result; only the root for gather."""
        owners = [root if root in ranks else ranks[0] for ranks in self._dispatcher.topology.nodes]
        return [root] if operation == "gather" else owners

    def _make_shared(self, parts: Parts, operation: str, owner: int, x: Any) -> Any:
        topology, arena, purpose = (
            self._dispatcher.topology,
            self._local_rank.arena,
            f"the shared result of {operation}",
        )
        passed = None if x is None else (x.shape, x.dtype)
        if operation in GATHERING:
            told = parts.all_gather_object(passed)
            if error := differing(operation, told):
                return error
            shape, dtype = whole_shape(x.shape, self._size), x.dtype
        else:
            shape, dtype = parts.broadcast_object(passed, owner)
            shape = (len(topology.local), *shape[1:]) if operation == "scatter" else shape
        owners = self._owners(operation, owner)
        here = next((rank for rank in owners if rank in topology.local), None)
        whole, place = None, None
        if self._rank == here:
            whole, place = self._owned(np.broadcast_to(np.zeros((), dtype), shape), purpose)
        with self._telling(whole):
            with self._local_rank.learning(self._dispatcher.inner._dispatcher.group):
                places = parts.all_gather_object(place)
                if refused := next((one for one in places if isinstance(one, ArenaError)), None):
                    return refused
                self._check_alive(operation)
                if here not in (None, self._rank):
                    whole = shared_arrays.view(arena, places[here], self._local_rank.rank)
            if missing := self._commit(parts, None if here is None else places[here], purpose):
                return missing
            self._write(parts, operation, owner, whole, x)
            parts.barrier()
        return whole

    def _check_alive(self, operation: str) -> None:
        self._dispatcher.failures.raise_if_ended(operation)

    def _write(self, parts: Parts, operation: str, owner: int, whole: Any, x: Any) -> None:
        owners = self._owners(operation, owner)
        is_owner, is_root = self._rank in owners, self._rank == owner
        if operation in GATHERING:
            for one in owners:
                parts.gather(x, one, out=whole if self._rank == one else None)
            return
        counts, displs, flat = [0] * self._size, [0] * self._size, x
        nodes = self._dispatcher.topology.nodes
        if is_root and operation == "broadcast":
            whole[...] = x
            for one in owners:
                counts[one] = 0 if one == owner else x.size
            flat = x.reshape(-1)
        elif is_root:
            flat, begin = x[[rank for ranks in nodes for rank in ranks]].reshape(-1), 0
            for one, ranks in zip(owners, nodes, strict=True):
                counts[one], displs[one] = len(ranks) * x[0].size, begin
                begin += counts[one]
        out = whole.reshape(-1) if is_owner and not (is_root and operation == "broadcast") else None
        parts.scatter_v(flat, owner, send_counts=counts, send_displs=displs, out=out)
