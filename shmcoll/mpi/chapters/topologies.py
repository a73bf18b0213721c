"""MPI's chapter on process topologies. Ranks keep their numbers: on one machine there is nothing to gain by others."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.new_communicators import copied, made, parted, subset
from shmcoll.mpi.objects.communicators import UNDEFINED, Comm
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.objects.topologies import Cart, DistGraph, Graph, dims_create

_KINDS = {Cart: c["MPI_CART"], Graph: c["MPI_GRAPH"], DistGraph: c["MPI_DIST_GRAPH"]}


@mpi()
def Topo_test(comm: Comm) -> int:
    return _KINDS.get(type(comm.topology), UNDEFINED)


def _of(comm: Comm, kind: type) -> Any:
    if not isinstance(comm.topology, kind):
        raise MPIError("MPI_ERR_TOPOLOGY", f"{comm.in_words} has no {kind.__name__.lower()} topology")
    return comm.topology


def _first(comm: Comm, count: int, topology: Any) -> Comm | None:
    """Return the communicator of the first ranks of another one, with a topology."""
    comm.check_intra()
    if not 0 <= count <= comm.size:
        raise MPIError("MPI_ERR_TOPOLOGY", f"a topology of {count} ranks does not fit {comm.in_words} of {comm.size}")
    new = subset(comm, parted(comm.native, 0 if comm.rank < count else None, comm.rank))
    if new is not None:
        new.topology = topology
    return new


# --- grids ------------------------------------------------------------------------------------------------------------


@mpi(inout=("dims",))
def Dims_create(nodes: int, ndims: int, dims: Numbers) -> None:
    dims.write(dims_create(nodes, dims.read(ndims)))


@mpi()
def Cart_create(comm: Comm, ndims: int, dims: Numbers, periods: Numbers, _reorder: int) -> Comm | None:
    lengths = tuple(dims.read(ndims))
    if ndims < 0 or any(length <= 0 for length in lengths):
        raise MPIError("MPI_ERR_DIMS", f"dimensions {list(lengths)} must be positive")
    cart = Cart(lengths, tuple(map(bool, periods.read(ndims))))
    return _first(comm, int(np.prod(lengths)), cart)


@mpi()
def Cartdim_get(comm: Comm) -> int:
    return len(_of(comm, Cart).dims)


@mpi(inout=("dims", "periods", "coords"))
def Cart_get(comm: Comm, ndims: int, dims: Numbers, periods: Numbers, coords: Numbers) -> None:
    cart = _of(comm, Cart)
    for target, values in ((dims, cart.dims), (periods, cart.periods), (coords, cart.coords(comm.rank))):
        target.write(values[:ndims])


@mpi()
def Cart_rank(comm: Comm, coords: Numbers) -> int:
    cart = _of(comm, Cart)
    rank: int = cart.rank(coords.read(len(cart.dims)))
    return rank


@mpi(inout=("coords",))
def Cart_coords(comm: Comm, rank: int, ndims: int, coords: Numbers) -> None:
    cart = _of(comm, Cart)
    comm.group.member(rank)
    coords.write(cart.coords(rank)[:ndims])


@mpi()
def Cart_shift(comm: Comm, direction: int, by: int) -> tuple[int, int]:
    cart = _of(comm, Cart)
    if not 0 <= direction < len(cart.dims):
        raise MPIError("MPI_ERR_ARG", f"direction {direction} is not in a grid of {len(cart.dims)} dimensions")
    return cart.shifted(comm.rank, direction, -by), cart.shifted(comm.rank, direction, by)


@mpi()
def Cart_sub(comm: Comm, remain: Numbers) -> Comm | None:
    cart = _of(comm, Cart)
    kept = list(map(bool, remain.read(len(cart.dims))))
    coords = cart.coords(comm.rank)
    color = key = 0
    for stays, place, length in zip(kept, coords, cart.dims, strict=True):
        color, key = (color, key * length + place) if stays else (color * length + place, key)
    new = subset(comm, parted(comm.native, color, key))
    if new is not None:
        new.topology = Cart(
            *(tuple(x for x, stays in zip(of, kept, strict=True) if stays) for of in (cart.dims, cart.periods))
        )
    return new


@mpi()
def Cart_map(comm: Comm, ndims: int, dims: Numbers, periods: Numbers) -> int:
    periods.read(ndims)
    return comm.rank if comm.rank < int(np.prod(dims.read(ndims))) else UNDEFINED


# --- graphs -----------------------------------------------------------------------------------------------------------


@mpi()
def Graph_create(comm: Comm, nodes: int, index: Numbers, edges: Numbers, _reorder: int) -> Comm | None:
    ends = index.read(nodes)
    return _first(comm, nodes, Graph(tuple(ends), tuple(edges.read(ends[-1] if ends else 0))))


@mpi()
def Graphdims_get(comm: Comm) -> tuple[int, int]:
    graph = _of(comm, Graph)
    return len(graph.index), len(graph.edges)


@mpi(inout=("indx", "edges"))
def Graph_get(comm: Comm, nodes: int, count: int, index: Numbers, edges: Numbers) -> None:
    graph = _of(comm, Graph)
    index.write(graph.index[:nodes])
    edges.write(graph.edges[:count])


@mpi()
def Graph_neighbors_count(comm: Comm, rank: int) -> int:
    comm.group.member(rank)
    return len(_of(comm, Graph).of(rank))


@mpi(inout=("neighbors",))
def Graph_neighbors(comm: Comm, rank: int, count: int, neighbors: Numbers) -> None:
    comm.group.member(rank)
    neighbors.write(_of(comm, Graph).of(rank)[:count])


@mpi()
def Graph_map(comm: Comm, nodes: int, _index: Numbers, _edges: Numbers) -> int:
    return comm.rank if comm.rank < nodes else UNDEFINED


# --- graphs of which each rank knows a part ---------------------------------------------------------------------------

#: addresses of arrays of weights that mean something else; set when the library is loaded
UNWEIGHTED: list[int] = []
WEIGHTS_EMPTY: list[int] = []


def _weights(numbers: Numbers, count: int) -> tuple[int, ...] | None:
    """Return weights; None if the program gives none."""
    if numbers.address in UNWEIGHTED:
        return None
    return () if numbers.address in WEIGHTS_EMPTY else tuple(numbers.read(count))


@mpi()
def Dist_graph_create_adjacent(
    comm: Comm,
    indegree: int,
    sources: Numbers,
    sourceweights: Numbers,
    outdegree: int,
    destinations: Numbers,
    destweights: Numbers,
    _info: Info | None,
    _reorder: int,
) -> Comm:
    comm.check_intra()
    graph = DistGraph(
        tuple(sources.read(indegree)),
        tuple(destinations.read(outdegree)),
        _weights(sourceweights, indegree),
        _weights(destweights, outdegree),
    )
    return _with_graph(comm, graph)


@mpi()
def Dist_graph_create(
    comm: Comm,
    n: int,
    sources: Numbers,
    degrees: Numbers,
    destinations: Numbers,
    weights: Numbers,
    _info: Info | None,
    _reorder: int,
) -> Comm:
    comm.check_intra()
    counts = degrees.read(n)
    heavy = _weights(weights, sum(counts))
    ends = destinations.read(sum(counts))
    begins = [source for source, count in zip(sources.read(n), counts, strict=True) for _ in range(count)]
    edges = list(zip(begins, ends, heavy or [1] * len(ends), strict=True))
    told = comm.native.all_gather_object((edges, heavy is not None))
    all_edges = [edge for part, _ in told for edge in part]
    is_weighted = all(weighted for part, weighted in told if part)
    into = [(source, weight) for source, dest, weight in all_edges if dest == comm.rank]
    out = [(dest, weight) for source, dest, weight in all_edges if source == comm.rank]
    graph = DistGraph(
        *(tuple(peer for peer, _ in side) for side in (into, out)),
        *(tuple(weight for _, weight in side) if is_weighted else None for side in (into, out)),
    )
    return _with_graph(comm, graph)


def _with_graph(comm: Comm, graph: DistGraph) -> Comm:
    for peer in (*graph.sources, *graph.destinations):
        if peer != c["MPI_PROC_NULL"]:
            comm.group.member(peer)
    new = made(copied(comm.native), comm.group, comm)
    new.topology = graph
    return new


@mpi()
def Dist_graph_neighbors_count(comm: Comm) -> tuple[int, int, bool]:
    graph = _of(comm, DistGraph)
    return len(graph.sources), len(graph.destinations), graph.source_weights is not None


@mpi(inout=("sources", "sourceweights", "destinations", "destweights"))
def Dist_graph_neighbors(
    comm: Comm,
    indegree: int,
    sources: Numbers,
    sourceweights: Numbers,
    outdegree: int,
    destinations: Numbers,
    destweights: Numbers,
) -> None:
    graph = _of(comm, DistGraph)
    _put(sources, graph.sources[:indegree], sourceweights, graph.source_weights)
    _put(destinations, graph.destinations[:outdegree], destweights, graph.destination_weights)


def _put(peers: Numbers, ranks: Sequence[int], weights: Numbers, heavy: Sequence[int] | None) -> None:
    peers.write(ranks)
    if heavy is not None and weights.address not in (*UNWEIGHTED, *WEIGHTS_EMPTY):
        weights.write(heavy[: len(ranks)])
