"""Programs in which gevent, eventlet or the like has replaced Python's threads."""

import importlib.util
import subprocess
import sys
import threading

import numpy as np
import pytest

from shmcoll.errors import CallNotAllowed

PATCHES = {
    "a stand-in": """
import sys, threading
real, threading.get_ident = threading.get_ident, lambda: 1
def told(*error):
    sys.__excepthook__(*error)
    threading.get_ident = real  # so that the interpreter ends
sys.excepthook = told
""",
    "gevent": "import gevent.monkey; gevent.monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
    "gevent without threads": "import gevent.monkey; gevent.monkey.patch_all(thread=False, queue=False)",
    "eventlet without threads": "import eventlet; eventlet.monkey_patch(thread=False)",
}
CALLS = """
import numpy as np
import shmcoll
comm = shmcoll.init()
print(comm.all_reduce(np.ones(2), async_op=True).wait(), comm.all_gather_object(1))
"""


@pytest.mark.parametrize("name", PATCHES)
def test_threads_are_replaced_before_the_import(name):
    library = name.split()[0]
    if library != "a" and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    done = subprocess.run([sys.executable, "-c", PATCHES[name] + CALLS], capture_output=True, text=True, check=False)
    if name.endswith("threads"):
        assert done.stdout == "[1. 1.] [1]\n", done.stderr
    else:
        last = done.stderr.splitlines()[-1]
        assert last.startswith("shmcoll.errors.CallNotAllowed: init: gevent, eventlet or the like has replaced")
        assert "gevent.monkey.patch_all(thread=False, queue=False)" in last and done.returncode == 1


def test_threads_are_replaced_after_init(ranks):
    def calls(comm) -> list[str]:
        comm.all_gather_object(1)
        told, one, real = [], np.ones(2), threading.get_ident
        begun, busy = threading.Event(), threading.Event()
        work = comm._dispatcher.worker.submit(lambda: begun.set() or busy.wait())
        begun.wait()
        for call in (
            lambda: comm.all_reduce(one, async_op=True),
            lambda: comm.recv(source=0, async_op=True),
            lambda: comm.send(one, 0, synchronous=True, async_op=True),
            lambda: comm.plan("all_reduce", one).start(),
            comm.barrier,  # which waits for its turn
            lambda: comm.all_gather_object(1),
        ):
            threading.get_ident = lambda: real() + 1
            try:
                with pytest.raises(CallNotAllowed, match="has replaced Python's threads"):
                    call()
                told.append("refused")
            finally:
                threading.get_ident = real
        busy.set()
        work.wait()
        threading.get_ident = lambda: real() + 1
        try:
            comm.barrier()  # needs no turn
            for value in (1, [b"several parts" * 5000, one]):
                assert len(comm.all_gather_object(value)) == comm.size
        finally:
            threading.get_ident = real
        return [*told, *comm.all_gather_object("goes on")]

    assert ranks(1, calls) == [["refused"] * 6 + ["goes on"]]
