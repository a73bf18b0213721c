"""The blocks of a rank's part of the arena for ordinary numpy arrays, as native code allocates and frees them.

The pool. Each rank has one, in its heap (`Heap.reserve`): addresses without memory, BASE to END. It is divided into
units of 1 << SHIFT bytes, and the units below TOP into blocks. A block is in use, or one of two kinds of free:

    KEPT    it has memory, with anything in it. It is used again as it is: loops of temporaries fault no pages
    HOLE    it has no memory and reads as zero

Free neighbours of one kind are one block. The records have some words per unit: SPAN and KIND of a block at its first
unit, and FIRST at its last one; NEXT and PREVIOUS, in the list of its size and kind, at the first unit of a free block;
SINCE at that of a block in use. Sizes are in classes, of which each power of two has four. Lists are last in, first
out, because the cache still has the latest block. Neither the records nor the state are in the arena: both are private
memory, and no other rank knows them.

    take      a KEPT block, or else a HOLE or new units at TOP, to which memory is committed. What is left of a block
              that is too long is a free block
    release   the block becomes KEPT. If the rank then keeps more than KEEP units, this block gives its memory back

Accounting. Two words of the arena count the memory of each rank: HELD that of its heap, ARRAYS that of its blocks in
use and KEPT. Only the rank itself writes them. It raises ARRAYS before it commits memory. Then it adds the words of all
ranks, behind a fence. If the sum is above LIMIT, it lowers ARRAYS again. So if two ranks take the last bytes at the
same time, both may be refused, but the limit is never exceeded. LIMIT is three quarters of the job's limit; the last
quarter is left to groups, messages and arrays of `comm.empty`. A rank that is refused gives all its KEPT blocks back,
and tries once more. No rank waits for memory: `take` returns 0, and the array becomes a private one.

Memory is committed after the lock has been released, because that takes long; the block belongs to its thread by then.

Threads. numpy allocates in any thread, with the GIL or without it. MUTEX is a pthread mutex in the private state, and
its holder calls nothing but libc. So it always gets done, whatever the interpreter does meanwhile.

Readers. Other ranks read a block only within a collective. The call of its owner refers to the array, and returns when
all ranks have read what they need. So no block is released while another rank reads it, except when the group ends.
Then the reader may read other bytes. It finds that the group has ended, and returns no result.

Fork. The child has copies of the state and the records, and shares the pool itself. ALIVE is the address of a word
that is 0 in a child (MADV_WIPEONFORK; `ArraySharing` clears it too). A child allocates private memory, and a block that
it frees stays as it is; so it never takes the mutex, which another thread may have held during the fork. The child can
still read a block that its parent has freed. Therefore each block notes the FORKS that there had been when it was
taken. If there has been another fork since then, the block is never used again: it is counted as WITHHELD.
"""

from shmcoll.engine.atomics import call, fence, load, peek, poke, store
from shmcoll.engine.layout import ARRAYS, ARRAYS_PEAK, DIRECTORY_BYTES, HELD, UNFIT, UNFIT_BYTES, WORD
from shmcoll.engine.memory.pages import HUGE, MADV_COLLAPSE

(
    ALIVE,  # address of a word: 1 in the rank, 0 in a process that it has forked
    BASE,
    END,
    SHIFT,
    TOP,  # units, so below
    KEEP,
    KEPT_UNITS,
    USED_UNITS,
    USED_BLOCKS,
    WITHHELD,
    FORKS,
    RECORDS,  # address of the records
    OWN,  # address of this rank's directory
    DIRECTORIES,  # address of that of rank 0
    RANKS,
    LIMIT,  # bytes
    COMMIT_BY,  # advice by which madvise commits memory, or 0: by a system call for each page
    PAGE,  # bytes
    LOCK, UNLOCK, MADVISE, MEMSET, TOUCH,  # addresses of functions of libc
    THRESHOLD, CONTEXT, MALLOC, CALLOC, REALLOC, FREE, USABLE,  # see `array_allocator.py`
) = (WORD * i for i in range(30))  # fmt: skip
MUTEX = 32 * WORD
CLASSES = 128
LISTS = 40 * WORD  # CLASSES words of KEPT blocks, then of HOLEs: 1 + the first unit of the first block, or 0
STATE_BYTES = LISTS + 2 * CLASSES * WORD

SPAN, KIND, NEXT, PREVIOUS, FIRST, SINCE = (WORD * i for i in range(6))
RECORD_BYTES = 8 * WORD
KEPT, HOLE, USED = range(3)

MADV_REMOVE = 9
MOST_LOOKS = 16  # at blocks of the class of a request; those of the classes above are all long enough
CLEAN = 1  # added to an address: the block reads as zero


def take(state, length):
    """Return the address of a block of `length` bytes, plus CLEAN if it reads as zero; 0 if there is no memory."""
    units = units_for(state, length)
    call(peek(state + LOCK), state + MUTEX, 0, 0)
    unit = find(state, KEPT, units)
    kept = unit >= 0
    if not kept and admit(state, units):
        unit = find_addresses(state, units)
        if unit < 0:
            count_held(state, -units)
    if unit >= 0:
        use(state, unit, units, KEPT if kept else HOLE)
    call(peek(state + UNLOCK), state + MUTEX, 0, 0)
    if unit < 0:
        return 0
    address = address_of(state, unit)
    if kept:
        return address
    if commit(state, address, units << peek(state + SHIFT)):
        return address + CLEAN
    call(peek(state + LOCK), state + MUTEX, 0, 0)
    retire(state, unit)
    settle_hole(state, unit, units)
    call(peek(state + UNLOCK), state + MUTEX, 0, 0)
    return 0


def release(state, address):
    """Free the block at an address."""
    call(peek(state + LOCK), state + MUTEX, 0, 0)
    unit = unit_at(state, address)
    units = peek(record(state, unit) + SPAN)
    if peek(record(state, unit) + SINCE) != peek(state + FORKS):
        poke(state + WITHHELD, peek(state + WITHHELD) + units)
    else:
        retire(state, unit)
        keep(state, unit, units)
    call(peek(state + UNLOCK), state + MUTEX, 0, 0)


def shorten(state, address, length):
    """Free the end of a block that needs only `length` bytes."""
    call(peek(state + LOCK), state + MUTEX, 0, 0)
    unit, units = unit_at(state, address), units_for(state, length)
    rest = peek(record(state, unit) + SPAN) - units
    if rest > 0 and peek(record(state, unit) + SINCE) == peek(state + FORKS):
        mark(state, unit, units, USED)
        poke(state + USED_UNITS, peek(state + USED_UNITS) - rest)
        keep(state, unit + units, rest)
    call(peek(state + UNLOCK), state + MUTEX, 0, 0)


def length_of(state, address):
    """Return the bytes of the block in use at an address."""
    return peek(record(state, unit_at(state, address)) + SPAN) << peek(state + SHIFT)


def note_unfit(state, length):
    """Count an array that became a private one."""
    call(peek(state + LOCK), state + MUTEX, 0, 0)
    own = peek(state + OWN)
    store(own + UNFIT, load(own + UNFIT) + 1)
    store(own + UNFIT_BYTES, load(own + UNFIT_BYTES) + length)
    call(peek(state + UNLOCK), state + MUTEX, 0, 0)


# --- units and records ------------------------------------------------------------------------------------------------


def units_for(state, length):
    return (length + (1 << peek(state + SHIFT)) - 1) >> peek(state + SHIFT)


def unit_at(state, address):
    return (address - peek(state + BASE)) >> peek(state + SHIFT)


def address_of(state, unit):
    return peek(state + BASE) + (unit << peek(state + SHIFT))


def record(state, unit):
    return peek(state + RECORDS) + unit * RECORD_BYTES


def mark(state, unit, units, kind):
    poke(record(state, unit) + SPAN, units)
    poke(record(state, unit) + KIND, kind)
    poke(record(state, unit + units - 1) + FIRST, unit)


def use(state, unit, units, kind):
    """Make the beginning of a free block of a kind a block in use."""
    rest = detach(state, unit, kind) - units
    mark(state, unit, units, USED)
    poke(record(state, unit) + SINCE, peek(state + FORKS))
    if rest:
        mark(state, unit + units, rest, kind)
        attach(state, unit + units, kind)
    if kind == KEPT:
        poke(state + KEPT_UNITS, peek(state + KEPT_UNITS) - units)
    poke(state + USED_UNITS, peek(state + USED_UNITS) + units)
    poke(state + USED_BLOCKS, peek(state + USED_BLOCKS) + 1)


def retire(state, unit):
    """Count a block in use no more."""
    poke(state + USED_UNITS, peek(state + USED_UNITS) - peek(record(state, unit) + SPAN))
    poke(state + USED_BLOCKS, peek(state + USED_BLOCKS) - 1)


# --- free blocks ------------------------------------------------------------------------------------------------------


def list_of(state, kind, units):
    """Return the address of the list for free blocks of a size."""
    level = 0
    while units >> level >= 8:
        level += 1
    return state + LISTS + (kind * CLASSES + 4 * level + (units >> level)) * WORD


def find(state, kind, units):
    """Return the first unit of a free block of at least `units` units, or -1."""
    place = list_of(state, kind, units)
    unit = peek(place) - 1
    looks = 0
    while unit >= 0 and looks < MOST_LOOKS:
        if peek(record(state, unit) + SPAN) >= units:
            return unit
        unit = peek(record(state, unit) + NEXT) - 1
        looks += 1
    end = state + LISTS + (kind + 1) * CLASSES * WORD
    place += WORD
    while place < end:
        if peek(place):
            return peek(place) - 1
        place += WORD
    return -1


def attach(state, unit, kind):
    """Enter a free block in the list of its size."""
    here = record(state, unit)
    head = list_of(state, kind, peek(here + SPAN))
    poke(here + PREVIOUS, 0)
    poke(here + NEXT, peek(head))
    if peek(head):
        poke(record(state, peek(head) - 1) + PREVIOUS, unit + 1)
    poke(head, unit + 1)


def detach(state, unit, kind):
    """Remove a free block from its list. Returns its units."""
    here = record(state, unit)
    before, after = peek(here + PREVIOUS), peek(here + NEXT)
    if before:
        poke(record(state, before - 1) + NEXT, after)
    else:
        poke(list_of(state, kind, peek(here + SPAN)), after)
    if after:
        poke(record(state, after - 1) + PREVIOUS, before)
    return peek(here + SPAN)


def settle(state, unit, units, kind):
    """Make units a free block, together with free neighbours of its kind. Returns its first unit."""
    after = unit + units
    if after < peek(state + TOP) and peek(record(state, after) + KIND) == kind:
        units += detach(state, after, kind)
    if unit > 0:
        before = peek(record(state, unit - 1) + FIRST)
        if peek(record(state, before) + KIND) == kind:
            units += detach(state, before, kind)
            unit = before
    mark(state, unit, units, kind)
    attach(state, unit, kind)
    return unit


def keep(state, unit, units):
    """Make units that are used no more a KEPT block. If there are too many of these, give its memory back."""
    poke(state + KEPT_UNITS, peek(state + KEPT_UNITS) + units)
    unit = settle(state, unit, units, KEPT)
    if peek(state + KEPT_UNITS) > peek(state + KEEP):
        punch(state, unit)


# --- memory -----------------------------------------------------------------------------------------------------------


def admit(state, units):
    """Count memory for some units if that is within the limit. Returns whether it is."""
    if is_within(state, units):
        return 1
    purge(state)
    return is_within(state, units)


def is_within(state, units):
    count_held(state, units)
    fence()
    total = 0
    for rank in range(peek(state + RANKS)):
        directory = peek(state + DIRECTORIES) + rank * DIRECTORY_BYTES
        total += load(directory + HELD) + load(directory + ARRAYS)
    if total <= peek(state + LIMIT):
        own = peek(state + OWN)
        if load(own + ARRAYS) > load(own + ARRAYS_PEAK):
            store(own + ARRAYS_PEAK, load(own + ARRAYS))
        return 1
    count_held(state, -units)
    return 0


def count_held(state, units):
    own = peek(state + OWN)
    store(own + ARRAYS, load(own + ARRAYS) + (units << peek(state + SHIFT)))


def find_addresses(state, units):
    """Return the first unit of a HOLE of at least `units` units; -1 if all addresses are in use."""
    unit = find_hole(state, units)
    if unit < 0:
        purge(state)  # what was between two HOLEs is one with them now
        unit = find_hole(state, units)
    return unit


def find_hole(state, units):
    """Return the first unit of a HOLE, if necessary of a new one at TOP; or -1."""
    unit, top = find(state, HOLE, units), peek(state + TOP)
    if unit < 0 and units <= unit_at(state, peek(state + END)) - top:
        poke(state + TOP, top + units)
        unit = settle(state, top, units, HOLE)
    return unit


def purge(state):
    """Give the memory of all KEPT blocks back."""
    for i in range(CLASSES):
        place = state + LISTS + (KEPT * CLASSES + i) * WORD
        while peek(place):
            if not punch(state, peek(place) - 1):
                return


def punch(state, unit):
    """Give the memory of a KEPT block back: it becomes a HOLE. Returns 0 if the system does not take it, as for locked
    memory; then the block stays."""
    units = peek(record(state, unit) + SPAN)
    if call(peek(state + MADVISE), address_of(state, unit), units << peek(state + SHIFT), MADV_REMOVE) & 0xFFFFFFFF:
        return 0
    detach(state, unit, KEPT)
    poke(state + KEPT_UNITS, peek(state + KEPT_UNITS) - units)
    settle_hole(state, unit, units)
    return 1


def settle_hole(state, unit, units):
    """Make units whose memory has been given back a HOLE. A HOLE at TOP lowers TOP."""
    count_held(state, -units)
    unit = settle(state, unit, units, HOLE)
    units = peek(record(state, unit) + SPAN)
    if unit + units == peek(state + TOP):
        detach(state, unit, HOLE)
        poke(state + TOP, unit)


def make_huge(state, begin, end, advice):
    """Commit the whole huge pages of a range, if the kernel makes them: see `engine/memory/pages.py`."""
    begin, end = (begin + HUGE - 1) & -HUGE, end & -HUGE
    if end - begin > HUGE:
        for page in range(begin, end, HUGE):
            if call(peek(state + MADVISE), page, peek(state + PAGE), advice) & 0xFFFFFFFF:
                return
        call(peek(state + MADVISE), begin, end - begin, MADV_COLLAPSE)


def commit(state, address, length):
    """Back memory that reads as zero with pages. Returns 0, and leaves no page, if there is too little memory."""
    advice = peek(state + COMMIT_BY)
    if advice:
        make_huge(state, address, address + length, advice)
        given = call(peek(state + MADVISE), address, length, advice) & 0xFFFFFFFF == 0
    else:
        given = True
        page = address
        while given and page < address + length:
            # The system stores three numbers, and fails if there is no memory for the page
            given = call(peek(state + TOUCH), page, page, page) & 0xFFFFFFFF == 0
            if given:
                poke(page, 0)
            page += peek(state + PAGE)
    if not given:
        call(peek(state + MADVISE), address, length, MADV_REMOVE)
    return given
