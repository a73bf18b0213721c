"""A rank has failed when its interpreter ends by an exception: not when one is printed, whatever the hook is."""

import os
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow

WAYS = pytest.mark.parametrize("way", [(), pytest.param(("--fresh",), marks=pytest.mark.stress)], ids=["fork", "fresh"])

#: how a program prints an exception and goes on
PRINTS = {
    "sys.excepthook": """
        try:
            raise ValueError("printed")
        except ValueError:
            sys.excepthook(*sys.exc_info())
    """,
    "PyErr_Print": """
        import ctypes
        print(ctypes.pythonapi.PyRun_SimpleString(b"raise ValueError('printed')"), file=sys.stderr)
    """,
    "in a thread": """
        import threading
        def print_it():
            sys.excepthook(ValueError, ValueError("printed"), None)
        thread = threading.Thread(target=print_it)
        thread.start()
        thread.join()
    """,
    "end of a thread": """
        import threading
        def fail():
            raise ValueError("printed")
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    """,
    "code.interact": """
        import code
        shell = code.InteractiveConsole(globals())
        shell.push("raise ValueError('printed')")
    """,
}

#: hooks that a program may set after it has joined
HOOKS = {
    "none": "",
    "calls ours": "def hook(*e, ours=sys.excepthook): print('mine', flush=True); ours(*e)\nsys.excepthook = hook",
    "method": "class Hook:\n    def __init__(self): self.ours = sys.excepthook\n"
    "    def call(self, *e): print('mine', flush=True); self.ours(*e)\nsys.excepthook = Hook().call",
    "replaces ours": "sys.excepthook = lambda *e: print('mine', flush=True)",
}

JOINS = """
import sys, time
import shmcoll
arguments = dict(rank=int(sys.argv[1]), size=2, job=sys.argv[2]) if len(sys.argv) > 1 else {}
comm = shmcoll.init(**arguments)
"""
PRINTING = (
    JOINS
    + "if comm.rank == 0:\n"
    + "".join(textwrap.indent(textwrap.dedent(text), "    ") for text in PRINTS.values())
    + "assert comm.all_reduce(1) == 2\nprint('right')\n"
)
FAILING = (
    JOINS
    + """
%s
if comm.rank == 0:
    raise ValueError("bad")
try:
    comm.barrier()
except shmcoll.RankFailed as e:
    print(e)
"""
)


@WAYS
def test_a_rank_that_prints_an_exception_in_each_way_lives(shmrun, way):
    told = shmrun("-n", 2, *way, shmrun.write(PRINTING))
    assert (told.returncode, told.stdout) == (0, "right\n" * 2), told.stderr
    assert told.stderr.count("ValueError: printed\n") == len(PRINTS)
    assert "shmrun:" not in told.stderr


def test_without_a_launcher(shmrun):
    told = plain_ranks(shmrun, shmrun.write(PRINTING), f"prints {os.getpid()}")
    assert [(t.returncode, t.stdout) for t in told] == [(0, "right\n")] * 2, told
    assert told[0].stderr.count("ValueError: printed\n") == len(PRINTS)


@pytest.mark.parametrize("as_module", [False, pytest.param(True, marks=pytest.mark.stress)], ids=["script", "module"])
@pytest.mark.parametrize("hook", HOOKS)
def test_an_interpreter_that_ends_by_an_exception_is_a_rank_that_failed(shmrun, hook, as_module):
    script = shmrun.write(FAILING % HOOKS[hook])
    start = ["-m", "job"] if as_module else [script]
    failed, other = plain_ranks(shmrun, *start, f"{hook} {as_module} {os.getpid()}")
    assert failed.returncode == 1
    assert ("mine" in failed.stdout) is (hook != "none")
    assert ("ValueError: bad" in failed.stderr) is (hook != "replaces ours")
    assert other.stdout == "barrier #1 on rank 1: rank 0 raised ValueError: bad\n"


@WAYS
@pytest.mark.parametrize("hook", HOOKS)
def test_so_it_is_under_shmrun(shmrun, way, hook):
    told = shmrun("-n", 2, *way, shmrun.write(FAILING % HOOKS[hook]))
    assert told.returncode == 1
    assert "barrier #1 on rank 1: rank 0 raised ValueError: bad\n" in told.stdout
    assert ("ValueError: bad\n" in told.stderr) is (hook != "replaces ours")
    assert "shmrun: rank 0 failed first, with exit code 1" in told.stderr


@WAYS
def test_an_exception_that_was_printed_before_ends_the_rank_all_the_same(shmrun, way):
    script = shmrun.write("""
        import sys
        error = ValueError("bad")
        sys.excepthook(ValueError, error, None)
        raise error
    """)
    told = shmrun("-n", 1, *way, script)
    assert told.returncode == 1
    first, _, last = told.stderr.partition("shmrun: rank 0 failed first, with exit code 1:\n")
    assert first == "ValueError: bad\n"
    assert last.endswith("ValueError: bad\n")


def plain_ranks(shmrun, *start: str):
    """Two ranks that an interpreter runs as it runs any program; the last word is the name of the job."""
    *program, job = start
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    processes = [
        shmrun.start_process([sys.executable, *program, rank, job], environment | {"SHMCOLL_TIMEOUT": "20"})
        for rank in (0, 1)
    ]
    return [shmrun.finish(process) for process in processes]
