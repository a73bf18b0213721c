"""A rank on the side of the server: its process, and what it has answered."""

import socket
from dataclasses import dataclass, field

from shmcoll.runner.protocol import Answered, End
from shmcoll.startup.exits import RaisedException, RankProcess


@dataclass
class Rank(RankProcess):
    """One rank of a call."""

    answered: Answered | None = field(default=None, init=False)

    @property
    def raised(self) -> RaisedException | None:
        return self.answered.raised if self.answered else None

    @property
    def failed(self) -> bool:
        """Whether it has answered an exception, or has ended without a result."""
        return self.raised is not None or bool(self.status) or (self.status == 0 and self.answered is None)

    @property
    def end(self) -> End:
        return End(self.status or 0, self.raised is not None, bool(self.ended_by))


@dataclass
class RankThatStays(RankProcess):
    """One of the ranks that stay. control: the socket from which it reads calls and to which it reports answers.

    answered: its answer to the present call. blamed: whether it has left ranks waiting by an exception. is_leaving:
    whether it has been asked to end.
    """

    control: socket.socket
    answered: Answered | None = field(default=None, init=False)
    blamed: RaisedException | None = field(default=None, init=False)
    is_leaving: bool = field(default=False, init=False)

    @property
    def raised(self) -> RaisedException | None:
        return self.blamed

    @property
    def failed(self) -> bool:
        """Whether it has ended without having been asked to, or has left ranks waiting."""
        return self.blamed is not None or (self.status is not None and not self.is_leaving)

    @property
    def is_busy(self) -> bool:
        """Whether it has neither answered the present call nor ended."""
        return self.status is None and self.answered is None

    @property
    def end(self) -> End | None:
        """How the present call has ended for it; None if it has answered with a result."""
        if self.answered:
            return End(0, True, False) if self.answered.raised else None
        return End(self.status or 0, False, bool(self.ended_by))
