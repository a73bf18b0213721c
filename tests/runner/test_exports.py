"""The names of `shmcoll` for callers of ranks."""

import shmcoll


def test_they_are_listed_in_order() -> None:
    names = ["map", "ranks", "run", "shared", "Ranks"]
    assert [name for name in names if name not in dir(shmcoll)] == []
    assert dir(shmcoll) == sorted(dir(shmcoll))
    assert shmcoll.__all__ == sorted(shmcoll.__all__)


def test_a_star_import_leaves_the_builtin_map_alone() -> None:
    names: dict[str, object] = {}
    exec("from shmcoll import *", names)
    assert "map" not in names
    assert {"run", "ranks", "shared", "Ranks"} <= names.keys()
