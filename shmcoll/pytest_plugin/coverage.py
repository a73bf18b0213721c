"""Coverage in ranks. coverage.py measures a fork like its parent, but the fork leaves its data unsaved. So a rank
begins a measurement of its own, with the settings of the one in pytest's process, and saves it beside that. pytest-cov,
and `coverage combine`, add up all that is there."""

import sys
from typing import Any


def begin_in_fork() -> None:
    """Begin anew in a fork of a process that measures."""
    current = _current()
    if current is not None and "fork" not in current.config.patch:  # else coverage.py has done so
        from coverage import control

        control._after_fork_in_child()


def variables() -> dict[str, str]:
    """Return the variables by which a new interpreter begins to measure (`begin`)."""
    current = _current()
    return {} if current is None else {"COVERAGE_PROCESS_CONFIG": current.config.serialize()}


def begin() -> None:
    """Begin in a new interpreter, if it has `variables`."""
    from importlib.util import find_spec

    if find_spec("coverage"):
        import coverage

        coverage.process_startup()


def save() -> None:
    """Save what has been measured, if anything is."""
    if (current := _current()) is not None:
        current.stop()
        current.save()


def _current() -> Any:
    """Return the measurement of this process."""
    coverage = sys.modules.get("coverage")
    return coverage.Coverage.current() if coverage else None
