"""The text of every `CollectiveTimeout`: who waited, how long, and for what; and what to do."""

from shmcoll.diagnostics import late_settings


def timed_out(where: str, seconds: float, what: str) -> str:
    """Return why a wait has ended. where: the call and its rank. what: a rank has not done it in so many seconds."""
    return f"{where}: timed out after {seconds:g} s; {what}"


def with_advice(text: str, more: str = "") -> str:
    """Return that text with what to do, without a full stop. more: what to do besides, behind a comma or a
    semicolon."""
    late = late_settings.too_late()
    return f"{text}. Raise comm.timeout or SHMCOLL_TIMEOUT if they are only slow{more}{late and f'. {late}'}"
