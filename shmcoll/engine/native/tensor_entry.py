"""How an operator of torch enters a routine: one function for all operations, which reads tensors itself.

It is called from Python, with the GIL, as the entries of the communicator are (`entry.py`). Its `self` is a table: the
group's context, and what torch has told about the tensors of this process. Its arguments, all of which our own code
passes:

    code of an operation, reduction, argument, x, out

and 1 as a further argument if the shapes of x and out do not matter, but their elements in order. It reads exact
tensors and parameters. Any other object, and a tensor whose dispatch keys are not those of a plain dense tensor of the
CPU, is left to Python: the answer is NEEDS_PYTHON, and nothing has been done. So no view that conjugates or negates, no
subclass, no tensor of another device and none of a transformation of `torch.func` is read.

What is inside a tensor it asks torch, by C functions that torch keeps from version to version (`aoti_torch_get_*`).
They are called by address, and get the address of a C++ `Tensor`, which is a word of the Python object; that word leads
to the dispatch keys. `torch/ops/native.py` finds both places, and fills the table.

Cost: 30 to 50 ns for a tensor.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native.arguments import FIXED, set_view
from shmcoll.engine.native.entering import what_hinders
from shmcoll.engine.native.entry import FILLED, answer
from shmcoll.engine.native.fitting import suits
from shmcoll.engine.native.tables import KINDS, ROUTINES

NAME = "tensor_entry"

MOST_DTYPES = 64  # of torch's numbers of dtypes

#: words of the table
(
    CONTEXT,  # its address
    TENSOR,  # the types that are read: addresses of two classes
    PARAMETER,
    HANDLE_AT,  # offset of the C++ tensor in the Python object
    KEYS_AT,  # offset of the dispatch keys in what the C++ tensor points to
    PLAIN_KEYS,  # those of a plain tensor, and of one that was made in inference mode
    INFERENCE_KEYS,
    IS_CONTIGUOUS,  # addresses of C functions (tensor, place of the result), which return 0 for success
    GET_DTYPE,
    GET_DATA,
    GET_DIMENSIONS,
    GET_SIZES,
    FOUND,  # place of their results
) = (WORD * i for i in range(13))
TYPES = FOUND + WORD  # torch's number of a dtype -> type word of `tables.py`; 0 for others
TABLE_WORDS = TYPES // WORD + MOST_DTYPES

OPERATION, REDUCTION, ARGUMENT, X, OUT, FLAT = (WORD * i for i in range(6))  # the arguments


def entry(self, args, nargs):
    table = peek(self + py.ARRAY_DATA)
    ctx = peek(table + CONTEXT)
    operation = py.integer_value(peek(args + OPERATION))
    kind = peek(ctx + KINDS + operation * WORD)
    hindrance = what_hinders(ctx, kind)
    if hindrance != c.OK:
        return py.new_integer(hindrance)
    if not read_tensor(table, peek(args + X), ctx + c.X) or not read_tensor(table, peek(args + OUT), ctx + c.OUT):
        return py.new_integer(c.NEEDS_PYTHON)
    if nargs * WORD > FLAT:
        flatten(ctx + c.X)
        flatten(ctx + c.OUT)
    poke(ctx + c.REDUCTION, py.integer_value(peek(args + REDUCTION)))
    poke(ctx + c.ARGUMENT, py.integer_value(peek(args + ARGUMENT)))
    poke(ctx + c.ARGUMENT_2, 0)
    poke(ctx + c.ALGORITHM, 0)
    routine = peek(ctx + ROUTINES + operation * WORD)
    if routine == 0 or not suits(ctx, kind, FIXED):
        return py.new_integer(c.NEEDS_PYTHON)
    poke(ctx + c.OPERATION, operation)
    return answer(call(routine, ctx, FILLED, 0))


def read_tensor(table, tensor, view):
    """Fill a view of the context. Returns 0 for a tensor that routines cannot work on as it is."""
    kind = peek(tensor + py.OBJECT_TYPE)
    if kind != peek(table + TENSOR) and kind != peek(table + PARAMETER):
        return 0
    handle = tensor + peek(table + HANDLE_AT)
    keys = peek(peek(handle) + peek(table + KEYS_AT))
    if keys != peek(table + PLAIN_KEYS) and keys != peek(table + INFERENCE_KEYS):
        return 0
    if ask(table, IS_CONTIGUOUS, handle) != 1:
        return 0
    dtype = ask(table, GET_DTYPE, handle)
    if not 0 <= dtype < MOST_DTYPES:
        return 0
    known = peek(table + TYPES + dtype * WORD)
    if known == 0:
        return 0
    dimensions, sizes = ask(table, GET_DIMENSIONS, handle), ask(table, GET_SIZES, handle)
    set_view(view, known, ask(table, GET_DATA, handle), dimensions, sizes)
    return 1


def ask(table, function, handle):
    """Return what a C function of torch says about a tensor; -1 if it fails. A result of few bytes is followed by
    zeros."""
    poke(table + FOUND, 0)
    failed = call(peek(table + function), handle, table + FOUND, 0) & 0xFFFFFFFF
    return -1 if failed else peek(table + FOUND)


def flatten(view):
    """Make a view one of one dimension."""
    poke(view + c.DIMENSIONS, 1)
    poke(view + c.DIMS, view + c.COUNT)


def functions():
    """Return this entry for the compiler."""
    return {NAME: (entry, 3)}
