"""torch's own analyser reads the flight recorder: `torchfrtrace`."""

import logging
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed.flight_recorder.components.fr_logger import FlightRecorderLogger  # noqa: E402
from torch.distributed.flight_recorder.fr_trace import main as analyse  # noqa: E402

import shmcoll.torch  # noqa: E402
from shmcoll.errors import CollectiveMismatch, CollectiveTimeout  # noqa: E402
from tests.support.waiting import until_ended  # noqa: E402


def begin(comm: Any, store: Path, seconds: float = 20) -> None:
    dist.init_process_group(
        "shmcoll",
        store=dist.FileStore(str(store), comm.size), rank=comm.rank, world_size=comm.size,
        timeout=timedelta(seconds=seconds),
    )  # fmt: skip


def analysed(folder: Path, caplog: Any) -> Any:
    """Return the analyser's database, and what it printed."""
    logger = FlightRecorderLogger().logger
    logger.propagate = True
    with caplog.at_level(logging.INFO):
        analyse([str(folder), "-o", str(folder / "database")])
    with open(folder / "database", "rb") as file:
        return pickle.load(file)[1], caplog.text


def all_goes_well(comm: Any, store: Path, folder: Path) -> Any:
    begin(comm, store)
    size, rank = comm.size, comm.rank
    group = dist.new_group()
    for _ in range(30):  # more than the recorder keeps
        dist.barrier()
    x, blocks = torch.ones(6), torch.ones(6 * size)
    dist.all_reduce(x)
    dist.all_gather_single(blocks, x)
    dist.reduce_scatter_single(x, blocks)
    dist.all_to_all_single(torch.ones(6 * size), blocks)
    dist.broadcast(x, 1)
    dist.gather(x, [torch.ones(6) for _ in range(size)] if rank == 0 else None, 0)
    dist.scatter(x, [torch.ones(6) for _ in range(size)] if rank == 0 else None, 0, group=group)
    dist.reduce(x, 0, group=group)
    dist.all_to_all_single(torch.ones(2 * size), torch.ones(2 * size), [2] * size, [2] * size, group=group)
    shmcoll.torch.backend_of(group).comm.scan(x.numpy())  # not an operation of torch
    comm.barrier()  # all ranks have left their calls
    files = shmcoll.torch.write_flight_records(folder) if rank == 0 else []
    comm.barrier()
    dist.destroy_process_group()
    return [file.name for file in files]


def test_calls_that_match_are_found_to_match(ranks: Any, tmp_path: Path, caplog: Any) -> None:
    folder = tmp_path / "records"
    names, _, _ = ranks(3, all_goes_well, tmp_path / "store", folder)
    assert names == ["rank_0", "rank_1", "rank_2"]
    database, text = analysed(folder, caplog)
    assert len(database.groups) == 2 and all(one.pass_check for one in database.collectives), text
    found = [one.collective_name for one in database.collectives]
    for name in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "broadcast",
        "gather",
        "scatter",
        "reduce",
    ):
        assert f"gloo:{name}" in found
    assert "gloo:coalesced" in found and "gloo:barrier" in found


def ranks_disagree(comm: Any, store: Path, folder: Path) -> Any:
    begin(comm, store)
    dist.barrier()
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(3 + comm.rank))
    comm.barrier()
    if comm.rank == 0:
        shmcoll.torch.write_flight_records(folder)
    return shmcoll.torch.backend_of().get_error().name


def test_calls_that_differ_are_found(ranks: Any, tmp_path: Path, caplog: Any) -> None:
    folder = tmp_path / "records"
    assert ranks(2, ranks_disagree, tmp_path / "store", folder) == ["COMM_ERROR"] * 2
    database, text = analysed(folder, caplog)
    wrong = [one for one in database.collectives if not one.pass_check]
    assert len(wrong) == 1 and wrong[0].collective_name == "gloo:all_reduce"
    assert "SIZE_OR_SYNTAX_MISMATCH" in text


def a_rank_is_missing(comm: Any, store: Path, folder: Path, board: Any) -> Any:
    begin(comm, store, 0.3)
    dist.barrier()
    if comm.rank == 1:
        comm.barrier()
        return shmcoll.torch.backend_of().get_error().name
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(3))
    shmcoll.torch.write_flight_records(folder)
    comm.barrier()
    return shmcoll.torch.backend_of().get_error().name


def test_a_rank_that_has_not_come_is_found(ranks: Any, tmp_path: Path, board: Any, caplog: Any) -> None:
    folder = tmp_path / "records"
    assert ranks(2, a_rank_is_missing, tmp_path / "store", folder, board) == ["TIMEOUT"] * 2
    _, text = analysed(folder, caplog)
    assert "missing ranks: {1}" in text and "gloo:all_reduce" in text


def a_rank_is_late(comm: Any) -> None:
    comm.barrier()
    comm.timeout = 0.3
    if comm.rank == 1:
        until_ended(comm)
        return
    with pytest.raises(CollectiveTimeout):
        comm.all_reduce(np.ones(3, np.float32))


def ranks_differ_in_a_group(comm: Any) -> None:
    group = comm.subgroup([1, 2]) if comm.rank else None
    comm.barrier()
    if group:
        with pytest.raises(CollectiveMismatch):
            group.all_reduce(np.ones(2 + comm.rank))
    comm.barrier()


def test_what_is_kept_of_a_failure_is_found(
    ranks: Any, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SHMCOLL_DUMP, in a program without torch."""
    monkeypatch.setenv("SHMCOLL_DUMP", str(tmp_path))
    ranks(2, a_rank_is_late)
    (folder,) = tmp_path.iterdir()
    _, text = analysed(folder, caplog)
    assert "missing ranks: {1}" in text and "gloo:all_reduce" in text and "a_rank_is_late" in text


def test_a_group_that_differs_is_found(
    ranks: Any, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHMCOLL_DUMP", str(tmp_path))
    ranks(3, ranks_differ_in_a_group)
    (folder,) = tmp_path.iterdir()
    database, text = analysed(folder, caplog)
    assert "SIZE_OR_SYNTAX_MISMATCH" in text
    assert sorted(one.size for one in database.groups) == [2, 3]


def test_it_wants_a_group(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has not been initialized"):
        shmcoll.torch.write_flight_records(tmp_path)
