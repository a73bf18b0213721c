"""The collectives of AWS's Neuron Kernel Interface (NKI), on shared memory.

`collectives` has the public names of `nki.collectives`. The others are as much of the rest of NKI as a kernel needs
around a collective. An import of `nki.collectives` by another path gives the same functions and classes.

    kernels         `jit` and `simulate`: a kernel runs as Python
    isa             functions that copy and fill arrays
    language        operators, dtypes, arrays
    loops           loops whose bounds are known at run time
    registers       the numbers of these loops
    replica_group   which ranks take part, and the communicator of a rank-list
    tensors         the checks of lists of tensors, `priority` and the operator
    equal_blocks    all_reduce, all_gather, reduce_scatter, all_to_all
    counted_blocks  all_to_all_v, all_gather_v
    split_calls     their prepare and trigger forms
    permutes        collective_permute, the implicit ring, rank_id
"""

from shmcoll.engine.system.tracebacks import borders
from shmcoll.nki import collectives, isa, language
from shmcoll.nki.kernels import jit, simulate
from shmcoll.profiling.front_ends import name_calls

borders(__name__, fast=("counted_blocks", "equal_blocks", "language", "permutes", "split_calls"))
name_calls("nki.collectives", collectives)

__all__ = ["collectives", "isa", "jit", "language", "simulate"]
