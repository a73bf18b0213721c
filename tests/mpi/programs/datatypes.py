"""Datatypes by the functions that C calls, against lists of the places of their bytes."""

import ctypes
import random
from dataclasses import dataclass

import numpy as np

import shmcoll.mpi  # noqa: F401
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.functions import CALLBACKS


def call(name, *arguments):
    """Call a function of MPI, and raise its error."""
    code = CALLBACKS[name](*arguments)
    if code:
        text = ctypes.create_string_buffer(c["MPI_MAX_ERROR_STRING"])
        length = ctypes.c_int()
        CALLBACKS["MPI_Error_string"](code, address(text), address(length))
        raise RuntimeError(code & 127, text.value.decode())


def ints(*values):
    return (ctypes.c_int * len(values))(*values)


def longs(*values):
    return (ctypes.c_long * len(values))(*values)


def address(memory):
    return ctypes.addressof(memory)


@dataclass
class Model:
    """A datatype as the standard defines it: where its bytes are, and its bounds."""

    handle: int
    places: list
    lb: int
    ub: int
    alignment: int
    has_bounds: bool = False

    @property
    def extent(self):
        return self.ub - self.lb


def made(name, *arguments):
    """Return the handle of a new datatype."""
    new = ctypes.c_int()
    call(name, *(address(a) if isinstance(a, ctypes.Array) else a for a in arguments), address(new))
    return new.value


def model(handle, parts, is_struct=False):
    """Return the model of elements at places: pairs of a datatype and a displacement."""
    some = [(old, at) for old, at in parts if old.places or old.has_bounds]
    has_bounds = any(old.has_bounds for old, _ in some)
    counted = [(old, at) for old, at in some if old.has_bounds == has_bounds]
    lb = min((at + old.lb for old, at in counted), default=0)
    ub = max((at + old.ub for old, at in counted), default=0)
    alignment = max((old.alignment for old, _ in parts), default=1)
    if is_struct and not has_bounds:
        ub += -(ub - lb) % alignment
    return Model(handle, [at + place for old, at in parts for place in old.places], lb, ub, alignment, has_bounds)


BASICS = [
    Model(c[f"MPI_{name}"], list(range(size)), 0, size, size)
    for name, size in (("BYTE", 1), ("SHORT", 2), ("INT", 4), ("DOUBLE", 8), ("LONG", 8))
]


def blocks(old, lengths, displacements):
    return [
        (old, at + i * old.extent) for length, at in zip(lengths, displacements, strict=True) for i in range(length)
    ]


def contiguous(old, rng):
    n = rng.randrange(4)
    return model(made("MPI_Type_contiguous", n, old.handle), blocks(old, [n], [0]))


def vector(old, rng):
    n, length, stride = rng.randrange(4), rng.randrange(4), rng.randrange(-3, 6)
    handle = made("MPI_Type_vector", n, length, stride, old.handle)
    return model(handle, blocks(old, [length] * n, [i * stride * old.extent for i in range(n)]))


def hvector(old, rng):
    n, length, stride = rng.randrange(4), rng.randrange(4), rng.randrange(-30, 60)
    handle = made("MPI_Type_create_hvector_c", n, length, stride, old.handle)
    return model(handle, blocks(old, [length] * n, [i * stride for i in range(n)]))


def indexed(old, rng):
    lengths, places = _random_blocks(rng)
    handle = made("MPI_Type_indexed", len(places), ints(*lengths), ints(*places), old.handle)
    return model(handle, blocks(old, lengths, [at * old.extent for at in places]))


def hindexed(old, rng):
    lengths, places = _random_blocks(rng)
    handle = made("MPI_Type_create_hindexed", len(places), ints(*lengths), longs(*places), old.handle)
    return model(handle, blocks(old, lengths, places))


def indexed_block(old, rng):
    length, (_, places) = rng.randrange(3), _random_blocks(rng)
    handle = made("MPI_Type_create_indexed_block", len(places), length, ints(*places), old.handle)
    return model(handle, blocks(old, [length] * len(places), [at * old.extent for at in places]))


def hindexed_block(old, rng):
    length, (_, places) = rng.randrange(3), _random_blocks(rng)
    handle = made("MPI_Type_create_hindexed_block_c", len(places), length, longs(*places), old.handle)
    return model(handle, blocks(old, [length] * len(places), places))


def struct(old, rng):
    lengths, places = _random_blocks(rng)
    types = [rng.choice([old, *BASICS]) for _ in places]
    handles = ints(*(one.handle for one in types))
    handle = made("MPI_Type_create_struct", len(places), ints(*lengths), longs(*places), handles)
    blocks_of = zip(types, lengths, places, strict=True)
    parts = [part for one, n, at in blocks_of for part in blocks(one, [n], [at])]
    return model(handle, parts, is_struct=True)


def resized(old, rng):
    lb, extent = rng.randrange(-9, 9), rng.randrange(1, 40)
    handle = made("MPI_Type_create_resized", old.handle, lb, extent)
    return Model(handle, old.places, lb, lb + extent, old.alignment, True)


def duplicate(old, _rng):
    return Model(made("MPI_Type_dup", old.handle), old.places, old.lb, old.ub, old.alignment, old.has_bounds)


def subarray(old, rng):
    shape = [rng.randrange(1, 4) for _ in range(rng.randrange(1, 4))]
    parts = [rng.randrange(1, n + 1) for n in shape]
    starts = [rng.randrange(n - part + 1) for n, part in zip(shape, parts, strict=True)]
    order = rng.choice("CF")
    handle = made(
        "MPI_Type_create_subarray", len(shape), ints(*shape), ints(*parts), ints(*starts), _order(order), old.handle
    )
    cut = tuple(slice(start, start + part) for start, part in zip(starts, parts, strict=True))
    return _of_array(handle, old, shape, order, cut)


def darray(old, rng):
    grid = [rng.randrange(1, 3) for _ in range(rng.randrange(1, 4))]
    shape = [rng.randrange(2, 6) for _ in grid]
    kinds = [rng.choice(("BLOCK", "CYCLIC")) if n > 1 else "NONE" for n in grid]
    given = [-1 if kind != "CYCLIC" else rng.choice((-1, 1, 2)) for kind in kinds]
    rank, order = rng.randrange(int(np.prod(grid))), rng.choice("CF")
    arguments = [c["MPI_DISTRIBUTE_DFLT_DARG"] if n < 0 else n for n in given]
    handle = made(
        "MPI_Type_create_darray", int(np.prod(grid)), rank, len(grid), ints(*shape),
        ints(*(c[f"MPI_DISTRIBUTE_{kind}"] for kind in kinds)), ints(*arguments), ints(*grid), _order(order),
        old.handle,
    )  # fmt: skip
    mine = np.unravel_index(rank, grid)
    owned = []
    for size, kind, block, n, me in zip(shape, kinds, given, grid, mine, strict=True):
        length = -(-size // n) if kind != "CYCLIC" else abs(block)
        owned.append([i for i in range(size) if i // length % n == me])
    return _of_array(handle, old, shape, order, np.ix_(*owned))


def _order(name):
    return c["MPI_ORDER_C"] if name == "C" else c["MPI_ORDER_FORTRAN"]


def _of_array(handle, old, shape, order, cut):
    numbers = np.arange(np.prod(shape)).reshape(shape, order=order)[cut].ravel(order)
    places = [int(n) * old.extent + place for n in numbers for place in old.places]
    return Model(handle, places, 0, int(np.prod(shape)) * old.extent, old.alignment, True)


def _random_blocks(rng):
    n = rng.randrange(4)
    return [rng.randrange(3) for _ in range(n)], [rng.randrange(-20, 40) for _ in range(n)]


MAKERS = [
    contiguous, vector, hvector, indexed, hindexed, indexed_block, hindexed_block, struct, resized, duplicate, subarray,
    darray,
]  # fmt: skip


def check(one, rng):
    """Compare sizes, bounds, packed bytes and unpacked ones of a datatype."""
    lb, extent, size = ctypes.c_long(), ctypes.c_long(), ctypes.c_longlong()
    handle = ctypes.c_int(one.handle)
    call("MPI_Type_commit", address(handle))
    call("MPI_Type_get_extent", one.handle, address(lb), address(extent))
    assert (lb.value, extent.value) == (one.lb, one.extent), (lb, extent, one)
    call("MPI_Type_get_true_extent", one.handle, address(lb), address(extent))
    true = (min(one.places), max(one.places) + 1) if one.places else (0, 0)
    assert (lb.value, lb.value + extent.value) == true
    call("MPI_Type_size_c", one.handle, address(size))
    assert size.value == len(one.places)

    count = rng.randrange(1, 4)
    places = [i * one.extent + place for i in range(count) for place in one.places]
    if not places:
        return
    low = min(places)
    memory = np.array([rng.randrange(256) for _ in range(max(places) + 1 - low)], np.uint8)
    packed = buffers_packed(memory.ctypes.data - low, count, one.handle)
    assert np.array_equal(packed, memory[np.array(places) - low])

    cut = rng.randrange(len(places) + 1)  # fewer bytes than the elements have
    target, expected = np.zeros_like(memory), np.zeros_like(memory)
    expected[np.array(places[:cut], int) - low] = packed[:cut]
    if len(set(places)) == len(places):
        buffer_at(target.ctypes.data - low, count, one.handle).fill_from(packed[:cut]) if cut else None
        assert np.array_equal(target, expected)


def buffer_at(at, count, handle):
    from shmcoll.mpi.objects.buffers import Buffer
    from shmcoll.mpi.objects.handles import DATATYPE

    return Buffer(at, count, DATATYPE.find(handle))


def buffers_packed(at, count, handle):
    return buffer_at(at, count, handle).packed().copy()


def random_types(rng):
    for _ in range(250):
        one = rng.choice(BASICS)
        for _ in range(rng.randrange(1, 4)):
            one = rng.choice(MAKERS)(one, rng)
            if len(one.places) > 500:
                break
            check(one, rng)


def external():
    """Numbers keep their value in external32, and are stored from high bytes to low ones."""
    form = ctypes.create_string_buffer(b"external32")
    for name, array in (
        ("INT", np.array([1, -2, 3], "i4")),
        ("LONG", np.array([1, -2, 3], "i8")),
        ("LONG_DOUBLE", np.array([1, -2.5, 0, np.inf, np.pi], "g")),
        ("C_DOUBLE_COMPLEX", np.array([1 + 2j, -3j])),
    ):
        size, position = ctypes.c_long(), ctypes.c_long()
        handle = c[f"MPI_{name}"]
        call("MPI_Pack_external_size", address(form), len(array), handle, address(size))
        data, back = np.zeros(size.value, np.uint8), np.zeros_like(array)
        room = (address(form), array.ctypes.data, len(array), handle, data.ctypes.data, size.value, address(position))
        call("MPI_Pack_external", *room)
        assert position.value == size.value
        position.value = 0
        call(
            "MPI_Unpack_external", address(form), data.ctypes.data, size.value, address(position), back.ctypes.data,
            len(array), handle,
        )  # fmt: skip
        assert np.array_equal(array, back), (name, array, back)
        if name == "INT":
            assert data.tobytes() == array.astype(">i4").tobytes()
        if name == "LONG_DOUBLE":
            assert data[:4].tobytes() == b"\x3f\xff\0\0" and data[16:20].tobytes() == b"\xc0\x00\x40\x00"


def refused():
    """What is wrong is told with the offending value, and nothing happens."""
    new = ctypes.c_int()
    for name, arguments, text in (
        ("MPI_Type_contiguous", (-1, c["MPI_INT"]), "count -1"),
        ("MPI_Type_contiguous", (1, c["MPI_DATATYPE_NULL"]), "MPI_DATATYPE_NULL"),
        ("MPI_Type_vector", (1 << 30, 1, 2, c["MPI_INT"]), "separate runs"),
        ("MPI_Type_indexed", (1, 0, 0, c["MPI_INT"]), "null pointer"),
        ("MPI_Type_create_f90_real", (99, 1), "precision"),
        ("MPI_Type_match_size", (c["MPI_TYPECLASS_REAL"], 3), "3 bytes"),
        ("MPI_Type_free", (), "belongs to MPI"),
    ):
        new.value = c["MPI_INT"]
        try:
            call(name, *arguments, address(new))
        except RuntimeError as e:
            assert text in str(e), e
        else:
            raise AssertionError(name)
        assert new.value == c["MPI_INT"]


if __name__ == "__main__":
    call("MPI_Init", 0, 0)
    call("MPI_Comm_set_errhandler", c["MPI_COMM_SELF"], c["MPI_ERRORS_RETURN"])
    random_types(random.Random(38))
    external()
    refused()
    print("done")
