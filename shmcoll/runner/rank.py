"""A rank on the side of the server: its process, and what it has answered."""

import socket
from dataclasses import dataclass, field

from shmcoll.runner.protocol import Answered, End
from shmcoll.startup.exits import RaisedException, RankProcess


@dataclass
class Rank(RankProcess):
    """One rank. control: the socket through which a rank that stays gets its calls; None: it has one call.

    answered: its answer to the present call. raised: the exception by which it has failed; an exception that a rank
    which stays has answered counts only if it has left other ranks waiting. is_leaving: whether it may end: it has
    answered its only call, or has been asked to end.
    """

    control: socket.socket | None
    answered: Answered | None = field(default=None, init=False)
    raised: RaisedException | None = field(default=None, init=False)
    is_leaving: bool = field(default=False, init=False)

    @property
    def stays(self) -> bool:
        return self.control is not None

    @property
    def failed(self) -> bool:
        """Whether an exception of it counts as its failure, or it has ended in another way than it should."""
        return self.raised is not None or bool(self.status) or (self.status == 0 and not self.is_leaving)

    @property
    def is_busy(self) -> bool:
        """Whether its part of the present call is not over."""
        return self.status is None and not (self.stays and self.answered)

    @property
    def end(self) -> End | None:
        """How the present call has ended for it; None if it has a result."""
        raised = self.answered is not None and self.answered.raised is not None
        if self.answered and not raised and (self.stays or not self.status):
            return None
        return End(self.status or 0, raised, bool(self.ended_by))

    def close(self) -> None:
        super().close()
        if self.control:
            self.control.close()
