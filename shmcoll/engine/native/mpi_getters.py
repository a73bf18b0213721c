"""What MPI is asked about communicators, datatypes and statuses, in native code. Nothing of it needs the GIL."""

from shmcoll.engine.atomics import call_long, peek, poke, poke_int
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.mpi_entry import STATUS_IGNORE, UNDEFINED, length_in, python_function, table
from shmcoll.engine.native.mpi_table import find, int_of

LARGEST = (1 << 31) - 1


def comm_rank(own, _large):
    def native(comm, out):
        known = find(table(), t.COMMS, comm)
        if known == 0 or out == 0:
            return call_long(python_function(own), comm, out)
        poke_int(out, peek(known + t.RANK))
        return 0

    return native


def comm_size(own, _large):
    def native(comm, out):
        known = find(table(), t.COMMS, comm)
        if known == 0 or out == 0:
            return call_long(python_function(own), comm, out)
        poke_int(out, peek(known + t.SIZE))
        return 0

    return native


def comm_test_inter(own, _large):
    def native(comm, out):
        if find(table(), t.COMMS, comm) == 0 or out == 0:
            return call_long(python_function(own), comm, out)
        poke_int(out, 0)
        return 0

    return native


def comm_get_attr(own, _large):
    def native(comm, key, out, flag):
        known = find(table(), t.COMMS, comm)
        if known and out and flag:
            for at in range(known + t.KEY, known + t.ROW, t.KEY_2 - t.KEY):
                if peek(at) == int_of(key):
                    poke(out, peek(at + t.VALUE - t.KEY))
                    poke_int(flag, 1)
                    return 0
        return call_long(python_function(own), comm, key, out, flag)

    return native


def type_size(own, large):
    def native(datatype, out):
        known = find(table(), t.TYPES, datatype)
        if known == 0 or out == 0:
            return call_long(python_function(own), datatype, out)
        put_number(out, peek(known + t.BYTES), large)
        return 0

    return native


def type_get_extent(own, _large):
    def native(datatype, low, extent):
        known = find(table(), t.TYPES, datatype)
        if known == 0 or low == 0 or extent == 0:
            return call_long(python_function(own), datatype, low, extent)
        poke(low, peek(known + t.LOW))
        poke(extent, peek(known + t.EXTENT))
        return 0

    return native


def get_count(own, large):
    def native(status, datatype, out):
        known = find(table(), t.TYPES, datatype)
        if known == 0 or peek(known + t.BYTES) == 0 or status <= STATUS_IGNORE or out == 0:
            return call_long(python_function(own), status, datatype, out)
        length = length_in(status)
        whole = length % peek(known + t.BYTES) == 0
        put_number(out, length // peek(known + t.BYTES) if whole else UNDEFINED, large)
        return 0

    return native


def put_number(out, value, large):
    """Store a number in an MPI_Count, or in an int, where a number that is too large becomes MPI_UNDEFINED."""
    if large:
        poke(out, value)
    else:
        poke_int(out, value if value <= LARGEST else UNDEFINED)


#: see `mpi_functions.py`
FUNCTIONS = {
    "Comm_rank": (comm_rank, "", 2),
    "Comm_size": (comm_size, "", 2),
    "Comm_test_inter": (comm_test_inter, "", 2),
    "Comm_get_attr": (comm_get_attr, "", 4),
    "Type_size": (type_size, "", 2),
    "Type_get_extent": (type_get_extent, "", 3),
    "Get_count": (get_count, "", 3),
}
WITHOUT_LARGE = {"Comm_rank", "Comm_size", "Comm_test_inter", "Comm_get_attr"}
