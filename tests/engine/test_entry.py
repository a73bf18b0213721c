"""How calls get into routines: what the native entry reads itself, what it leaves to Python, and its two forms."""

import threading

import numpy as np
import pytest

from shmcoll.collectives import RECORDS
from shmcoll.communicator.object_rows import GOES_ON, ROOM
from shmcoll.engine import context as c
from shmcoll.engine.collective import PEER
from shmcoll.engine.kernels.dtypes import DTYPES
from shmcoll.engine.layout import COMPOSITE_NAMES, WORD
from shmcoll.engine.messages.recv import FETCH
from shmcoll.engine.messages.ring_buffers import ARRAY, PART_BYTES
from shmcoll.engine.messages.send import BEGIN, BESIDE
from shmcoll.engine.native import entering, entry
from shmcoll.engine.native.tables import CALL_BITS, COMPOSITE, new_context
from tests.support import layouts, switches


def both_ways(ranks, monkeypatch, function) -> list:
    """What one rank says by the fast entry and by the plain one, which must be the same."""
    fast = ranks(1, function)[0]
    switches.use_entry(monkeypatch, fast=False)
    assert ranks(1, function)[0] == fast
    return fast


def test_the_fields_of_arrays_are_where_the_fast_entry_reads_them():
    assert entry.FAST, "this interpreter takes the slow way; is that meant?"


def test_the_two_forms_are_chosen_by_the_self_test(ranks, monkeypatch):
    def kinds(comm) -> set:
        return {type(comm._load(name)) is entry.PlainEntry for name in ("barrier", "all_reduce", "gather")}

    assert ranks(1, kinds) == [{False}]
    switches.use_entry(monkeypatch, fast=False)
    assert ranks(1, kinds) == [{True}]


def test_every_dtype_is_known(ranks, monkeypatch):
    def codes(comm) -> list[int]:
        seen = []
        for dtype in DTYPES:
            x = np.zeros(3, dtype.numpy)
            comm._load("gather")(x, x.copy(), 0, 0, 0, 0, 0)
            seen.append(int(comm._dispatcher.words[(c.X + c.DTYPE) // WORD]))
        for same_as_int64 in (np.longlong, np.ulonglong):
            comm._load("gather")(np.zeros(3, same_as_int64), np.zeros(3, same_as_int64), 0, 0, 0, 0, 0)
            seen.append(int(comm._dispatcher.words[(c.X + c.DTYPE) // WORD]))
        return seen

    codes_by_name = {d.name: d.code for d in DTYPES}
    wanted = [d.code for d in DTYPES] + [codes_by_name["int64"], codes_by_name["uint64"]]
    assert both_ways(ranks, monkeypatch, codes) == wanted


def test_what_is_read_of_an_array(ranks, monkeypatch):
    def views(comm) -> list:
        told = []
        for shape in ((), (0,), (7,), (2, 3, 4)):
            x = np.zeros(shape, np.float32)
            assert comm._load("gather")(x, np.zeros(max(x.size, 1), np.float32), 0, 0, 0, 0, 0) == c.OK
            words = comm._dispatcher.words[c.X // WORD :][:7].tolist()
            told.append([words[0] == x.ctypes.data, *words[1:5], words[6]])
        return told

    code = next(d.code for d in DTYPES if d.name == "float32")
    assert both_ways(ranks, monkeypatch, views) == [
        [True, 1, 4, 4, 0, code],
        [True, 0, 4, 0, 1, code],
        [True, 7, 4, 28, 1, code],
        [True, 24, 4, 96, 3, code],
    ]


def test_what_the_entry_does_not_read_is_left_to_python_and_nothing_is_done(ranks, monkeypatch):
    def statuses(comm) -> dict[str, int]:
        comm.all_reduce(np.zeros(6))
        x, out = np.zeros((3, 2)), np.zeros((3, 2))
        strange = {
            "None": (None, out),
            "no out": (x, None),
            "list": ([1, 2], out),
            "number": (1.5, out),
            "subclass": (layouts.subclass(x), out),
            "subclass out": (x, layouts.subclass(out)),
            "strided": (layouts.strided(x), out),
            "fortran": (layouts.fortran(x), out),
            "misaligned": (layouts.misaligned(x), out),
            "foreign": (layouts.foreign(x), out),
            "read-only out": (x, layouts.read_only(out)),
            "dtype": (x.astype("M8[s]"), out),
            "records": (np.zeros(3, "i4,i4"), out),
            "other dtype": (x, out.astype(np.float32)),
            "other shape": (x, out.T.copy()),
            "other dimensions": (x, out.reshape(-1)),
            "overlap": ((room := np.zeros(10))[:6], room[1:7]),
            "no kernel": (x.astype(np.int8), out.astype(np.int8)),
            "right": (x, out),
            "in place": (x, x),
            "read-only x": (layouts.read_only(x), out),
        }
        before = comm._dispatcher.words[c.SEQUENCE // WORD]
        told = {name: comm._load("all_reduce")(a, b, 1, 0, 0, 0) for name, (a, b) in strange.items()}
        told["calls"] = int(comm._dispatcher.words[c.SEQUENCE // WORD] - before)
        return told

    told = both_ways(ranks, monkeypatch, statuses)
    assert told.pop("calls") == 3
    right = {"right", "in place", "read-only x"}
    assert told == {name: c.OK if name in right else c.NEEDS_PYTHON for name in told}


def test_moves_that_the_entry_takes_itself(ranks, monkeypatch):
    def statuses(comm) -> dict[str, int]:
        x, out, room = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros(10)
        spread, collect, deal, swap = (
            comm._load("broadcast"),
            comm._load("all_gather"),
            comm._load("scatter"),
            comm._load("all_to_all"),
        )
        return {
            "broadcast": spread(x, x, 0, 0, 0, 0),
            "broadcast of read-only": spread(read_only := layouts.read_only(x), read_only, 0, 0, 0, 0),
            "broadcast of a list": spread([1], [1], 0, 0, 0, 0),
            "broadcast from nobody": spread(x, x, 0, 1, 0, 0),
            "broadcast from a bool": spread(x, x, 0, False, 0, 0),
            "all_gather": collect(x, out, 0, 0, 0, 0),
            "all_gather in place": collect(x, x, 0, 0, 0, 0),
            "all_gather that overlaps": collect(room[:6], room[1:7], 0, 0, 0, 0),
            "all_gather of 0-d": collect(np.zeros(()), np.zeros(1), 0, 0, 0, 0),
            "all_gather into a list": collect(x, [out], 0, 0, 0, 0),
            "all_gather into another shape": collect(x, out.reshape(2, 3), 0, 0, 0, 0),
            "scatter": deal(x, out, 0, 0, 0, 0),
            "scatter in place": deal(x, x, 0, 0, 0, 0),
            "scatter that overlaps": deal(room[:6], room[1:7], 0, 0, 0, 0),
            "scatter without out": deal(x, None, 0, 0, 0, 0),
            "scatter of a list": deal([x], out, 0, 0, 0, 0),
            "scatter into another dtype": deal(x, out.astype(int), 0, 0, 0, 0),
            "all_to_all in place": swap(x, x, 0, 0, 0, 0),
            "all_to_all that overlaps": swap(room[:6], room[1:7], 0, 0, 0, 0),
            "all_to_all of a list": swap([x], out, 0, 0, 0, 0),
        }

    told = both_ways(ranks, monkeypatch, statuses)
    taken = {"broadcast", "all_gather", "all_gather in place", "scatter", "scatter in place", "all_to_all in place"}
    assert told == {name: c.OK if name in taken else c.NEEDS_PYTHON for name in told}


def test_what_a_rank_off_the_root_gives_to_a_scatter(ranks, monkeypatch):
    """`out` twice, for what it expects and where it wants it; an x of its own, or no `out`, is left to Python."""

    def statuses(comm) -> list[int]:
        x, out = np.zeros(6), np.zeros(3)
        comm.scatter(x if comm.rank == 0 else None, out=out)
        others = [(x, out), (None, out), (x, None), (None, None)] if comm.rank else []
        told = [comm._load("scatter")(a, b, 0, 0, 0, 0) for a, b in others]
        told.append(comm._load("scatter")(out if comm.rank else x, out, 0, 0, 0, 0))
        return told

    wanted = [[c.OK], [c.NEEDS_PYTHON] * 4 + [c.OK]]
    assert ranks(2, statuses) == wanted
    switches.use_entry(monkeypatch, fast=False)
    assert ranks(2, statuses) == wanted


@pytest.mark.parametrize("fast", [True, False])
def test_who_may_enter(ranks, monkeypatch, fast):
    switches.use_entry(monkeypatch, fast=fast)

    def turns(comm) -> list[int]:
        words, me = comm._dispatcher.words, threading.get_ident()
        told = []
        for active, owner in (
            (0, 0), (0, me), (0, me + 1), (0, c.NOBODY), (0, c.RECEIVES_POSTED),
            (me, 0), (me + 1, 0), (-me, me), (c.ENDED, 0), (me, c.RECEIVES_POSTED),
        ):  # fmt: skip
            words[c.ACTIVE // WORD], words[c.OWNER // WORD] = active, owner
            told.append(comm._load("barrier")())
        words[c.ACTIVE // WORD] = words[c.OWNER // WORD] = 0
        return told

    busy, ok, alone = c.BUSY, c.OK, c.NOT_ALONE
    assert ranks(1, turns) == [[ok, ok, busy, busy, ok, busy, alone, busy, busy, busy]]


@pytest.mark.parametrize("fast", [True, False])
def test_which_collectives_are_not_alone(ranks, monkeypatch, fast):
    switches.use_entry(monkeypatch, fast=fast)

    def calls(comm) -> dict[str, tuple[int, int, int]]:
        words, me, other = comm._dispatcher.words, threading.get_ident(), threading.get_ident() + 4096
        code = RECORDS["scan"].code
        states = {  # ACTIVE, OWNER, COLLECTIVE, KIND
            "inside": (other, 0, 0, 0),
            "inside, beside a turn": (other, c.NOBODY, 0, 0),
            "between two phases": (-other, 0, 0, 0),
            "between two parts": (0, 0, other << CALL_BITS | 131, 0),
            "in the line": (0, c.NOBODY, other << CALL_BITS | 131, 0),
            "the worker": (other, other, 0, 0),
            "a message": (other, 0, 0, PEER),
            "the turn": (0, other, 0, 0),
            "this thread": (me, me, me << CALL_BITS | 131, 0),
            "parts of this thread": (0, me, me << CALL_BITS | 131, 0),
            "waits behind this turn": (0, me, other << CALL_BITS | 131, 0),
            "ended": (c.ENDED, 0, other << CALL_BITS | 131, 0),
        }
        told = {}
        for name, state in states.items():
            for word, value in zip((c.ACTIVE, c.OWNER, c.COLLECTIVE, c.KIND), state, strict=True):
                words[word // WORD] = value
            words[c.OPERATION // WORD], words[c.MET // WORD] = code, 0
            told[name] = (
                comm._load("barrier")(), divmod(words.item(c.MET // WORD), 1 << CALL_BITS)[1],
                comm._dispatcher.worker.turns.meets(),
            )  # fmt: skip
            words[: c.THREAD // WORD] = 0
        return told

    (told,) = ranks(1, calls)
    inside, parts = (c.NOT_ALONE, RECORDS["scan"].code, True), (c.NOT_ALONE, 131, True)
    assert told == {
        "inside": inside,
        "inside, beside a turn": inside,
        "between two phases": inside,
        "between two parts": parts,
        "in the line": parts,
        "the worker": (c.BUSY, 0, False),
        "a message": (c.BUSY, 0, False),
        "the turn": (c.BUSY, 0, False),
        "this thread": (c.BUSY, 0, False),
        "parts of this thread": (c.OK, 0, False),
        "waits behind this turn": (c.OK, 0, True),
        "ended": (c.BUSY, 0, False),
    }


@pytest.mark.parametrize("fast", [True, False])
def test_who_goes_on_with_other_parts(ranks, monkeypatch, fast):
    """COLLECTIVE is written when a row says that the call goes on, unless it is written or this thread has the turn."""
    switches.use_entry(monkeypatch, fast=fast)

    def calls(comm) -> dict[str, tuple[int, int]]:
        words, me, other = comm._dispatcher.words, threading.get_ident(), threading.get_ident() + 4096
        states = {  # OWNER, COLLECTIVE
            "by itself": (0, 0),
            "receives are posted": (c.RECEIVES_POSTED, 0),
            "within another call": (0, me << CALL_BITS | 132),
            "the turn": (me, 0),
            "the turn, before another thread": (me, other << CALL_BITS | 132),
        }
        told = {}
        for name, state in states.items():
            for what, length, number in (("", 10, 0), (", goes on", 10, GOES_ON), (", a long pickle", ROOM, 0)):
                words[c.OWNER // WORD], words[c.COLLECTIVE // WORD] = state
                call = comm._prepared("broadcast_object", 0)
                rows = call.free_rows()
                rows.put(bytes(length), (), number)
                status = call._entry(*rows.arguments)
                left = words.item(c.COLLECTIVE // WORD)
                told[name + what] = status, 0 if left == state[1] else left - (me << CALL_BITS)
                words[: c.THREAD // WORD] = 0
        return told

    (told,) = ranks(1, calls)
    code = COMPOSITE + COMPOSITE_NAMES.index("broadcast_object")
    for name, got in told.items():
        if "," not in name.removeprefix("the turn, before"):
            assert got == (c.OK, 0), name
        elif name.startswith(("by itself", "receives")):
            assert got == (c.GOES_ON_ALONE, code), name
        else:
            assert got == (c.GOES_ON, 0), name


@pytest.mark.parametrize("fast", [True, False])
def test_which_messages_wait_for_their_turn_behind_posted_receives(ranks, monkeypatch, fast):
    """A receive, and a send that may have to wait for its receiver. Whoever has the turn makes both."""
    switches.use_entry(monkeypatch, fast=fast)

    def calls(comm) -> dict[int, list[int]]:
        words, send, recv = comm._dispatcher.words, comm._load("send"), comm._load("recv")
        short, long = np.zeros(PART_BYTES, np.uint8), np.zeros(PART_BYTES + 1, np.uint8)
        told = {}
        for owner in (c.RECEIVES_POSTED, threading.get_ident()):
            comm.send(short, 0)
            comm.recv(short, 0)
            words[c.OWNER // WORD] = owner
            told[owner == c.RECEIVES_POSTED] = [
                recv(None, short, FETCH, 0, 0, ARRAY),
                send(short, None, BEGIN, 0, 0, ARRAY),
                send(long, None, BEGIN, 0, 0, ARRAY),
                send(long, None, BESIDE, 0, 0, ARRAY),
            ]
            words[c.ACTIVE // WORD] = words[c.OWNER // WORD] = 0
        return told

    (told,) = ranks(1, calls)
    assert told[True] == [c.BUSY, c.OK, c.BUSY, c.BUSY]
    assert c.BUSY not in told[False]


def test_who_is_inside_after_a_routine():
    me, words = 4711, new_context(1)
    ctx = words.ctypes.data

    def after(status: int, active: int = me, sending: int = 0) -> int:
        words[c.ACTIVE // WORD], words[c.SENDING // WORD] = active, sending
        return entering.active_after(ctx, status, me)

    ended = {c.ABORTED, c.TIMEOUT_PASSED, c.MISMATCH, c.PEER_LOST, c.INTERRUPTED, c.BROKEN, c.DEADLOCKED}
    assert after(c.OK) == after(c.NO_EFFECT) == after(c.REFUSED) == after(-1) == 0
    assert after(c.HALFWAY) == -me
    assert {after(status) for status in ended} == {c.ENDED}
    assert {after(status, sending=1) for status in (c.OK, c.NO_EFFECT, -1)} == {-me}, "a recv beside a send"
    assert {after(status, c.ENDED) for status in (c.OK, c.HALFWAY, c.REFUSED, -1)} == {c.ENDED}, "ended by another"


def test_other_threads_run_while_a_rank_waits(ranks):
    """The GIL is released in a wait."""

    def waiting(comm) -> int:
        if comm.rank == 0:
            done, count = threading.Event(), 0

            def wait() -> None:
                comm.barrier()
                done.set()

            thread = threading.Thread(target=wait)
            thread.start()
            while not comm._dispatcher.words[c.ACTIVE // WORD]:
                pass
            while count < 1000:
                count += 1
            comm.abort("seen enough")
            thread.join()
            return count
        while True:
            comm.timeout = 20
            comm._local_rank.arena.load(comm._local_rank.arena.world)
            if comm._local_rank.arena.load(comm._local_rank.arena.world):
                return 1000

    outcomes = ranks.outcomes(2, waiting)
    assert [o.value for o in outcomes] == [1000, 1000]


def test_results_have_their_own_references(ranks):
    """A call neither keeps nor loses references to its arguments, and small status numbers stay what they are."""

    def counts(comm) -> list[int]:
        import sys

        x, out, op = np.zeros(3), np.zeros(3), "sum"
        comm.all_reduce(x, op, out=out)
        before = [sys.getrefcount(o) for o in (x, out, op)]
        for _ in range(1000):
            comm.all_reduce(x, op, out=out)
            comm.barrier()
        return [now - then for now, then in zip([sys.getrefcount(o) for o in (x, out, op)], before, strict=True)]

    assert ranks(1, counts) == [[0, 0, 0]]
