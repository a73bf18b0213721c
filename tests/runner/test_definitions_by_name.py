"""What a script or a module defines is found by name in ranks: their objects go to other ranks and to other processes.

The same function runs on ranks of every kind. Under `shmrun`, which runs the script itself, all of it works.
"""

import sys
import types
from typing import Any

import pytest

import shmcoll
from tests.support.launched import Shmrun

SCRIPT = '''
import collections, enum, multiprocessing, operator, os, pickle, sys
from concurrent.futures import ProcessPoolExecutor
import joblib
import shmcoll

class Point:
    class Label(str):
        pass
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return type(self) is type(other) and self.x == other.x
    def __add__(self, other):
        return Point(self.x + other.x)
    def doubled(self):
        return Point(2 * self.x)

class Color(enum.Enum):
    RED = 1

class Passed:
    """It comes as an argument: no function names it."""
    class Within(Point):
        pass

class Broken(Exception):
    def __init__(self, point):
        super().__init__(point)

Pair = collections.namedtuple("Pair", "first second")
factor = 3

def scaled(x):
    return Point(factor * x)

def objects(passed, within):
    comm = shmcoll.init()
    rank, other = comm.rank, 1 - comm.rank
    both = [Point(0), Point(1)]
    assert comm.all_gather_object(Point(rank)) == both
    assert comm.all_gather_object(Point(rank), async_op=True).wait() == both
    assert comm.broadcast_object(Point(7) if rank == 0 else None) == Point(7)
    assert comm.gather_object(Point(rank)) == (both if rank == 0 else None)
    assert comm.scatter_object(both) == Point(rank)
    assert comm.all_to_all_object(both) == [Point(rank)] * 2
    assert comm.sendrecv_object(Point(rank), other, other)[0] == Point(other)
    work = comm.send_object(Point(rank), other, async_op=True)
    assert comm.recv_object(other)[0] == Point(other)
    work.wait()
    assert comm.all_reduce_object(Point(rank + 1), operator.add) == Point(3)
    mine = [Color.RED, Pair(1, 2), Point.Label("a"), Point.doubled, scaled, passed, within]
    found = comm.all_gather_object(mine)[other]
    assert found[:3] == [Color.RED, Pair(1, 2), "a"] and type(found[2]) is Point.Label
    assert found[3](Point(2)) == Point(4) and found[4](2) == Point(6)
    assert type(found[5]) is type(passed) and type(found[6]) is type(within) and found[6] == within
    assert pickle.loads(pickle.dumps(within)) == within
    return [Point(rank), Color.RED, scaled, passed]

def processes(start_methods):
    done = []
    for method in start_methods:
        with multiprocessing.get_context(method).Pool(1) as pool:
            done.append(pool.map(scaled, [1, 2]))
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            done.append(list(pool.map(scaled, [1, 2])))
    done.append(joblib.Parallel(2, backend="multiprocessing")(joblib.delayed(scaled)(i) for i in (1, 2)))
    assert done == [[Point(3), Point(6)]] * len(done)

def fail():
    raise Broken(Point(4))

def check(results):
    for rank, (point, color, function, passed) in enumerate(results):
        assert point == Point(rank) and color is Color.RED and function(1) == Point(3) and type(passed) is Passed

if __name__ == "__main__":
    how, *start_methods = sys.argv[1:]
    given = Passed(), Passed.Within(5)
    if how == "shmrun":
        objects(*given)
        processes(start_methods)
    elif how == "ranks":
        with shmcoll.ranks(2) as ranks:
            for _ in range(2):
                check(ranks.run(objects, *given))
            factor = 5
            assert [p.x for p in ranks.run(scaled, 1)] == [5, 5]
            factor = 3
            ranks.run(processes, start_methods)
    else:
        check(shmcoll.run(objects, 2, *given, method=how))
        shmcoll.run(processes, 1, start_methods, method=how)
        assert shmcoll.map(Point.doubled, [Point(1), Passed.Within(2)], n=2) == [Point(2), Point(4)]
        assert shmcoll.map(lambda f: f(1), [scaled, Point], n=2) == [Point(3), Point(1)]
        try:
            shmcoll.run(fail, 1)
        except Broken as error:
            assert error.args == (Point(4),)
        else:
            raise AssertionError
    print("done")
'''


@pytest.mark.parametrize(
    ("how", "methods"),
    [
        ("fork", ["fork"]),
        ("ranks", ["fork"]),
        pytest.param("fork", ["spawn", "forkserver"], marks=pytest.mark.slow),
        pytest.param("ranks", ["spawn"], marks=pytest.mark.slow),
        pytest.param("spawn", ["fork", "spawn"], marks=pytest.mark.slow),
        pytest.param("shmrun", ["fork", "spawn"], marks=pytest.mark.slow),
    ],
)
def test_objects_of_a_script(shmrun: Shmrun, how: str, methods: list[str]) -> None:
    script = shmrun.folder / shmrun.write(SCRIPT)
    if how == "shmrun":
        done = shmrun("-n", 2, script, how, *methods)
    else:
        done = shmrun.finish(shmrun.start_process([sys.executable, script, how, *methods], None))  # type: ignore[arg-type]
    assert (done.stderr, done.returncode, set(done.stdout.split())) == ("", 0, {"done"})


@pytest.mark.slow
def test_a_script_that_is_run_as_a_module(shmrun: Shmrun) -> None:
    shmrun.write("", "package/__init__.py")
    shmrun.write("factor = 3", "package/beside.py")
    shmrun.write(SCRIPT.replace("factor = 3\n", "from .beside import factor\n", 1), "package/script.py")
    command = [sys.executable, "-m", "package.script", "fork", "spawn"]
    done = shmrun.finish(shmrun.start_process(command, None))  # type: ignore[arg-type]
    assert (done.stderr, done.returncode, done.stdout) == ("", 0, "done\n")


MODULE = """
import enum, shmcoll

class Point:
    def __init__(self, x):
        self.x = x

class Color(enum.Enum):
    RED = 1

def swap(color):
    comm = shmcoll.init()
    return comm.all_gather_object([Point(comm.rank), color, swap.__name__])[1 - comm.rank]
"""


@pytest.fixture(params=["run", "ranks"])
def call(request: pytest.FixtureRequest) -> Any:
    if request.param != "ranks":
        yield lambda fn, *args: shmcoll.run(fn, 2, *args)
        return
    with shmcoll.ranks(2) as ranks:
        yield ranks.run


def test_objects_of_a_module_that_ranks_cannot_import(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package, module = types.ModuleType("made_up"), types.ModuleType("made_up.module")
    exec(MODULE, vars(module))
    for one in (package, module):
        monkeypatch.setitem(sys.modules, one.__name__, one)
    for rank, (point, color, _) in enumerate(call(module.swap, module.Color.RED)):
        assert (type(point), point.x, color) == (module.Point, 1 - rank, module.Color.RED)


def test_functions_of_two_modules_of_one_name_do_not_meet() -> None:
    """As doctest and `runpy` have them: one of them is not the module of that name."""
    one: dict[str, Any] = {"__name__": "__main__", "value": 1}
    other: dict[str, Any] = {"__name__": "__main__", "value": 2}
    for names in (one, other):
        exec("def show(*more): return [value, *(f()[0] for f in more)]", names)
    assert shmcoll.run(one["show"], 1, other["show"]) == [[1, 2]]
