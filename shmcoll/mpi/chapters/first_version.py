"""MPI's chapter on removed functions: those of its first version, which programs in C still call.

Most have only other names in later versions.
"""

from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.functions import MAKERS, mpi

_NAMES = {
    "Address": "Get_address",
    "Attr_delete": "Comm_delete_attr",
    "Attr_get": "Comm_get_attr",
    "Attr_put": "Comm_set_attr",
    "Errhandler_create": "Comm_create_errhandler",
    "Errhandler_get": "Comm_get_errhandler",
    "Errhandler_set": "Comm_set_errhandler",
    "Keyval_create": "Comm_create_keyval",
    "Keyval_free": "Comm_free_keyval",
    "Type_hindexed": "Type_create_hindexed",
    "Type_hvector": "Type_create_hvector",
    "Type_struct": "Type_create_struct",
}

for _old, _new in _NAMES.items():
    MAKERS[f"MPI_{_old}"] = MAKERS[f"MPI_{_new}"]


@mpi()
def Type_extent(datatype: Datatype) -> int:
    return datatype.extent


@mpi()
def Type_lb(datatype: Datatype) -> int:
    return datatype.lb


@mpi()
def Type_ub(datatype: Datatype) -> int:
    return datatype.lb + datatype.extent
