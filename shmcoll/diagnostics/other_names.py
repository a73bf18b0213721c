"""What a name of another library is called here, for the text of an `AttributeError`."""

from collections.abc import Iterable
from difflib import get_close_matches

_REDUCE = "comm.all_reduce(x), or comm.all_reduce_object(value) for an object"
_GATHER = "comm.all_gather(x), or comm.all_gather_object(value) for an object"
_TO_ALL = "comm.all_to_all(x), or comm.all_to_all_object(values) for objects"
_BROADCAST = "comm.broadcast(x, root=0), or comm.broadcast_object(value, root=0) for an object"
_SEND = "comm.send(x, dest), or comm.send_object(value, dest) for an object"
_ISEND = "comm.send(x, dest, async_op=True), or comm.send_object(value, dest, async_op=True) for an object"
_RECV = "comm.recv(out, source), or comm.recv_object(source) for an object"
_IRECV = "comm.recv(out, source, async_op=True), or comm.recv_object(source, async_op=True) for an object"
_SSEND = "comm.send(x, dest, synchronous=True), or comm.send_object(value, dest, synchronous=True) for an object"

#: names of mpi4py, torch.distributed, joblib and others, without case and underscores
_HERE = {
    **{name: f"comm.{name}, with comm = shmcoll.init()" for name in ("barrier", "gather", "reduce", "scatter", "scan")},
    "broadcast": _BROADCAST,
    "getrank": "comm.rank",
    "getsize": "comm.size",
    "getname": "comm.name",
    "worldsize": "comm.size",
    "nranks": "comm.size",
    "bcast": _BROADCAST,
    "ibcast": "comm.broadcast(x, root=0, async_op=True)",
    "broadcastobjectlist": "comm.broadcast_object(value, root=0)",
    "allreduce": _REDUCE,
    "iallreduce": "comm.all_reduce(x, async_op=True)",
    "allgather": _GATHER,
    "iallgather": "comm.all_gather(x, async_op=True)",
    "allgatherintotensor": "comm.all_gather(x, out=out)",
    "allgatherv": "comm.all_gather_v(x)",
    "alltoall": _TO_ALL,
    "ialltoall": "comm.all_to_all(x, async_op=True)",
    "alltoallsingle": "comm.all_to_all(x, out=out)",
    "alltoallv": "comm.all_to_all_v(x, send_counts)",
    "gatherv": "comm.gather_v(x, root=0)",
    "scatterv": "comm.scatter_v(x, root=0, send_counts=counts)",
    "reducescatter": "comm.reduce_scatter(x)",
    "reducescatterblock": "comm.reduce_scatter(x)",
    "reducescattertensor": "comm.reduce_scatter(x, out=out)",
    "ireduce": "comm.reduce(x, root=0, async_op=True)",
    "ibarrier": "comm.barrier(async_op=True)",
    "igather": "comm.gather(x, root=0, async_op=True)",
    "iscatter": "comm.scatter(x, root=0, async_op=True)",
    "send": _SEND,
    "isend": _ISEND,
    "bsend": _SEND,
    "rsend": _SEND,
    "ssend": _SSEND,
    "issend": _SSEND,
    "recv": _RECV,
    "irecv": _IRECV,
    "sendrecv": "comm.sendrecv(x, dest, out, source)",
    "isendrecv": "comm.sendrecv(x, dest, out, source, async_op=True)",
    "batchisendirecv": "comm.batch([shmcoll.Send(x, dest), shmcoll.Recv(out, source)])",
    "iprobe": "comm.iprobe(source)",
    "createcart": "comm.grid(dims)",
    "cartcreate": "comm.grid(dims)",
    "creategroup": "comm.subgroup(ranks)",
    "create": "comm.subgroup(ranks)",
    "newgroup": "comm.subgroup(ranks)",
    "getgroup": "comm.ranks",
    "clone": "comm.dup()",
    "free": "comm.close()",
    "disconnect": "comm.close()",
    "finalize": "nothing: the job ends with the program",
    "destroyprocessgroup": "comm.close(), or nothing: the job ends with the program",
    "sendinit": "comm.plan('send', x, dest)",
    "recvinit": "comm.plan('recv', out, source)",
    "allreduceinit": "comm.plan('all_reduce', x, out=out)",
    "isinitialized": "comm = shmcoll.init(), which may be called again",
    "commworld": "comm = shmcoll.init()",
    "initprocessgroup": "comm = shmcoll.init()",
    "wtime": "time.perf_counter()",
    "get": "work.wait()",
    "join": "work.wait()",
    "iscompleted": "work.done()",
    "issuccess": "work.exception(), which is None then",
    "getfuture": "await work",
    "waitall": "shmcoll.wait_all(works)",
    "waitany": "shmcoll.wait_any(works)",
    "waitsome": "shmcoll.wait_some(works)",
    "parallel": "shmcoll.map(function, items, n)",
    "delayed": "shmcoll.map(function, items, n)",
    "pool": "shmcoll.map(function, items, n), or shmcoll.ranks(n) for ranks that stay",
    "launch": "shmcoll.run(function, nprocs)",
    "spawn": "shmcoll.run(function, nprocs)",
}


def missing(owner: str, name: str, known: Iterable[str], of_comm: Iterable[str] = ()) -> AttributeError:
    """Return the error for an attribute that an object has not.

    Args:
        owner: the object, in words.
        name: the attribute.
        known: those that it has.
        of_comm: those of its attribute `comm`.
    """
    text = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    if name in of_comm:
        return AttributeError(f"{text}; its comm has: did you mean .comm.{name}?")
    if here := _HERE.get(name.lower().replace("_", "")):
        return AttributeError(f"{text}; here it is {here}")
    near = get_close_matches(name.lower(), [one for one in known if not one.startswith("_")], 1, 0.7)
    return AttributeError(f"{text}; did you mean {near[0]!r}?" if near else text)
