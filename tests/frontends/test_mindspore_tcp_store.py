"""mint.distributed.TCPStore: processes that share keys and values before they have joined a job."""

import gc
import os
import socket
import threading
import time
from datetime import timedelta
from functools import partial

import pytest

from shmcoll.mindspore.mint.distributed import TCPStore

SHORT = timedelta(seconds=0.2)


@pytest.fixture(autouse=True)
def no_threads_left():
    yield
    gc.collect()
    deadline = time.monotonic() + 10
    while any(thread.name == "shmcoll-tcp-store" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.001)


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
