"""mint.distributed.TCPStore: processes that share keys and values before they have joined a job."""

import contextlib
import gc
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from shmcoll.engine.system import connections
from shmcoll.mindspore.mint.distributed import TCPStore, tcp_store, tcp_store_master
from tests.support import sparks
from tests.support.patience import PATIENCE
from tests.support.waiting import until

SHORT = timedelta(seconds=0.2)


@pytest.fixture(autouse=True)
def no_threads_left():
    yield
    gc.collect()
    until(lambda: all(thread.name != "shmcoll-tcp-store" for thread in threading.enumerate()))


def test_values_and_counters(told):
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=SHORT)
    other = TCPStore("127.0.0.1", store.port, timeout=SHORT)
    store.set("text", "value")
    other.set("bytes", b"\0\1")
    found = [other.get("text"), store.get("bytes"), store.add("n", 3), other.add("n", -1), store.get("n")]
    assert found == [b"value", b"\0\1", 3, 2, b"2"]
    store.set("n", "7")
    assert (store.add("n", 1), store.delete_key("n"), store.delete_key("n"), store.add("n", 1)) == (8, True, False, 1)
    long = b"x" * 3_000_000
    store.set("long", long)
    assert other.get("long") == long
    assert (
        told(partial(store.add, "text", 1)) == "RuntimeError: For 'TCPStore.add', the value of 'text' is not a number"
    )
    assert told(lambda: other.get("none")) == (
        "RuntimeError: For 'TCPStore.get', no value of 'none' was set within 0.2 s"
    )
    port = store.port
    del store
    gc.collect()
    assert told(lambda: other.set("a", "b")).startswith(f"RuntimeError: TCPStore: the master at 127.0.0.1:{port}")


def test_a_value_is_waited_for():
    store = TCPStore("127.0.0.1", 0, is_master=True)
    late = threading.Timer(0.05, store.set, ("late", "now"))
    late.start()
    assert TCPStore("127.0.0.1", store.port).get("late") == b"now"
    late.join()


def test_workers_wait_for_the_master_and_it_for_them(ranks):
    """All ranks count; the ranks other than 0 are there before the master listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def run(comm) -> list:
        if comm.rank == 0:
            time.sleep(0.05)
        store = TCPStore("127.0.0.1", port, comm.size, comm.rank == 0)
        store.add("count", comm.rank + 1)
        comm.barrier()
        found = store.get("count")
        if comm.rank == 0 and (child := os.fork()) == 0:  # it must not close the connections of its parent
            del store
            gc.collect()
            os._exit(0)
        if comm.rank == 0:
            os.waitpid(child, 0)
        comm.barrier()
        found = [found, store.get("count")]
        comm.barrier()
        return found

    assert ranks(3, run) == [[b"6", b"6"]] * 3


def test_who_does_not_come(told):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        taken = told(lambda: TCPStore("127.0.0.1", port, is_master=True))
    assert taken.startswith(f"RuntimeError: TCPStore: cannot listen at 127.0.0.1:{port}")
    assert told(lambda: TCPStore("127.0.0.1", port, timeout=SHORT)).startswith(
        f"RuntimeError: TCPStore: no master answers at 127.0.0.1:{port} within 0.2 s"
    )
    alone = told(lambda: TCPStore("127.0.0.1", port, 2, True, SHORT))
    assert alone == f"RuntimeError: TCPStore: 1 of 2 stores have connected to 127.0.0.1:{port} within 0.2 s"


def test_arguments(told):
    def of(name: str, kind: str, given: str, operation: str = "TCPStore") -> str:
        text = f"TypeError: For '{operation}', the argument '{name}' must be type of {kind}"
        return f"{text}, but got '{name}' type : {given}."

    integer, text = "<class 'int'>", "<class 'str'>"
    for arguments, wanted in (
        ((3, 1), of("host_name", "string", integer)),
        (("a", "1"), of("port", "int", text)),
        (("a", 1, 1, 5), of("is_master", "bool", integer)),
        (("a", 1, 1, True, 5), of("timeout", "timedelta", integer)),
        (("a", 1, 1, True, SHORT, 5), of("wait_for_workers", "bool", integer)),
        (("a", 1, "1"), of("world_size", "int", text)),
        (("a", -1), "ValueError: For 'TCPStore', the argument 'port' must be legal, but got -1."),
        (("a", 1, 0), "ValueError: For 'TCPStore', the argument 'world_size' must be legal, but got 0."),
    ):
        assert told(lambda given=arguments: TCPStore(*given)) == wanted
    store = TCPStore("127.0.0.1", 0, is_master=True)
    for call, arguments, wanted in (
        ("set", (3, "a"), of("key", "string", integer, "TCPStore.set")),
        ("set", ("a", 3), of("value", "string or bytes", integer, "TCPStore.set")),
        ("set", ("k" * 5000, "a"), "ValueError: TCPStore: the key has 5000 bytes; at most 4096 are possible"),
        ("get", (3,), of("key", "string", integer, "TCPStore.get")),
        ("add", (3, 3), of("key", "string", integer, "TCPStore.add")),
        ("add", ("3", "3"), of("amount", "string or int", text, "TCPStore.add")),
        ("delete_key", (3,), of("key", "string", integer, "TCPStore.delete_key")),
    ):
        assert told(lambda call=call, given=arguments: getattr(store, call)(*given)) == wanted


# --- requests that end before their answer ----------------------------------------------------------------------------


class Stop(Exception):
    """Raised by a signal handler."""


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")  # closed when it is forgotten, as is counted here
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, Stop])
def test_an_interrupted_request_leaves_no_answer_behind(error):
    """What the handler raises is raised, before whatever instruction; the next request gets its own answer."""
    store = TCPStore("127.0.0.1", 0, is_master=True)
    store.set("a", "of a")
    store.set("b", "of b")

    def handler() -> None:
        raise error("of the program")

    files = Path(tcp_store.__file__), Path(connections.__file__)
    step, raised = 1, 0
    while True:
        before = count_descriptors()
        try:
            if not sparks.run(lambda: store.get("a"), step, files, handler):
                break
        except error as e:
            assert str(e) == "of the program"
            raised += 1
        assert [store.get("b"), store.get("a")] == [b"of b", b"of a"], step
        assert count_descriptors() <= before + 4, step  # both ends of one that ends just now
        step += 3
    assert raised > 30


def test_a_signal_handler_may_ask_amid_a_request():
    store = TCPStore("127.0.0.1", 0, is_master=True)
    store.set("a", "of a")
    store.set("b", "of b")
    found = []
    files = Path(tcp_store.__file__), Path(connections.__file__)
    for step in range(1, 100, 3):
        assert sparks.run(lambda: found.append(store.get("a")), step, files, lambda: found.append(store.get("b")))
    assert sorted(set(found)) == [b"of a", b"of b"]


def test_parent_children_and_threads_get_their_own_answers():
    store = TCPStore("127.0.0.1", 0, is_master=True)
    names = [f"key {number}" for number in range(4)]
    for name in names:
        store.set(name, name)

    def ask(name: str) -> bool:
        return all(store.get(name) == name.encode() for _ in range(200))

    other = threading.Thread(target=ask, args=(names[3],))
    other.start()  # it is amid a request at the forks
    children = []
    for name in names[:2]:
        children.append(os.fork())
        if children[-1] == 0:
            os._exit(0 if ask(name) else 1)
    assert ask(names[2])
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    other.join()
    assert int(store._ask(tcp_store_master.ARRIVED, "")[1]) == 1  # children are no other stores


def test_a_store_takes_no_other_master_for_its_own(told):
    store = TCPStore("127.0.0.1", 0, is_master=True)
    other = TCPStore("127.0.0.1", store.port)
    port = store.port
    del store
    gc.collect()
    second = TCPStore("127.0.0.1", port, is_master=True)
    second.set("key", "of the second")
    for _ in range(2):
        assert told(lambda: other.get("key")).startswith("RuntimeError: TCPStore: the master at 127.0.0.1")


def test_a_child_of_the_master_does_not_hold_its_connections(told):
    """The master is killed, and its child lives: a worker learns it at once."""
    port_read, port_write = os.pipe()
    life_read, life_write = os.pipe()
    master = os.fork()
    if master == 0:
        store = TCPStore("127.0.0.1", 0, is_master=True)
        worker_is_there = threading.Event()
        threading.Thread(target=lambda: store.get("there") and worker_is_there.set()).start()
        os.write(port_write, str(store.port).encode())
        worker_is_there.wait()
        if os.fork() == 0:
            os.close(life_write)
            os.write(port_write, b"child")
            os.read(life_read, 1)
            os._exit(0)
        signal.pause()
    worker = TCPStore("127.0.0.1", int(os.read(port_read, 10)))
    worker.set("there", "1")
    assert os.read(port_read, 5) == b"child"
    os.kill(master, signal.SIGKILL)
    os.waitpid(master, 0)
    assert told(lambda: worker.get("there")).startswith("RuntimeError: TCPStore: the master at")
    for fd in (port_read, port_write, life_read, life_write):
        os.close(fd)


# --- strangers --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def strangers(port: int, number: int) -> Iterator[list[socket.socket]]:
    """Connections that send nothing, or what is not a request."""
    words = b"", b"GET / HTTP/1.1\r\n\r\n", b"S", tcp_store_master.HEADER.pack(b"S", 1, 1 << 62), os.urandom(100)
    made = []
    try:
        for index in range(number):
            made.append(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(OSError):
                made[-1].sendall(words[index % len(words)])
        yield made
    finally:
        for one in made:
            one.close()


def test_strangers_do_not_count_and_do_not_keep_a_worker_out(told):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listening = threading.Event()

    def meet() -> None:
        while not listening.is_set():
            with contextlib.suppress(OSError), strangers(port, 5):
                listening.set()

    meeting = threading.Thread(target=meet)
    meeting.start()
    assert told(lambda: TCPStore("127.0.0.1", port, 2, True, timedelta(seconds=0.5))).startswith(
        "RuntimeError: TCPStore: 1 of 2 stores have connected"
    )
    listening.set()
    meeting.join()
    gc.collect()
    store = TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    with strangers(store.port, 3 * tcp_store_master.MOST_STRANGERS):
        worker = TCPStore("127.0.0.1", store.port)
        worker.set("key", "value")
        assert store.get("key") == b"value"


def test_a_master_without_descriptors_goes_on_when_there_are_some(monkeypatch):
    store = TCPStore("127.0.0.1", 0, is_master=True)
    store.set("key", "value")
    tried = threading.Event()
    pause = time.sleep
    monkeypatch.setattr(connections.time, "sleep", lambda seconds: (tried.set(), pause(seconds)))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as ours, open(os.devnull) as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno() + 1, limits[1]))
        try:
            ours.connect(("127.0.0.1", store.port))
            assert tried.wait(PATIENCE)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert TCPStore("127.0.0.1", store.port).get("key") == b"value"


@pytest.mark.parametrize("length", [1 << 62, (1 << 30) + 1])
def test_an_answer_that_is_too_long_is_refused(told, length):
    """Before any of it is read: a program that is not a TCPStore may listen at the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(ConnectionError), listener.accept()[0] as made:
                for told in (tcp_store_master.IDENTITY, length):
                    made.recv(100)
                    made.sendall(tcp_store_master.ANSWER.pack(True, told) + bytes(16))
                made.recv(1)

        answering = threading.Thread(target=answer)
        answering.start()
        port = listener.getsockname()[1]
        assert told(lambda: TCPStore("127.0.0.1", port).get("key")) == (
            f"RuntimeError: TCPStore: the master at 127.0.0.1:{port} does not answer: its answer would have {length} "
            f"bytes: it is not a TCPStore"
        )
        gc.collect()
        answering.join()
