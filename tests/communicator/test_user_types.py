"""mypy finds the mistakes of a user's program, and nothing in a right one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import shmcoll

RIGHT = """
import asyncio
from array import array
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import shmcoll
from shmcoll import ANY, Communicator, Recv, Send, Work

comm: Communicator = shmcoll.init()
x = np.ones(4)

total: NDArray[Any] = comm.all_reduce([1, 2, 3], "max")
total = comm.all_reduce(x, np.add, out=x, algorithm="ring")
total = comm.all_reduce(x, shmcoll.op(lambda a, b: a if a > b else b))
total = comm.all_reduce(x, shmcoll.premul_sum(0.5), out=array("d", x))
total = comm.all_reduce(x, async_op=False)
pending: Work[NDArray[Any]] = comm.all_reduce(x, async_op=True)
total = pending.wait(timeout=1.0)
done: Work[None] = comm.barrier(async_op=True)
comm.barrier()

at_root = comm.gather(x)
if at_root is not None:
    total = at_root[::2]
at_root = comm.reduce(x, root=1, async_op=True).wait()
parts = comm.all_gather(x, out=[np.empty(4) for _ in range(comm.size)])
result, counts = comm.all_to_all_v(x, [4], recv_room=np.array([4]))
result, counts = comm.all_gather_v(x, async_op=True).wait()
mine: NDArray[Any] = comm.scatter(x if comm.rank == 0 else None)
mine = comm.scatter_v(None, 1)
mine = comm.collective_permute(x, [(i, (i + 1) % comm.size) for i in range(comm.size)])

comm.send(x, dest=0, tag=3)
message, source, tag = comm.recv(source=ANY)
number: int = source + tag
message, source, tag = comm.recv(async_op=True).wait()
works: list[Work[Any]] = comm.batch([Send(x, 0), Recv(source=0, out=bytearray(32))])

thing: Any = comm.broadcast_object({"a": 1})
things: list[Any] = comm.all_gather_object(1)
views: list[NDArray[Any]] = comm.views(comm.zeros((2, 3), np.float32))
half = comm.split(comm.rank % 2)
if half is not None:
    half.close()
comm.timeout = 3
plan = comm.plan("all_reduce", x)
later: Work[Any] = plan.start()
u: NDArray[Any] = comm.grid((2, 0), periods=[True, False]).exchange(np.zeros((4, 4)))
pair = np.dtype(shmcoll.pair_dtype(np.float32))
narrow = comm.all_reduce(np.ones(2, ml_dtypes.bfloat16))


async def wait_for_it(work: Work[NDArray[Any]]) -> float:
    return float((await work).sum())


asyncio.run(wait_for_it(pending))
try:
    answers: list[Any] = shmcoll.run(lambda n: n + 1, 2, 5, timeout=10)
except shmcoll.RankFailed as error:
    text: str = str(error)
except shmcoll.ArenaError as error:
    missing: int = error.needed - error.available
except (shmcoll.CallNotAllowed, shmcoll.Cancelled, shmcoll.ShmcollError):
    raise
"""

#: lines, each a mistake of its own, and what mypy says of it
MISTAKES = {
    "comm.rank = 3": 'Property "rank" defined in "NativeCalls" is read-only',
    "comm.ranks = [0]": 'Property "ranks" defined in "Communicator" is read-only',
    "comm.all_reduce(x).wait()": 'has no attribute "wait"',
    "comm.all_reduce(x, async_op=True).sum()": '"Work[ndarray[tuple[Any, ...], dtype[Any]]]" has no attribute "sum"',
    "comm.gather(x).sum()": 'Item "None" of',
    "comm.all_reduce(x, 3)": "No overload variant",
    "comm.all_reduce(x, out=[x])": "No overload variant",
    "comm.all_reduce(object())": "No overload variant",
    "comm.all_to_all_v(x)": "No overload variant",
    "comm.barrier(1)": "No overload variant",
    "comm.send(x)": "No overload variant",
    "comm.recv(source='two')": "No overload variant",
    "array, source = comm.recv()": "too many values to unpack|Too many values to unpack",
    "comm.batch([x])": "List item 0 has incompatible type",
    "comm.split(0).barrier()": 'Item "None" of',
    "comm.timeout = 'long'": "Incompatible types in assignment",
    "comm.zeros(2.5)": 'Argument 1 to "zeros"',
    "comm.barier()": 'has no attribute "barier"',
    "number: int = comm.all_gather_object(1)": "Incompatible types in assignment",
    "work: shmcoll.Work[int] = comm.barrier(async_op=True)": "Incompatible types in assignment",
    "comm.grid('2')": 'Argument 1 to "grid"',
    "shmcoll.run(len)": 'Missing positional argument "nprocs"',
    "shmcoll.init(0, 2, 'job')": "Too many positional arguments",
    "shmcoll.op(lambda a: a)": "Cannot infer type of lambda|incompatible type",
    "shmcoll.NotAnError": 'Module has no attribute "NotAnError"',
}


HEAD = "import numpy as np\nimport shmcoll\ncomm = shmcoll.init()\nx = np.ones(4)\n"
PROGRAMS = {"right": RIGHT, "mistakes": HEAD + "\n".join(MISTAKES) + "\n"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """The line of each error, and the error, by program. In strict mode, with shmcoll as it is when installed."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("programs")
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    settings = folder / "mypy.ini"
    settings.write_text(
        f"[mypy]\nstrict = true\nmypy_path = {Path(shmcoll.__file__).parents[1]}\nexplicit_package_bases = true\n"
        "follow_imports = silent\n[mypy-numba.*,llvmlite.*,ml_dtypes.*,cloudpickle.*]\n"
        "ignore_missing_imports = true\n"
    )
    options = ["--config-file", str(settings), "--cache-dir", str(folder)]
    command = [sys.executable, "-m", "mypy", *options, *(f"{name}.py" for name in PROGRAMS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors = re.findall(r"^(\w+)\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert f"Found {len(errors)} errors" in done.stdout, done.stdout
    return {name: [(int(line), text) for file, line, text in errors if file == name] for name in PROGRAMS}


@pytest.mark.slow
def test_a_right_program_has_no_errors(found):
    assert found["right"] == []


@pytest.mark.slow
def test_each_mistake_is_found(found):
    errors = dict(found["mistakes"])
    first = HEAD.count("\n") + 1
    said = {mistake: errors.get(first + i, "nothing") for i, mistake in enumerate(MISTAKES)}
    assert {mistake: text for mistake, text in said.items() if not re.search(_pattern(mistake), text)} == {}
    assert set(errors) <= set(range(first, first + len(MISTAKES)))


def _pattern(mistake: str) -> str:
    return "|".join(re.escape(one) for one in MISTAKES[mistake].split("|"))
