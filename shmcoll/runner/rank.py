"""A rank as the server sees it: its process, and what it has answered."""

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
