"""The arena's picture: offsets recomputed by hand, nothing overlaps, ranks keep off each other's cache lines."""

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcoll.engine import context, layout

SIZES = [1, 2, 3, 8, 16, 64]
CELL = layout.CELL_BYTES


def mailbox_words(ranks: int, rank: int) -> dict[str, tuple[int, int]]:
    """Ranges [begin, end) of a mailbox within the group region."""
    base = layout.mailbox_offset(ranks, rank)
    parts = {
        "header 0": (0, layout.HEADER_DIMS + 8 * layout.HEADER_MAX_DIMS),
        "last header": (layout.PROGRESS - layout.HEADER_BYTES, layout.PROGRESS),
        "progress": (layout.PROGRESS, layout.PROGRESS + 8),
        "parked": (layout.PARKED, layout.PARKED + 8),
        "semaphore": (layout.SEMAPHORE, layout.SEMAPHORE + 32),
    }
    rings = layout.rings_offset(ranks)
    parts["rings"] = (rings, rings + 8 * ranks)
    for half in (0, 1):
        table = layout.TABLES + half * layout.table_bytes(ranks)
        parts[f"table {half}"] = (table, table + 8 * layout.table_words(ranks))
    return {name: (base + begin, base + end) for name, (begin, end) in parts.items()}


def apart(ranges: list[tuple[int, int]], distance: int) -> bool:
    ordered = sorted(ranges)
    return all(end + distance <= begin for (_, end), (begin, _) in itertools.pairwise(ordered))


def test_offsets_of_two_ranks_by_hand() -> None:
    """Every rank and the launcher must agree on these: a change needs a new VERSION."""
    assert layout.VERSION == 14
    assert layout.RECORDS == 4096
    assert layout.record_offset(2, 1, layout.BY_RANK) == 4096 + 2048
    assert layout.record_offset(2, 1, layout.BY_LAUNCHER) == 4096 + 3 * 2048
    assert layout.directory_offset(2, 1) == 4096 + 4 * 2048 + 16384
    assert layout.world_offset(2) == 4096 + 4 * 2048 + 2 * 16384
    assert layout.table_bytes(2) == 512  # the dimensions of an array take more than 5 rows of 2
    assert layout.mailbox_bytes(2) == 32 * 512 + 512 + 2 * 512 + 128  # tables, and the words about rings
    assert layout.mailbox_offset(2, 1) == 4096 + 16896 + 9 * 128
    assert layout.ending_offset(2, 1) == 4096 + 2 * (16896 + 9 * 128) + 2048
    assert layout.site_offset(2, 1) == layout.ending_offset(2, 1) + 2 * 2048
    assert layout.flight_offset(2, 1) == layout.site_offset(2, 1) + 2048 + 64 * 64
    assert layout.cells_offset(2) == 57344
    assert layout.group_bytes(2, CELL) == 57344 + 4 * CELL
    assert layout.arena_bytes(2, CELL) == layout.world_offset(2) + 57344 + 4 * CELL


@pytest.mark.parametrize("ranks", SIZES)
def test_regions_do_not_overlap(ranks: int) -> None:
    job_page = (0, layout.JOB_WINDOW_BYTES + 8)
    records = [
        (start, start + layout.RECORD_BYTES)
        for by in (layout.BY_RANK, layout.BY_LAUNCHER)
        for start in (layout.record_offset(ranks, r, by) for r in range(ranks))
    ]
    world = (layout.world_offset(ranks), layout.world_offset(ranks) + layout.group_bytes(ranks, CELL))
    directories = [(start, start + layout.DIRECTORY_BYTES) for start in _directories(ranks)]
    assert apart([job_page, *records, *directories, world], 0)
    assert world[1] == layout.arena_bytes(ranks, CELL)

    abort = (layout.ABORT, layout.ABORT + 8)
    names = [
        (layout.IDENTITY, layout.IDENTITY + 16),
        (layout.SIZE, layout.SIZE + 8),
        (layout.MEMBERS, layout.MEMBERS + 8 * ranks),
    ]
    starts = [offset(ranks, r) for r in range(ranks) for offset in (layout.ending_offset, layout.site_offset)]
    endings = [(start, start + layout.RECORD_BYTES) for start in starts]
    rings = [(start, start + layout.FLIGHT_ENTRIES * layout.FLIGHT_BYTES) for start in _flights(ranks)]
    boxes = [part for r in range(ranks) for part in mailbox_words(ranks, r).values()]
    cells = (layout.cells_offset(ranks), layout.cells_offset(ranks) + 2 * ranks * CELL)
    assert apart([abort, *names, *boxes, *endings, *rings, cells], 0)
    assert cells[1] <= layout.group_bytes(ranks, CELL)


def _flights(ranks: int) -> list[int]:
    return [layout.flight_offset(ranks, r) for r in range(ranks)]


def _directories(ranks: int) -> list[int]:
    return [layout.directory_offset(ranks, r) for r in range(ranks)]


@pytest.mark.parametrize("ranks", SIZES)
def test_pages(ranks: int) -> None:
    for offset in (
        layout.world_offset(ranks),
        layout.cells_offset(ranks),
        layout.group_bytes(ranks, CELL),
        layout.arena_bytes(ranks, CELL),
    ):
        assert offset % layout.PAGE == 0


@pytest.mark.parametrize("ranks", SIZES)
def test_words_of_different_writers_are_two_cache_lines_apart(ranks: int) -> None:
    """ABORT, what each rank writes, and each doorbell, which anybody rings."""
    writers: dict[object, list[tuple[int, int]]] = {"anybody": [(layout.ABORT, layout.ABORT + 8)]}
    for rank in range(ranks):
        words = mailbox_words(ranks, rank)
        writers["bell", rank] = [words.pop("semaphore")]
        writers[rank] = list(words.values())
        cells = layout.cells_offset(ranks) + 2 * rank * CELL
        writers[rank].append((layout.flight_offset(ranks, rank), layout.flight_offset(ranks, rank + 1)))
        writers["cells", rank] = [(cells, cells + 2 * CELL)]
    owner = [(range_, who) for who, ranges in writers.items() for range_ in ranges]
    for ((_, end), who), ((begin, _), other) in itertools.pairwise(sorted(owner, key=lambda o: o[0])):
        if who != other:
            same_pair = end > begin // layout.LINE * layout.LINE
            assert not same_pair, f"{who} and {other} share a pair of cache lines"


def test_words_polled_and_words_parked_do_not_share_a_line() -> None:
    lines = [offset // layout.LINE for offset in (0, layout.HEADER_BYTES, layout.PROGRESS, layout.PARKED)]
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("part", ["JOB", "RECORD", "HEADER", "FLIGHT", "RING", "PIECE"])
def test_places_are_those_of_words(part: str) -> None:
    """An arena that is mapped is read by the word, and one that is only looked at by the byte."""
    places = {name: place for name, place in vars(layout).items() if name.startswith(f"{part}_")}
    assert len(places) > 5
    assert {name for name, place in places.items() if place % layout.WORD} == set()


def test_words_of_the_job_page_do_not_overlap() -> None:
    places = [place for name, place in vars(layout).items() if name.startswith("JOB_")]
    assert len(set(places)) == len(places)
    assert not {layout.JOB_NONCE + layout.WORD} & set(places)


def test_header_and_record_fit_their_room() -> None:
    assert layout.HEADER_INLINE + layout.EAGER_BYTES <= layout.HEADER_CALL
    assert layout.HEADER_ARGUMENTS + 16 <= layout.HEADER_COUNT
    assert layout.HEADER_HISTORY + layout.WORD <= layout.HEADER_BYTES
    assert layout.HEADERS * layout.HEADER_BYTES <= layout.PROGRESS
    assert 4 <= layout.HEADERS <= layout.FLIGHT_ENTRIES
    assert layout.SEMAPHORE + 32 <= layout.TABLES
    assert layout.FLIGHT_STATE + 8 == layout.FLIGHT_BYTES
    assert layout.RECORD_TEXT + layout.RECORD_TEXT_BYTES == layout.RECORD_COMPILING == layout.RECORD_BYTES - layout.WORD


@pytest.mark.parametrize("ranks", SIZES)
def test_a_table_holds_its_rows(ranks: int) -> None:
    assert layout.table_bytes(ranks) >= 8 * (5 * ranks + 3)


def test_an_arena_of_8_ranks_fits_dockers_default() -> None:
    assert layout.arena_bytes(8, CELL) < 48 << 20


@pytest.mark.parametrize(("offset", "unit", "expected"), [(0, 64, 0), (1, 64, 64), (64, 64, 64), (4097, 4096, 8192)])
def test_align(offset: int, unit: int, expected: int) -> None:
    assert layout.align(offset, unit) == expected


def test_words_of_the_context_do_not_overlap() -> None:
    named = [context.ACTIVE, context.RINGS]
    assert named == [0, 41 * 8]
    assert max(*named, context.HELPERS) < context.X
    assert context.X + context.DTYPE < context.OUT
    assert context.OUT + context.DTYPE < context.EXTRA
    assert context.EXTRA + 8 * context.EXTRA_WORDS <= 8 * context.CONTEXT_WORDS
    words = [(name, place) for names in assigned_words() for name, place in names]
    places = [place for _, place in words]
    assert len(places) > 80
    assert [name for name, place in words if places.count(place) > 1] == []
    assert max(places) < context.X


def assigned_words() -> Iterator[list[tuple[str, int]]]:
    """The names of words in front of the arrays, and where they are: those of `N * WORD`, and of `WORD * i for i`."""
    for node in ast.parse(Path(str(context.__file__)).read_text()).body:
        if isinstance(node, ast.Assign) and "WORD" in ast.unparse(node.value):
            names = [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)]
            if not {"X", "OUT", "DATA", "EXTRA"} & set(names):
                yield [(name, getattr(context, name)) for name in names]
