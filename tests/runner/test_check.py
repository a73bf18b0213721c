"""The check of buffers (SHMCOLL_CHECK) in ranks of `shmcoll.run`, which get the environment of the caller."""

import shmcoll


def is_on() -> bool:
    from shmcoll.calls import buffer_check

    return buffer_check.is_on()


def test_the_variable_turns_it_on(monkeypatch):
    monkeypatch.setenv("SHMCOLL_CHECK", "1")
    assert shmcoll.run(is_on, 2) == [True, True]
    monkeypatch.delenv("SHMCOLL_CHECK")
    assert shmcoll.run(is_on, 2) == [False, False]
