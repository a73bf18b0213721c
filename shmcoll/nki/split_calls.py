"""all_to_all_v and all_gather_v in two parts: `*_prepare` and `*_trigger`.

`*_prepare` checks its arguments and copies the metadata except row 2. `*_trigger` reads the source, communicates, and
writes the destination and row 2. There is one slot for a prepared call, as on the hardware: another prepare before the
trigger is refused.

Sources: the documentation of `nki.collectives` in the Neuron SDK, 2.33.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, ParamSpec, cast

import numpy as np

from shmcoll.nki.counted_blocks import RECV_COUNTS, all_gather_v, all_to_all_v, checked, gather_blocks, send_blocks
from shmcoll.nki.replica_group import ReplicaGroup

P = ParamSpec("P")


class NkiInstruction:
    """A call in two parts: what `*_prepare` returns and `*_trigger` takes.

    operation: "all_to_all_v" or "all_gather_v". name: the label of the prepare.
    """

    __slots__ = ("_call", "_rows", "name", "operation")

    def __init__(self, operation: str, name: str | None, call: tuple[Any, ...], rows: np.ndarray | None):
        """Keep a prepared call. call: its arguments. rows: the metadata into which the received counts are written."""
        self.operation, self.name, self._call, self._rows = operation, name, call, rows

    def __repr__(self) -> str:
        return f"<NkiInstruction {self.operation}{f' {self.name!r}' if self.name else ''}>"


_prepared: NkiInstruction | None = None


def _in_two_parts(
    whole: Callable[P, None], move: Callable[..., np.ndarray]
) -> tuple[Callable[P, NkiInstruction], Callable[..., NkiInstruction]]:
    """Return the prepare and the trigger of a collective. move: makes its call, and returns the received counts."""
    operation = whole.__name__

    def prepare(
        srcs: Sequence[np.ndarray],
        dsts: Sequence[np.ndarray],
        replica_group: ReplicaGroup,
        metadata_tensor: np.ndarray,
        recv_counts_known: bool = False,
        has_rdispls: bool = False,
        priority: int | None = None,
        name: str | None = None,
    ) -> NkiInstruction:
        """Begin an `OPERATION` in two parts: check the arguments and read the metadata. Nothing is sent.

        Args:
            srcs: as for `OPERATION`; read by the trigger.
            dsts: as for `OPERATION`; written by the trigger.
            replica_group: as for `OPERATION`.
            metadata_tensor: as for `OPERATION`; read now, and row 2 written by the trigger.
            recv_counts_known: do not write row 2.
            has_rdispls: write the blocks at the displacements of row 3.
            priority: 0 to 3, or None; has no effect.
            name: a label.

        Returns:
            The instruction for `OPERATION_trigger`.

        Raises:
            RuntimeError: an earlier prepare has not been triggered.
            TypeError: as for `OPERATION`.
            ValueError: as for `OPERATION` on this rank alone.
        """
        global _prepared
        if _prepared is not None:
            raise RuntimeError(
                f"{operation}_prepare: {_prepared} has been prepared and not triggered; each prepare needs its trigger "
                f"before the next prepare"
            )
        comm, size, source, target, rows = checked(
            operation, srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority
        )
        call = comm, size, source, target, rows.copy(), has_rdispls
        _prepared = NkiInstruction(operation, name, call, None if recv_counts_known else rows)
        return _prepared

    def trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
        """Complete an `OPERATION` that has been prepared.

        Args:
            prepare_instr: what `OPERATION_prepare` has returned.
            name: a label, which has no effect.

        Returns:
            The same instruction.

        Raises:
            TypeError: it is not an instruction.
            RuntimeError: it is of another operation, or has been triggered.
            ValueError: as for `OPERATION`.
        """
        global _prepared
        if prepare_instr is not _prepared or _prepared is None or _prepared.operation != operation:
            _refuse(operation, prepare_instr)
        _prepared = None  # also if the call fails: another prepare may follow
        received = move(*prepare_instr._call)
        if prepare_instr._rows is not None:
            prepare_instr._rows[RECV_COUNTS] = received
        return prepare_instr

    for function in (prepare, trigger):
        function.__name__ = function.__qualname__ = f"{operation}_{function.__name__}"
        function.__doc__ = (function.__doc__ or "").replace("OPERATION", operation)
    return cast("Callable[P, NkiInstruction]", prepare), trigger


def _refuse(operation: str, prepared: Any) -> NoReturn:
    """Raise the error of a trigger that does not belong to the prepared call."""
    if not isinstance(prepared, NkiInstruction):
        raise TypeError(
            f"{operation}_trigger: prepare_instr must be what {operation}_prepare returns, "
            f"got {type(prepared).__name__}"
        )
    wrong = "has been triggered" if prepared is not _prepared else f"needs {prepared.operation}_trigger"
    raise RuntimeError(f"{operation}_trigger: {prepared} {wrong}")


all_to_all_v_prepare, all_to_all_v_trigger = _in_two_parts(all_to_all_v, send_blocks)
all_gather_v_prepare, all_gather_v_trigger = _in_two_parts(all_gather_v, gather_blocks)
