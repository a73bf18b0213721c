"""What Linux says about the last-level caches, read from folders as in /sys."""

import os

from shmcoll.engine.system import caches


def machine(monkeypatch, folder, cores: dict[int, dict[int, tuple[str, str]]]) -> None:
    """Write {core: {level: (size, cores that share it)}} as Linux does, and use all these cores."""
    for core, levels in cores.items():
        for index, (level, (size, sharers)) in enumerate(levels.items()):
            place = folder / f"cpu{core}" / "cache" / f"index{index}"
            place.mkdir(parents=True)
            for name, text in {"level": str(level), "size": size, "shared_cpu_list": sharers}.items():
                (place / name).write_text(text + "\n")
    monkeypatch.setattr(caches, "CPUS", folder)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(cores))


def test_each_cache_counts_once(monkeypatch, tmp_path):
    near = {1: ("32K", "0"), 2: ("1024K", "0")}
    shared = {core: near | {3: ("32M", "0-1,4")} for core in (0, 1, 4)}
    machine(monkeypatch, tmp_path, shared | {core: near | {3: ("16384K", "2-3")} for core in (2, 3)})
    assert caches.last_level_caches() == [32 << 20, 16 << 20]


def test_cores_that_this_process_may_not_use_do_not_count(monkeypatch, tmp_path):
    machine(monkeypatch, tmp_path, {5: {2: ("2048K", "4-5"), 1: ("32K", "5")}})
    assert caches.last_level_caches() == [2 << 20]


def test_without_a_word_from_linux_there_is_no_answer(monkeypatch, tmp_path):
    for text in ("", "much", "12", "1T"):
        machine(monkeypatch, tmp_path / f"with-{text}", {0: {3: (text, "0")}})
        assert caches.last_level_caches() == []
    monkeypatch.setattr(caches, "CPUS", tmp_path / "missing")
    assert caches.last_level_caches() == []


def test_this_machine():
    assert all(size > 0 for size in caches.last_level_caches())
