"""Every refusal of every method: it names the call, and what it advises exists and works."""

import ast
import operator
import re
from contextlib import nullcontext
from typing import Any

import numpy as np

import shmcoll
from shmcoll.communicator import Communicator
from shmcoll.communicator.graph import Graph
from shmcoll.communicator.grid import Grid
from shmcoll.diagnostics import meant_call
from tests.support.wrong_calls import PUBLIC, RIGHT, WrongCall, array, public_methods, wrong_calls

#: that end the group, or that no rank can call alone
NOT_TRIED = {"abort", "close", "shrink", "plan", "dup", "allocating"}
#: what the texts name a call, where that is not the method's name
OTHER_NAMES = {"sendrecv": "(sendrecv|send|recv)", "sendrecv_object": "(sendrecv|send|recv)_object"}


def faults(name: str, text: str) -> list[str]:
    """What is wrong with a text, whatever the call was."""
    found = []
    if not re.match(rf"(Communicator\.)?({OTHER_NAMES.get(name, name)})(\(| on rank 0: |: | #\d)", text):
        found.append("does not name the call and the rank")
    if "\n" in text or len(text) > 420:
        found.append("is no short line")
    if re.search(r"(?<![\w.])_\w", text):
        found.append("has a private name")
    found += [f"names {one}" for one in re.findall(r"\b([A-Z]\w+)\.\w+\(", text) if one not in PUBLIC]
    for owner, known in (("comm", Communicator), ("shmcoll", shmcoll)):
        found += [f"names {one}" for one in re.findall(rf"\b{owner}\.(\w+)", text) if not hasattr(known, one)]
    return found


def advised(text: str) -> list[ast.expr]:
    """The expressions that a text advises: calls of methods, and how x is to be converted."""
    found = []
    for start in re.finditer(r"\bcomm\.\w+\(|\b(?:as in|reduce|pass|as of) (?=(?:np|x)[.\[])", text):
        begin = start.start() if text[start.start() :].startswith("comm") else start.end()
        for end in range(len(text), begin, -1):
            try:
                found.append(ast.parse(text[begin:end].strip(), mode="eval").body)
                break
            except SyntaxError:
                continue
    return [one for one in found if isinstance(one, (ast.Call, ast.Subscript))]


def follow(comm: Any, call: WrongCall, text: str) -> list[str]:
    """What is advised, done: the errors."""
    given = call.keywords or RIGHT
    x = given.get("x", RIGHT["x"])
    names = {
        "comm": comm,
        "np": np,
        "operator": operator,
        "function": lambda a, _: a,
        "root": 0,
        "dest": 0,
        "source": 0,
    }
    names |= {"x": x, "value": RIGHT["value"], "values": [x], "out": np.ones_like(RIGHT["out"])}
    names |= {"max": max, "hypot": np.hypot}
    found = []
    again: list[dict[str, Any]] = []
    for one in advised(text):
        source = ast.unparse(one)
        if source.startswith("comm."):
            bound = {word.arg: word.value for word in one.keywords} if isinstance(one, ast.Call) else {}
            if ".recv" in source:
                tag = ast.literal_eval(bound["tag"]) if "tag" in bound else 0
                send_to_itself(comm, "_object" in source, tag)
        else:
            again.append({"x": eval(source, {}, names)})
            continue
        try:
            eval(source, {}, names)
        except Exception as error:
            found += [f"{source}: {error!r}"] if is_of_call(error) else []
    if single := re.search(r"did you mean (\w+=[^,?]+(?:, \w+=[^,?]+)*)\?", text):
        again.append(dict(eval(f"dict({single[1]})", {}, names)))
    for changed in again:
        try:
            for tag in (0, 1):
                send_to_itself(comm, "_object" in call.method, tag)
            getattr(comm, call.method)(**call.bound(getattr(comm, call.method)) | changed)
        except Exception as error:
            found += [f"with {changed}: {error!r}"] if is_of_call(error) else []
    while comm.iprobe():
        comm.improbe()
    return found


def send_to_itself(comm: Any, is_object: bool, tag: int) -> None:
    (comm.send_object if is_object else comm.send)(RIGHT["x"], 0, tag)


def is_of_call(error: Exception) -> bool:
    """Whether an error is neither of what these tests have sent, nor of counts in place of displacements."""
    return not re.search("no message that this rank has sent|the next message|elements together", str(error))


def walk(comm: Any) -> tuple[int, int, list[str]]:
    """All refusals of the methods of a communicator."""
    meant_call.ignored = nullcontext  # type: ignore[misc, assignment]  # what is ignored there would be seen here
    told, refusals, followed = [], 0, 0
    for call in wrong_calls(comm, [name for name in public_methods(Communicator) if name not in NOT_TRIED]):
        try:
            made = getattr(comm, call.method)(*call.args, **call.keywords)
            if isinstance(made, (Communicator, Graph)):
                made.close()
        except (TypeError, ValueError, IndexError) as error:
            text = str(error)
            refusals += 1
            told += [f"{call.what}: {text}: {fault}" for fault in faults(call.method, text)]
            if is_complete(call, text):
                followed += 1
                told += [f"{call.what}: {text}: followed: {fault}" for fault in follow(comm, call, text)]
        except RuntimeError as error:  # of an object that raises
            assert "not " in str(error), call.what
        while comm.iprobe():
            comm.improbe()
    return refusals, followed, told


def is_complete(call: WrongCall, text: str) -> bool:
    """Whether the advice leaves nothing else that is wrong with the call."""
    if not advised(text) and "did you mean" not in text:
        return False
    moved = [value for value in (*call.keywords.values(), *call.args) if isinstance(value, np.ndarray)]
    return "out=out" not in text or all(one.dtype == "f8" and one.shape == (4,) for one in moved)


def walk_others(comm: Any) -> list[str]:
    """All refusals of grids, graphs, handles, plans, messages, and of the functions of the package."""
    meant_call.ignored = nullcontext  # type: ignore[misc, assignment]
    grid, work = comm.grid(1), comm.barrier(async_op=True)
    comm.send(RIGHT["x"], 0)
    functions = ["op", "premul_sum", "pair_dtype", "wait_all", "wait_any", "wait_some"]
    owners = [
        (grid, [name for name in public_methods(Grid) if name != "graph"], "Grid"),
        (comm.graph([0]), [name for name in public_methods(Graph) if name != "close"], "Graph"),
        (work, ["wait", "result", "exception", "test", "cancel"], "Work"),
        (comm.plan("all_reduce", array()), ["start"], "Plan"),
        (comm.mprobe(), ["recv"], "Message"),
        (shmcoll, functions, ""),
    ]
    told = []
    for owner, names, title in owners:
        for call in wrong_calls(owner, names):
            try:
                made = getattr(owner, call.method)(*call.args, **call.keywords)
                if isinstance(made, shmcoll.Work):
                    made.wait()
            except (TypeError, ValueError, IndexError) as error:
                text = str(error)
                named = rf"({title}\.|graph\.|works|there is no call|timeout must|{call.method}\b|halo_exchange\b)"
                found = [fault for fault in faults(call.method, text) if "name the call" not in fault]
                found += [] if re.match(named, text) else ["does not name the call"]
                told += [f"{title}.{call.what}: {text}: {fault}" for fault in found]
            except RuntimeError as error:
                assert "not " in str(error), call.what
    for operation in ("all_reduce", "gather_v", "send", "recv", "sendrecv", "split"):
        for arguments in ((), (1, 2, 3, 4, 5, 6, 7), ("abc",), (array(), "abc"), (array()[::2],), ([1.0], 0)):
            try:
                comm.plan(operation, *arguments)
            except (TypeError, ValueError) as error:
                named = rf"plan( of \w+)?|{operation}|send|recv"
                told += [f"plan: {error}: {fault}" for fault in faults(named, str(error))]
    for arguments, advice in (((array(), "send"), "comm.plan('send', x)"), (("Allreduce", array()), "'all_reduce'")):
        try:
            comm.plan(*arguments)
        except (TypeError, ValueError) as error:
            told += [] if str(error).endswith(f"; did you mean {advice}?") else [str(error)]
    return told


def test_of_everything_else_in_a_rank(ranks):
    (told,) = ranks(1, walk_others)
    assert not told, f"{len(told)}\n" + "\n".join(told[:40])


def test_of_a_communicator(ranks):
    ((refusals, followed, told),) = ranks(1, walk)
    assert not told, f"{len(told)}\n" + "\n".join(told[:40])
    assert refusals > 4000 and followed > 400
