"""mindspore.communication, and the process group functions of mint.distributed."""

import logging

from shmcoll.mindspore import communication, context
from shmcoll.mindspore.communication import GlobalComm
from shmcoll.mindspore.mint import distributed

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
        for backend, target in (("nccl", None), ("mccl", None), (None, "GPU"), (None, "CPU"), (None, "Abacus")):
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
        assert told(lambda ask=ask: ask("mine")) == (
            f"ValueError: For '{name}', the group 'mine' does not exist: only the world group exists in this release; "
            "use GlobalComm.WORLD_COMM_GROUP ('hccl_world_group', 'nccl_world_group', 'mccl_world_group' all mean it)."
        )
    assert not GlobalComm.INITED


def test_init_process_group(ranks, told):
    def refusals(comm) -> list[str]:
        init = distributed.init_process_group
        n, r = comm.size, comm.rank
        wrong = [
            told(lambda: init("gloo", init_method="x", store=1)),
            told(lambda: init(init_method="tcp://127.0.0.1:1", store=object())),
            told(lambda: init(init_method="tcp://127.0.0.1:1", rank=-1)),
            told(lambda: init(store=object(), world_size=n)),
            told(lambda: init(world_size=5)),
            told(lambda: init(rank=9)),
        ]
        right = [
            told(lambda: init(init_method="tcp://127.0.0.1:8118", world_size=n, rank=r)),
            told(lambda: init(store=object(), world_size=n, rank=r, group_name="any")),
            told(init),
        ]
        return [*wrong, *right, str(distributed.get_rank()), told(distributed.destroy_process_group)]

    for rank, found in enumerate(ranks(2, refusals)):
        assert found == [
            "ValueError: Only support hccl now, please setting backend to hccl or using default value",
            "ValueError: Only one of init_method and store is supported.",
            "ValueError: Specified world_size must be a positive integer.",
            "ValueError: Specified rank must be a non-negative integer.",
            "ValueError: world_size is wrong, please using default value or setting: 2",
            f"ValueError: rank is wrong, please using default value or setting: {rank}",
            *["nothing wrong: None"] * 3,
            str(rank),
            "nothing wrong: None",
        ]


def test_ignored_arguments_are_told(ranks, caplog):
    def messages(comm) -> list[str]:
        with caplog.at_level(logging.WARNING):
            distributed.init_process_group(pg_options=1, device_id=0)
        return caplog.messages

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
        "TypeError: For 'destroy_group', the argument 'group' must be type of string, "
        "but got 'group' type : <class 'int'>."
    )
    assert unknown.startswith("ValueError: For 'destroy_group', the group 'mine' does not exist")
