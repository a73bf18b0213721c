"""The text of every `CollectiveTimeout`: who waited, how long, and for what; and what to do."""

from shmcoll.diagnostics import late_settings

RAISE_LIMIT = "Raise comm.timeout or SHMCOLL_TIMEOUT"


def timed_out(where: str, seconds: float, what: str) -> str:
    """Return why a wait has ended. where: the call and its rank. what: a rank has not done it in so many seconds."""
    return f"{where}: timed out after {seconds:g} s; {what}"


def with_advice(text: str, more: str = "", *, what: str = RAISE_LIMIT) -> str:
    """Return that text with what to do, without a full stop. more: what to do besides, behind a comma or a
    semicolon. what: how to raise the limit."""
    late = late_settings.too_late()
    return f"{text}. {what} if they are only slow{more}{late and f'. {late}'}"


def was_too_late(where: str, waited: str, seconds: float) -> str:
    """Return why a call fails on a rank for which another one has waited. where: the call and its rank. waited: that
    other rank, and its call."""
    return f"{where}: this rank was too late: {waited} had waited {seconds:g} s for it, and has ended the group"
