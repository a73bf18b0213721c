"""Timelines of profiles that are made up here: what a viewer finds in the file, to the nanosecond."""

import errno
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from shmcoll.profiling import timeline
from shmcoll.profiling.spans import CALL, FRONT_END, MESSAGE, PART, RANGE, WORKER, RankProfile, Span
from tests.support.trace_events import load, read

MS = 1_000_000
ALL = (0, 1, 2)


def span(rank: int, begin: int, end: int, name: str = "all_reduce", **more: Any) -> Span:
    given: dict[str, Any] = {
        "node": 0,
        "group": ALL,
        "thread": 0,
        "kind": CALL,
        "communicator": 1,
        "words": f"{name}(float32[2], sum)",
    }
    return Span(rank=rank, begin=begin, end=end, name=name, **given | more)


def text(*profiles: RankProfile) -> str:
    return "".join(timeline.text(profiles))


def profile(rank: int, *spans: Span, **more: Any) -> RankProfile:
    return RankProfile(rank, spans=list(spans), begun=1 * MS, ended=100 * MS, **more)


def test_a_late_rank_points_at_those_that_it_held_up() -> None:
    found = read(
        text(
            profile(0, span(0, 2 * MS, 9 * MS, waited=5 * MS + 500, last=2, sequence=1, bytes=8)),
            profile(1, span(1, 7 * MS - 9_000, 9 * MS, waited=9_000, last=2, sequence=1, bytes=8)),
            profile(2, span(2, 7 * MS, 9 * MS, sequence=1, bytes=8)),
        )
    )
    assert found.ranks == {0: "rank 0", 1: "rank 1", 2: "rank 2"}
    call, waiting = found.on(0)
    assert (call["name"], call["ts"], call["dur"]) == ("all_reduce", 1000, 7000)
    assert call["args"] == {
        "call": "all_reduce(float32[2], sum)", "bytes": 8, "sequence": 1, "waited_us": Decimal("5000.5"),
        "moving_us": Decimal("1999.5"),
    }  # fmt: skip
    assert (waiting["name"], waiting["ts"], waiting["dur"]) == ("waiting", 1000, Decimal("5000.5"))
    assert waiting["args"] == {"came_last": 2}
    # 9 us are not worth an arrow: ranks never arrive together
    ((name, source, target),) = found.arrows
    assert (name, source, target) == ("came last", found.on(2)[0], waiting)


def test_a_rank_that_had_left_was_not_held_up() -> None:
    """Rank 1 left the broadcast, whose root was late, before rank 2 had come."""
    call = {"name": "broadcast", "sequence": 4}
    found = read(
        text(
            profile(0, span(0, 30 * MS, 31 * MS, **call)),
            profile(1, span(1, 10 * MS, 32 * MS, waited=20 * MS, **call)),
            profile(2, span(2, 60 * MS, 61 * MS, **call)),
        )
    )
    assert found.joined("came last") == [(0, 1)]


def test_messages_are_joined_and_lost_halves_are_not() -> None:
    message = {"kind": MESSAGE, "tag": 5}
    found = read(
        text(
            profile(
                0,
                span(0, 20 * MS, 21 * MS, "send", peer=1, sends=True, message=77, **message),
                span(0, 30 * MS, 31 * MS, "send", peer=1, sends=True, message=78, **message),
                span(0, 50 * MS, 51 * MS, "send", peer=1, sends=True, message=80, **message),
            ),
            profile(
                1,
                span(1, 10 * MS, 22 * MS, "recv", peer=0, message=77, waited=10 * MS + 1, **message),
                span(1, 40 * MS, 41 * MS, "recv", peer=0, message=79, **message),
                span(1, 42 * MS, 43 * MS, "recv", peer=0, message=80, **message),  # the clocks of two nodes disagree
            ),
        )
    )
    ((_, sent, received),) = found.arrows
    assert (sent, received) == (found.named("send")[0], found.named("waiting", 1)[0])
    assert sent["args"] == {"call": "send(float32[2], sum)", "to_rank": 1, "tag": 5}
    assert found.named("recv")[0]["args"]["from_rank"] == 0


def test_tracks() -> None:
    """Ranges and front ends stand before groups, larger groups before smaller ones, a worker has its own track."""
    free = {"group": (), "words": ""}
    found = read(
        text(
            profile(
                0,
                span(0, 12 * MS, 13 * MS, group=(0, 2), sequence=1),
                span(0, 14 * MS, 15 * MS, sequence=1),
                span(0, 14 * MS, 19 * MS, sequence=2, thread=WORKER),
                span(0, 16 * MS, 17 * MS, sequence=1, thread=3, group=tuple(range(1, 21))),
                span(0, 14 * MS, 15 * MS, "torch.distributed.all_reduce", kind=FRONT_END, **free),
                span(0, 11 * MS, 18 * MS, 'step "7"\udce9', kind=RANGE, **free),
                node=0,
            ),
            profile(1, span(1, 12 * MS, 13 * MS), node=1, accuracy=1200),
            profile(2, node=1, dropped=12345, accuracy=900),
        )
    )
    assert found.ranks == {0: "rank 0 (node 0)", 1: "rank 1 (node 1)", 2: "rank 2 (node 1)"}
    assert [name for (rank, _), name in sorted(found.tracks.items()) if rank == 0] == [
        "program", "group of 20 ranks, 1 to 20: thread 3", "ranks 0, 1, 2", "ranks 0, 1, 2: asynchronous", "ranks 0, 2",
    ]  # fmt: skip
    assert [s["name"] for s in found.on(0, "program")] == ['step "7"\udce9', "torch.distributed.all_reduce"]
    assert found.about["dropped"] == {"2": 12345} and found.labels == {2: "12,345 earlier calls are not here"}
    assert found.about["clocks_differ_by_at_most_ns"] == 1200


def test_a_call_waits_in_its_parts() -> None:
    """The waiting of the whole is not drawn once more. An arrow leads to a part."""
    parts = [{"kind": PART, "sequence": number, "name": "broadcast"} for number in (1, 2)]
    found = read(
        text(
            profile(
                0,
                span(0, 2 * MS, 9 * MS, "broadcast_object", waited=4 * MS),
                span(0, 3 * MS, 6 * MS, waited=2 * MS, **parts[0]),
                span(0, 6 * MS, 9 * MS, waited=2 * MS, **parts[1]),
            ),
            profile(1, span(1, 4 * MS, 6 * MS, **parts[0])),
        )
    )
    names = [s["name"] for s in found.named("broadcast_object")] + [s["name"] for s in found.on(0)]
    assert names[1:] == ["broadcast_object", "broadcast", "waiting", "broadcast", "waiting"]
    assert found.joined("came last") == [(1, 0)]


def test_communicators_of_the_same_ranks_do_not_meet() -> None:
    calls = {"sequence": 1, "waited": 3 * MS}
    found = read(
        text(
            profile(0, span(0, 2 * MS, 9 * MS, **calls), span(0, 12 * MS, 19 * MS, communicator=7, **calls)),
            profile(1, span(1, 5 * MS, 9 * MS, communicator=7, sequence=1)),
        )
    )
    assert found.arrows == []
    assert {name for (rank, _), name in found.tracks.items() if rank == 0} == {
        "all ranks", "all ranks (communicator 7)",
    }  # fmt: skip


def test_ends_that_the_clock_has_confused_are_mended() -> None:
    found = read(
        text(
            profile(
                0,
                span(0, 10, 1000, "outer", kind=RANGE),
                span(0, 500, 1001, "inner", kind=RANGE),
                span(0, 2000, 1999, "backwards", kind=RANGE),
                span(0, 3000, 3100, waited=101),
            )
        )
    )
    assert [s["dur"] for s in found.on(0, "program")] == [Decimal("0.990"), Decimal("0.500"), 0]


def test_nobody_has_recorded_anything() -> None:
    assert read(text()).slices == {}
    assert read(text(profile(0))).ranks == {0: "rank 0"}


def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "there.json"
    path.symlink_to("place.json")
    timeline.write(str(path), [profile(0, span(0, 2 * MS, 3 * MS))])
    assert path.is_symlink() and len(load(path).named("all_reduce")) == 1

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(timeline, "_slice", full)
    with pytest.raises(OSError, match="No space left"):
        timeline.write(str(path), [profile(0, span(0, 2 * MS, 3 * MS))])
    assert {one.name for one in tmp_path.iterdir()} == {"place.json", "there.json"} and len(
        load(path).named("all_reduce")
    ) == 1


def test_a_link_of_somebody_else_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened as it is, and the kernel decides; nothing is put in the place of what it names."""
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "t.json").symlink_to("mine")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(Path, "lstat", lambda self: os.stat_result((0o120777, 1, 1, 1, 4712, 0, 0, 0, 0, 0)))
    inode = (tmp_path / "mine").stat().st_ino
    timeline.write(str(tmp_path / "t.json"), [])
    assert (tmp_path / "mine").stat().st_ino == inode


def test_links_in_a_circle_and_a_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    timeline.write(str(tmp_path / "a"), [profile(0)])
    assert any(one.is_file() and load(one).ranks for one in tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        timeline.write(str(tmp_path / "gone/t.json"), [])


def test_compressed(tmp_path: Path) -> None:
    timeline.write(str(tmp_path / "t.json.gz"), [profile(0, span(0, 2 * MS, 3 * MS))])
    assert len(load(tmp_path / "t.json.gz").named("all_reduce")) == 1


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    timeline.write(str(tmp_path / "pipe"), [profile(0)])
    assert json.loads(os.read(reader, 1 << 16))["traceEvents"]
    os.close(reader)
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]
