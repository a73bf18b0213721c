"""The check of buffers (SHMCOLL_CHECK) in ranks of `shmcoll.run`, which get the environment of the caller."""

import shmcoll


def is_on() -> bool:
    return shmcoll.init()._dispatcher.checks_buffers


def test_the_variable_turns_it_on(monkeypatch):
    monkeypatch.setenv("SHMCOLL_CHECK", "1")
    assert shmcoll.run(is_on, 2) == [True, True]
    monkeypatch.delenv("SHMCOLL_CHECK")
    assert shmcoll.run(is_on, 2) == [False, False]
