"""What the algorithms and the messages use of the dispatcher, which is above them (`dispatcher.py`)."""

from typing import Any, Protocol

import numpy as np

from shmcoll.communicator import Communicator
from shmcoll.engine.kernels.dtypes import DType
from shmcoll.engine.memory.node_words import CallRecorder
from shmcoll.nodes.mpi.failures import Failures
from shmcoll.nodes.mpi.progress import Progress
from shmcoll.nodes.mpi.topology import Topology
from shmcoll.nodes.mpi.wire import Channel, Pending
from shmcoll.nodes.point_to_point.within import Within
from shmcoll.runtime.async_worker import AsyncWorker
from shmcoll.runtime.local_rank import LocalRank


class NodesDispatcher(Protocol):
    """One rank of one group over nodes; see `dispatcher.py`."""

    topology: Topology
    channel: Channel
    inner: Communicator
    within: Within
    progress: Progress
    failures: Failures
    worker: AsyncWorker
    words: np.ndarray
    recorder: CallRecorder
    agreement: Any  # `agreement.py`, which uses this file, as does
    far_messages: Any  # `far_messages.py`
    group: Any
    rank: int
    size: int
    leaders: int
    is_leader: bool
    operation: str
    local_rank: LocalRank

    @property
    def timeout(self) -> float: ...

    def wait(self, pending: Pending) -> None:
        """Wait until sends and receives of this operation are complete."""

    def kernel(self, dtype: DType, reduction: str, number: int) -> int: ...

    def check_open(self, operation: str) -> None: ...

    def index_here(self, rank: int) -> int | None: ...

    def left(self, operation: str) -> None:
        """End the group on all nodes, because an exception has come out of one of its calls."""
