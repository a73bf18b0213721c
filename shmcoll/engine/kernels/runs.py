"""Packing of elements that are runs of bytes with gaps between them: a datatype of MPI, of which there are several.

A table describes an element: rows of equally long runs at equal distances, four words for each row:

    where its first run begins, from the element's address on
    the length of a run
    the distance from one run to the next
    how many runs there are

The packed bytes are those of the runs one behind the other, element by element.
"""

from shmcoll.engine.atomics import peek
from shmcoll.engine.kernels.kernels import copy_rows
from shmcoll.engine.layout import WORD

NAME = "runs"

OFFSET, LENGTH, STEP, COUNT = (WORD * i for i in range(4))
ROW_WORDS = 4
ROW = ROW_WORDS * WORD


def pack(table, rows, address, extent, elements, packed):
    """Copy the bytes of `elements` elements, of which one begins `extent` bytes behind the one before it, to `packed`.
    Returns where the packed bytes end."""
    if rows == 1 and peek(table + COUNT) == 1:  # the elements are the runs of a row
        length = peek(table + LENGTH)
        copy_rows(packed, length, address + peek(table + OFFSET), extent, length, elements)
        return packed + length * elements
    for i in range(elements):
        for row in range(table, table + rows * ROW, ROW):
            length, count = peek(row + LENGTH), peek(row + COUNT)
            copy_rows(packed, length, address + i * extent + peek(row + OFFSET), peek(row + STEP), length, count)
            packed += length * count
    return packed


def unpack(table, rows, address, extent, elements, packed):
    """Copy packed bytes to where they belong in the elements. Returns where the packed bytes end."""
    if rows == 1 and peek(table + COUNT) == 1:
        length = peek(table + LENGTH)
        copy_rows(address + peek(table + OFFSET), extent, packed, length, length, elements)
        return packed + length * elements
    for i in range(elements):
        for row in range(table, table + rows * ROW, ROW):
            length, count = peek(row + LENGTH), peek(row + COUNT)
            copy_rows(address + i * extent + peek(row + OFFSET), peek(row + STEP), packed, length, length, count)
            packed += length * count
    return packed


def functions():
    """Return both for the compiler."""
    return {f"{NAME}_pack": (pack, 6), f"{NAME}_unpack": (unpack, 6)}
