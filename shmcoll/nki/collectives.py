"""`nki.collectives`: the collectives of NKI 2.30 to 2.33, on CPUs.

The first call joins the job; there is no init call. Tensors are numpy arrays (bfloat16 and float8: `ml_dtypes`). Every
rank of a rank-list makes the call. The lists of a `ReplicaGroup` run independently of each other.

The rules about the hardware do not apply: tensors backed by HBM or SBUF, Trn2 or Trn3, the NeuronSwitch fabric, LNC,
devices and nodes, the mesh network, the number of channels. `priority` is a quality of service of the DMA engines: it
is checked, and has no effect. `name` is a label without effect.

Errors of every function: `TypeError` and `ValueError` are the mistake of this rank. They are raised before anything is
sent, and the call may be repeated. A rank that ends instead makes the others raise `RankFailed`. A rank in no rank-list
must not call. Errors of joining are those of `shmcoll.init`, and errors of communication are those of
`shmcoll.Communicator`.
"""

from shmcoll.nki.counted_blocks import all_gather_v, all_to_all_v
from shmcoll.nki.equal_blocks import all_gather, all_reduce, all_to_all, reduce_scatter
from shmcoll.nki.permutes import (
    collective_permute,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
)
from shmcoll.nki.replica_group import ReplicaGroup, rg_partition_op
from shmcoll.nki.split_calls import (
    NkiInstruction,
    all_gather_v_prepare,
    all_gather_v_trigger,
    all_to_all_v_prepare,
    all_to_all_v_trigger,
)

__all__ = [
    "NkiInstruction",
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "rg_partition_op",
]
