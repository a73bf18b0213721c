"""mindspore.communication, and the process group functions of mint.distributed."""

import logging
import os
import subprocess
import sys

import pytest

from shmcoll.mindspore import communication, context
from shmcoll.mindspore.communication import GlobalComm
from shmcoll.mindspore.mint import distributed
from tests.support.patience import PATIENCE

NOT_INITED = (
    "RuntimeError: Distributed Communication has not been inited."
    "You can't invoke this interface yet. Please call `init()` method first."
)
QUERIES = {
    "get_rank": communication.get_rank,
    "get_group_size": communication.get_group_size,
    "get_local_rank": communication.get_local_rank,
    "get_local_rank_size": communication.get_local_rank_size,
}


def asked() -> list[int]:
    return [ask() for ask in QUERIES.values()]


def test_before_init_the_environment_answers(monkeypatch):
    for name in ("RANK_ID", "RANK_SIZE", "LOCAL_RANK", "LOCAL_RANK_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert asked() == [0, 1, 0, 1]
    assert (distributed.get_rank(), distributed.get_world_size()) == (0, 1)
    for name, value in (("RANK_ID", "5"), ("RANK_SIZE", "8"), ("LOCAL_RANK", "3"), ("LOCAL_RANK_SIZE", "4")):
        monkeypatch.setenv(name, value)
    assert asked() == [5, 8, 3, 4]
    assert (distributed.get_rank(), distributed.get_world_size()) == (5, 8)


def test_init_sets_what_the_launcher_has_not_set(ranks, monkeypatch):
    for name in ("RANK_ID", "RANK_SIZE", "DEVICE_ID"):
        monkeypatch.delenv(name, raising=False)

    def environment(comm) -> list[str]:
        if comm.rank == 0:
            os.environ["DEVICE_ID"] = "5"
        communication.init()
        return [os.environ[name] for name in ("RANK_ID", "RANK_SIZE", "DEVICE_ID")]

    assert ranks(2, environment) == [["0", "2", "5"], ["1", "2", "1"]]


def test_unknown_groups(ranks, told):
    """mint's get_rank and get_world_size return -1 instead of raising."""

    def run(comm) -> list:
        communication.init()
        ask = [*QUERIES.values(), communication.get_comm_name, communication.get_process_group_ranks]
        found = {told(lambda one=one: one("mine")) for one in ask}
        return [found, distributed.get_rank("mine"), distributed.get_world_size("mine"), communication.get_comm_name()]

    refusal = "RuntimeError: The group mine does not exist. Rank 0 has: hccl_world_group; create_group makes one."
    assert ranks(1, run) == [[{refusal}, -1, -1, "world"]]


def test_names_of_new_groups(ranks, told):
    def run(comm) -> list:
        distributed.init_process_group()
        new = distributed.new_group
        return [
            new([1, 0]),
            new([0, 1], backend="mccl"),
            new(),
            new([0, 9]),
            *(
                told(call)
                for call in (
                    lambda: new((0, 1)),
                    lambda: new([0], backend="gloo"),
                    lambda: new([0], pg_options=1),
                    lambda: new([]),
                    lambda: new([0, 0]),
                    lambda: distributed.get_global_rank(None, "5"),
                    lambda: distributed.get_global_rank(3, 5),
                    lambda: distributed.get_group_rank(None, "5"),
                    lambda: distributed.get_group_rank("mine", 5),
                    lambda: distributed.get_backend(3),
                )
            ),
            distributed.get_global_rank(None, 5),
            distributed.get_group_rank(None, 5),
            [distributed.get_backend(one) for one in (None, "my_mccl", "mine")],
        ]

    digest, other = "30879612a0f2eb969a8b57e5bc857347e88fdf07", "b97094b56f0e21151085fe3cd1636cbd0b0bc48b"
    found = ranks(2, run)[0]
    assert found == [
        f"hccl_2_{digest}",  # as MindSpore 2.10 names it
        f"mccl_2_{digest}",
        "hccl_world_group",
        "",
        "TypeError: ranks must be list, but got <class 'tuple'>",
        "TypeError: the input backend must be hccl or mccl, but got gloo",
        "TypeError: pg_options must be type GroupOptions, but got <class 'int'>",
        "ValueError: For 'create_group', the argument 'rank_ids' size should be greater than 1, but got 'rank_ids' "
        "size : 0.",
        f"ValueError: List rank_ids in Group hccl_2_{other} has duplicate data!",
        "TypeError: The group_rank argument must be integer, but got <class 'str'>.",
        "TypeError: For 'get_global_rank', the argument 'group' must be type of string or None, but got 'group' type : "
        "<class 'int'>.",
        "TypeError: The global_rank argument must be integer, but got <class 'str'>.",
        "KeyError: \"For 'get_group_rank_from_world_rank_from_cache', the argument 'group' is not found in "
        "GROUP_RANKS, 'group' : mine, 'world_rank_id' : 5\"",
        "TypeError: For 'get_backend', the argument 'group' must be type of string or None, but got 'group' type : "
        "<class 'int'>.",
        5,
        5,
        ["hccl", "mccl", "hccl"],
    ]


@pytest.mark.slow
def test_processes_without_a_launcher_join_by_address():
    """Two processes that only name an address, their number and the number of ranks."""
    program = (
        "import sys; from shmcoll.mindspore.mint import distributed as d; from shmcoll.mindspore import Tensor\n"
        f"d.init_process_group(init_method='tcp://127.0.0.1:{10000 + os.getpid() % 50000}', world_size=2, "
        "rank=int(sys.argv[1]), group_name='mine')\n"
        "x = Tensor([1.0 + d.get_rank('mine')]); d.all_reduce(x); print(float(x.asnumpy()[0]))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(rank)], env=environment, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    assert [process.communicate(timeout=PATIENCE)[0] for process in processes] == ["3.0\n"] * 2


def test_old_import_paths():
    from shmcoll.mindspore.communication import management
    from shmcoll.mindspore.mint.distributed import distributed as module

    assert all(getattr(management, name) is getattr(communication, name) for name in management.__all__)
    assert all(getattr(module, name) is getattr(distributed, name) for name in distributed.__all__)
    assert callable(communication.comm_func.all_reduce)


def test_after_init_the_job_answers(ranks, monkeypatch):
    monkeypatch.setenv("RANK_ID", "77")

    def states(comm) -> list:
        before = communication.get_rank()
        communication.init()
        communication.init()
        inside = [asked(), distributed.get_rank(), distributed.get_world_size("nccl_world_group"), GlobalComm.INITED]
        communication.release()
        return [before, *inside, communication.get_rank(), GlobalComm.INITED]

    assert ranks(3, states) == [[77, [r, 3, r, 3], r, 3, True, 77, False] for r in range(3)]


def test_backends_name_the_world(ranks):
    def names(comm) -> list:
        found = []
        for backend, target in (("nccl", None), ("mccl", None), (None, "GPU"), (None, "CPU"), (None, "Davinci")):
            if target:
                context.set_context(device_target=target)
            communication.init(backend)
            found.append((GlobalComm.BACKEND, GlobalComm.WORLD_COMM_GROUP))
        sizes = [communication.get_group_size(f"{name}_world_group") for name in ("hccl", "nccl", "mccl")]
        return [*[backend for backend, world in found if world == f"{backend}_world_group"], *sizes]

    assert ranks(2, names) == [["nccl", "mccl", "nccl", "mccl", "hccl", 2, 2, 2]] * 2


def test_wrong_arguments(told):
    assert told(lambda: communication.init(3)) == (
        "TypeError: For 'init', the argument 'backend_name' must be a string, but got the type : <class 'int'>"
    )
    assert told(lambda: communication.init("x")) == (
        "RuntimeError: For 'init', the argument 'backend_name' must be one of 'hccl', 'nccl' and 'mccl', "
        "but got 'backend_name' : x"
    )
    for name, ask in {**QUERIES, "get_world_size": distributed.get_world_size}.items():
        assert told(lambda ask=ask: ask(3)) == (
            f"TypeError: For '{name}', the argument 'group' must be type of string, "
            "but got 'group' type : <class 'int'>."
        )
    assert not GlobalComm.INITED


def test_init_process_group(ranks, told):
    def refusals(comm) -> list[str]:
        init = distributed.init_process_group
        n, r = comm.size, comm.rank
        store = distributed.TCPStore("127.0.0.1", 0, is_master=True)
        wrong = [
            told(lambda: init("gloo", init_method="x")),
            told(lambda: init(init_method="tcp://127.0.0.1:1", store=store)),
            told(lambda: init(init_method="tcp://127.0.0.1:1", rank=-1)),
            told(lambda: init(init_method="tcp://127.0.0.1:1", world_size=n)),
            told(lambda: init(init_method="tcp://127.0.0.1:0", world_size=n, rank=r)),
            told(lambda: init(store=object())),
            told(lambda: init(world_size="2")),
            told(lambda: init(world_size=5)),
            told(lambda: init(rank=9)),
        ]
        inited = [str(GlobalComm.INITED)]
        right = [
            told(lambda: init(init_method="tcp://127.0.0.1:8118", world_size=n, rank=r)),
            told(lambda: init(store=store, world_size=n, rank=r, group_name="any")),
            told(init),
        ]
        return [*wrong, *inited, *right, str(distributed.get_rank()), told(distributed.destroy_process_group)]

    for rank, found in enumerate(ranks(2, refusals)):
        assert found == [
            "ValueError: Only support hccl now, please setting backend to hccl or using default value",
            "ValueError: Only one of init_method and store is supported.",
            "ValueError: Specified world_size must be a positive integer.",
            "ValueError: Specified rank must be a non-negative integer.",
            "RuntimeError: Failed to parse TCP URL from 'init_method': tcp://127.0.0.1:0; it must be tcp://IPv4:port, "
            "with a port from 1 to 65535",
            "TypeError: The parameter 'store' must be <class 'shmcoll.mindspore.mint.distributed.tcp_store.TCPStore'>, "
            "but got <class 'object'>",
            "TypeError: The parameter 'world_size' must be <class 'int'>, but got <class 'str'>",
            "ValueError: world_size is wrong, please using default value or setting: 2",
            f"ValueError: rank is wrong, please using default value or setting: {rank}",
            "False",
            *["nothing wrong: None"] * 3,
            str(rank),
            "nothing wrong: None",
        ]


def test_ignored_arguments_are_told(ranks):
    def messages(comm) -> list[str]:
        told: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: told.append(record.getMessage())
        logging.getLogger("shmcoll").addHandler(handler)
        distributed.init_process_group(pg_options=1, device_id=0)
        return told

    assert ranks(1, messages) == [
        ["pg_options is ignored, setting is invalid", "device_id is ignored, setting is invalid"]
    ]


def test_destroy_process_group(ranks, told):
    def refusals(comm) -> list[str]:
        destroy = distributed.destroy_process_group
        before = told(destroy)
        distributed.init_process_group()
        wrong = [told(lambda: destroy(3)), told(lambda: destroy("mine"))]
        return [before, *wrong, told(lambda: destroy("hccl_world_group")), told(destroy)]

    first, not_a_string, unknown, fine, again = ranks(1, refusals)[0]
    assert (first, again, fine) == (NOT_INITED, NOT_INITED, "nothing wrong: None")
    assert not_a_string == (
        "TypeError: For 'destroy_group', the argument 'group' must be type of string or None, "
        "but got 'group' type : <class 'int'>."
    )
    assert unknown == "KeyError: 'mine'"
