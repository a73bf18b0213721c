"""What a name of another library is called here, for an `AttributeError`, and what to do about a package that is not
installed, or of which shmcoll has a part."""

import inspect
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

#: names of mpi4py, torch.distributed, JAX, joblib and others, without case and underscores. What is a method of a
#: communicator by another spelling is found without this table
_HERE = {
    "getrank": "comm.rank",
    "rankof": "comm.rank",
    "getsize": "comm.size",
    "getname": "comm.name",
    "worldsize": "comm.size",
    "getworldsize": "comm.size",
    "nranks": "comm.size",
    "numranks": "comm.size",
    "localrank": "comm.node.rank",
    "localsize": "comm.node.size",
    "getprocessorname": "platform.node()",
    "bcast": "broadcast",
    "broadcastobjectlist": "comm.broadcast_object(value, root=0)",
    "broadcastparameters": "comm.broadcast(x, root=0)",
    "allgatherintotensor": "comm.all_gather(x, out=out)",
    "alltoallsingle": "comm.all_to_all(x, out=out)",
    "alltoallw": "comm.all_to_all_v(x, send_counts)",
    "reducescatterblock": "reduce_scatter",
    "reducescattertensor": "comm.reduce_scatter(x, out=out)",
    "monitoredbarrier": "barrier",
    "psum": "comm.all_reduce(x)",
    "pmean": "comm.all_reduce(x, 'avg')",
    "pmax": "comm.all_reduce(x, 'max')",
    "pmin": "comm.all_reduce(x, 'min')",
    "ppermute": "collective_permute",
    "bsend": "send",
    "rsend": "send",
    "ssend": "comm.send(x, dest, synchronous=True), or comm.send_object(value, dest, synchronous=True) for an object",
    "issend": "comm.send(x, dest, synchronous=True, async_op=True)",
    "sendrecvreplace": "comm.sendrecv(x, dest, source=source)",
    "batchisendirecv": "comm.batch([shmcoll.Send(x, dest), shmcoll.Recv(out, source)])",
    "p2pop": "shmcoll.Send(x, dest), or shmcoll.Recv(out, source)",
    "createcart": "comm.grid(dims)",
    "cartcreate": "comm.grid(dims)",
    "creategraph": "comm.graph(sources, destinations)",
    "createdistgraph": "comm.graph(sources, destinations)",
    "createdistgraphadjacent": "comm.graph(sources, destinations)",
    "neighborallgather": "comm.graph(sources).all_gather(x)",
    "neighborallgatherv": "comm.graph(sources).all_gather_v(x)",
    "neighboralltoall": "comm.graph(sources).all_to_all(x)",
    "neighboralltoallv": "comm.graph(sources).all_to_all_v(x, send_counts)",
    "getcartrank": "grid.rank_at(coords)",
    "getcoords": "grid.coords_of(rank)",
    "shift": "grid.neighbours(axis)",
    "creategroup": "comm.subgroup(ranks)",
    "create": "comm.subgroup(ranks)",
    "newgroup": "comm.subgroup(ranks)",
    "newsubgroups": "comm.split(color)",
    "splittype": "comm.node",
    "getgroup": "comm.ranks",
    "clone": "comm.dup()",
    "free": "comm.close()",
    "disconnect": "comm.close()",
    "win": "comm.views(comm.empty(shape))",
    "allocateshared": "comm.views(comm.empty(shape))",
    "finalize": "nothing: the job ends with the program",
    "shutdown": "nothing: the job ends with the program",
    "destroyprocessgroup": "comm.close(), or nothing: the job ends with the program",
    "isinitialized": "comm = shmcoll.init(), which may be called again",
    "commworld": "comm = shmcoll.init()",
    "mpi": "comm = shmcoll.init()",
    "initprocessgroup": "comm = shmcoll.init()",
    "reduceop": "a string, as in comm.all_reduce(x, 'max')",
    "anysource": "shmcoll.ANY",
    "anytag": "shmcoll.ANY",
    "procnull": "None, as in comm.send(x, None)",
    "inplace": "out, as in comm.all_reduce(x, out=x)",
    "wtime": "time.perf_counter()",
    "get": "work.wait()",
    "join": "work.wait()",
    "iscompleted": "work.done()",
    "ready": "work.done()",
    "issuccess": "work.exception(), which is None then",
    "successful": "work.exception(), which is None then",
    "getfuture": "await work",
    "waitall": "shmcoll.wait_all(works)",
    "waitany": "shmcoll.wait_any(works)",
    "waitsome": "shmcoll.wait_some(works)",
    "parallel": "shmcoll.map(function, items, n=n)",
    "delayed": "shmcoll.map(function, items, n=n)",
    "map": "shmcoll.map(function, items, n=n)",
    "imap": "shmcoll.imap(function, items, n=n)",
    "imapunordered": "shmcoll.imap(function, items, n=n, ordered=False)",
    "starmap": "shmcoll.map(lambda item: function(*item), items, n=n)",
    "pool": "shmcoll.map(function, items, n=n), or shmcoll.ranks(n) for ranks that stay",
    "processpoolexecutor": "shmcoll.map(function, items, n=n), or shmcoll.ranks(n) for ranks that stay",
    "process": "shmcoll.run(function, nprocs)",
    "launch": "shmcoll.run(function, nprocs)",
    "spawn": "shmcoll.run(function, nprocs)",
    **{name: f"{name!r}, as in comm.all_reduce(x, {name!r})" for name in ("sum", "prod", "min", "max", "avg")},
}

#: packages that programs for other libraries import
_MODULES = {
    "mindspore": "shmcoll has a part of MindSpore: start the job by shmrun --mindspore, or import shmcoll.mindspore",
    "nki": "shmcoll has the communication of NKI: start the job by shmrun --nki, or import shmcoll.nki",
    "mpi4py": "shmcoll needs no mpi4py: MPI.COMM_WORLD is comm = shmcoll.init() here",
}


#: our packages that have a part of the names of others, and what to do about the rest
_PARTS = {
    "shmcoll.mindspore": "shmcoll.mindspore has a part of MindSpore's names: for the others, pip install mindspore, "
    "and shmrun --mindspore",
    "shmcoll.nki": "shmcoll.nki has what kernels need around a collective: arrays are numpy's, so compute with numpy "
    "(see docs/guide/nki.md)",
}

#: of NKI's tensors, and not of numpy's arrays
_TENSOR_METHODS = ("ap", "select", "slice", "permute")


def of_error(error: BaseException) -> str:
    """Return what to do about a package that is not installed, or a name that our part of one lacks; empty if shmcoll
    has nothing like it."""
    if isinstance(error, ImportError):
        name = error.name or ""
        if name in _MODULES:
            return _MODULES[name]
        package = sys.modules.get(name.partition(".")[0])
        owners = [name, f"{getattr(package, '__name__', '')}.{name.partition('.')[2]}"]
    elif isinstance(error, AttributeError):
        kind = error.obj if isinstance(error.obj, type) else type(error.obj)
        owner: Any = error.obj
        if isinstance(title := getattr(owner, "_title", None), str):  # `runtime/process_bound.py`
            inner = type(owner.comm) if hasattr(kind, "comm") else None
            comm = kind if hasattr(kind, "all_reduce") else None
            return _hint(title, error.name or "", tuple(dir(kind)), comm, inner)
        owners = [getattr(error.obj, "__name__", ""), *(one.__module__ for one in kind.__mro__)]
        if kind.__module__ == "numpy" and error.name in _TENSOR_METHODS and "shmcoll.nki" in sys.modules:
            return f"{_PARTS['shmcoll.nki']}; in place of .{error.name} index the array, as in x[i:j]"
    else:
        return ""
    return next((told for part, told in _PARTS.items() if any(f"{one}.".startswith(f"{part}.") for one in owners)), "")


def missing(owner: str, name: str, known: Iterable[str], comm: type) -> AttributeError:
    """Return the error for an attribute that a module does not have.

    Args:
        owner: the module.
        name: the attribute.
        known: those that it has.
        comm: the class of communicators.
    """
    return AttributeError(_text(owner, name, tuple(known), comm, None))


def _hint(owner: str, name: str, known: tuple[str, ...], comm: type | None, inner: type | None) -> str:
    """Return what is like an attribute that an object does not have; empty if nothing is.

    Args:
        owner: the object, in words.
        name: the attribute.
        known: those that it has.
        comm: its class, if it is a communicator.
        inner: the class of its attribute `comm`.
    """
    text = _text(owner, name, known, comm, inner)
    return "" if text.endswith(f"attribute {name!r}") else text


@lru_cache(1024)  # pickle asks every module for the same names again and again
def _text(owner: str, name: str, known: tuple[str, ...], comm: type | None, inner: type | None) -> str:
    text = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):
        return text
    if inner and hasattr(inner, name):
        return f"{text}; its comm has: did you mean .comm.{name}?"
    if here := _here(name.lower().replace("_", ""), comm or inner):
        of = ", with comm = shmcoll.init()" if owner == "shmcoll" and here.startswith("comm.") else ""
        return f"{text}; here it is {here}{of}"
    from difflib import get_close_matches  # late: it takes 1 ms

    near = get_close_matches(name.lower(), [one for one in known if not one.startswith("_")], 1, 0.7)
    return f"{text}; did you mean {near[0]!r}?" if near else text


def _here(name: str, comm: type | None) -> str:
    """Return what is like a name without case and underscores; empty if nothing is."""
    here = _HERE.get(name, "")
    if here and not here.isidentifier():
        return here
    methods = {one.replace("_", ""): one for one in dir(comm) if not one.startswith("_")} if comm else {}
    for key, keywords in ((here.replace("_", "") or name, ()), (name.removeprefix("i"), ("async_op=True",))):
        method = methods.get(_HERE.get(key, key).replace("_", ""))
        if method and (not keywords or "async_op" in inspect.signature(getattr(comm, method)).parameters):
            return _call(comm, method, keywords)
    if name.endswith("init") and (method := methods.get(name.removesuffix("init"))):
        return f"comm.plan({', '.join([repr(method), *_required(comm, method)])})"
    return ""


def _call(comm: type | None, method: str, keywords: tuple[str, ...]) -> str:
    """Return the call of a method, and of that for objects, if there is one."""
    if not inspect.isfunction(getattr(comm, method)):
        return f"comm.{method}"
    call = f"comm.{method}({', '.join([*_required(comm, method), *keywords])})"
    if hasattr(comm, with_objects := f"{method}_object"):
        call += f", or comm.{with_objects}({', '.join([*_required(comm, with_objects), *keywords])}) for an object"
    return call


def _required(comm: type | None, method: str) -> list[str]:
    """Return the arguments of a method that are usually passed."""
    parameters = list(inspect.signature(getattr(comm, method)).parameters.values())[1:]
    passed = [p for p in parameters if p.default is p.empty or p.name in ("root", "out", "source")]
    return [p.name if p.default is p.empty else f"{p.name}={_value(p.name)}" for p in passed if p.name != "out"]


def _value(name: str) -> str:
    return "0" if name == "root" else name
