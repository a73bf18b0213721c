"""The thresholds of a job: what goes before what, and which files are believed."""

import json
import os
import stat
from pathlib import Path

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import thresholds
from shmcoll.engine.memory.thresholds import Thresholds, defaults, known, of_job

USUAL = Thresholds()
CROWDED = Thresholds(flat_bytes=32 << 10, ring_bytes=48 << 10, direct_bytes=256 << 10, exchange_bytes=256 << 10)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path) -> Path:
    """A cache of its own, from which thresholds are read."""
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SHMCOLL_TUNING")
    monkeypatch.setattr(thresholds, "last_level_caches", list)
    return tmp_path


def test_without_a_file_the_defaults_hold(caplog):
    assert of_job(2, 2) == defaults(2, 2) == USUAL
    assert of_job(3, 2) == defaults(3, 2) == CROWDED
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("ranks", "caches", "expected"),
    [
        (2, [32 << 20], 8 << 20),
        (8, [32 << 20], 2 << 20),
        (64, [32 << 20], 256 << 10),  # not less
        (4, [32 << 20] * 8, 16 << 20),  # one each
        (16, [32 << 20] * 8, 8 << 20),  # one for two
        (2, [], 2 << 20),  # Linux does not say
    ],
)
def test_results_that_fill_an_eighth_of_the_caches_are_streamed(monkeypatch, ranks, caches, expected):
    monkeypatch.setattr(thresholds, "last_level_caches", lambda: caches)
    assert of_job(ranks, 100).stream_bytes == expected


def test_what_was_measured_for_so_many_ranks_holds_for_them_alone():
    thresholds.keep(4, {"flat_bytes": 65536, "ring_bytes": 128})
    thresholds.keep(2, {"stream_bytes": 4 << 20})
    thresholds.keep(8, {})
    assert known() == {2: {"stream_bytes": 4 << 20}, 4: {"flat_bytes": 65536, "ring_bytes": 128}, 8: {}}
    assert of_job(4, 2) == CROWDED._replace(flat_bytes=65536, ring_bytes=128)
    assert of_job(2, 2) == Thresholds(stream_bytes=4 << 20)
    assert of_job(8, 2) == defaults(8, 2)
    assert of_job(3, 4) == USUAL


def test_the_arena_tells_them_to_all_ranks():
    thresholds.keep(2, {"flat_bytes": 65536, "stream_bytes": 1 << 20, "ring_bytes": 1280})
    arena = arenas.create(2, timeout=1)
    try:
        words = layout.JOB_FLAT_BYTES, layout.JOB_STREAM_BYTES, layout.JOB_RING_BYTES, layout.JOB_SLICE_BYTES
        assert [arena.load(word) for word in words] == [65536, 1 << 20, 1280, USUAL.slice_bytes]
    finally:
        arena.close()


def test_the_environment_goes_before_the_file(monkeypatch):
    thresholds.keep(2, {"flat_bytes": 65536, "stream_bytes": 1 << 20})
    monkeypatch.setenv("SHMCOLL_FLAT_BYTES", "1000")
    assert of_job(2, 2) == Thresholds(flat_bytes=1024, stream_bytes=1 << 20)
    monkeypatch.setenv("SHMCOLL_TUNING", "0")
    assert of_job(2, 2) == Thresholds(flat_bytes=1024)


def test_lines_of_the_cache_are_not_shared():
    thresholds.keep(2, {"flat_bytes": 65537})
    assert of_job(2, 2).flat_bytes == 65536 + layout.LINE


@pytest.mark.parametrize(
    "damage",
    [
        lambda told: "",
        lambda told: "{",
        lambda told: "[]",
        lambda told: "\0" * 100,
        lambda told: "{}",
        lambda told: json.dumps(told | {"thresholds": [2]}),
        lambda told: json.dumps(told | {"thresholds": {"2": [1]}}),
        lambda told: json.dumps(told | {"thresholds": {"two": {}}}),
        lambda told: json.dumps(told | {"thresholds": {"2": {"flat_bytes": 0}}}),
        lambda told: json.dumps(told | {"thresholds": {"2": {"flat_bytes": True}}}),
        lambda told: json.dumps(told | {"thresholds": {"2": {"flat_bytes": "64K"}}}),
        lambda told: json.dumps(told | {"thresholds": {"2": {"flat_bytes": 1 << 62}}}),
        lambda told: json.dumps(told | {"thresholds": {"2": {"slice_bytes": 4096}}}),
        lambda told: json.dumps(told | {"thresholds": {"2": {"fat_bytes": 4096}}}),
    ],
)
def test_a_damaged_file_is_told_and_ignored_and_replaced(caplog, damage):
    path = thresholds.keep(2, {"flat_bytes": 65536})
    path.write_text(damage(json.loads(path.read_text())))
    assert of_job(2, 2) == USUAL
    (line,) = caplog.messages
    assert line.startswith(f"ignored {path}: it is damaged (")
    assert line.endswith("`shmbench tune` measures anew")
    thresholds.keep(8, {"ring_bytes": 4096})
    assert known() == {8: {"ring_bytes": 4096}}


def test_bytes_that_are_no_text_are_damage_too(caplog):
    thresholds.keep(2, {"flat_bytes": 65536}).write_bytes(b"\xff\xfe")
    assert of_job(2, 2) == USUAL
    assert "it is damaged (JSONDecodeError)" in caplog.text


@pytest.mark.parametrize("fact", ["processor", "cores", "layout"])
def test_a_file_from_another_machine_is_told_and_ignored(caplog, fact):
    path = thresholds.keep(2, {"flat_bytes": 65536})
    told = json.loads(path.read_text())
    told["machine"][fact] = "another"
    path.write_text(json.dumps(told))
    assert of_job(2, 2) == USUAL
    assert f"ignored {path}: it was measured on {told['machine']}" in caplog.text


def test_machines_that_share_a_folder_have_a_file_each(monkeypatch):
    here = thresholds.keep(2, {"flat_bytes": 65536})
    monkeypatch.setattr(thresholds, "usable_cores", lambda: 77)
    assert of_job(2, 77) == USUAL
    assert thresholds.keep(2, {"flat_bytes": 4096}) != here
    assert thresholds.machine()["cores"] == 77


def test_the_processor_has_a_name():
    assert thresholds.machine()["processor"]


def test_a_file_that_others_may_write_is_told_and_ignored(caplog):
    path = thresholds.keep(2, {"flat_bytes": 65536})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o620)
    assert of_job(2, 2) == USUAL
    assert f"ignored {path}: others may write {path} (mode 620)" in caplog.text


def test_a_file_of_somebody_else_is_told_and_ignored(monkeypatch, caplog, folder):
    path = thresholds.keep(2, {"flat_bytes": 65536})
    monkeypatch.setattr(thresholds, "cache_folder", lambda: folder)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert of_job(2, 2) == USUAL
    assert f"{path} belongs to uid {os.getuid()}, not to uid 4711" in caplog.text


def test_a_folder_that_others_may_write_is_not_read(folder):
    thresholds.keep(2, {"flat_bytes": 65536})
    folder.chmod(0o777)
    assert of_job(2, 2) == USUAL
    with pytest.raises(PermissionError, match="others may write"):
        thresholds.keep(2, {})


def test_a_full_disk_leaves_what_there_was(monkeypatch, folder):
    thresholds.keep(2, {"flat_bytes": 65536})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        thresholds.keep(2, {})
    assert known() == {2: {"flat_bytes": 65536}}
    assert len(list(folder.iterdir())) == 1


def test_forgetting():
    assert not thresholds.forget()
    thresholds.keep(2, {"flat_bytes": 65536})
    assert thresholds.forget()
    assert of_job(2, 2) == USUAL
