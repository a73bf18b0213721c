"""Messages take every dtype that moves take: every way to send, and every way to receive."""

from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.conformance.test_any_dtype import DTYPES, drawn, same

LONG = 40_000  # rows: more than a ring has room for


def messages(comm: Any, number: int, rows: int) -> list[str]:
    dtype, me, told = DTYPES[number], comm.rank, []
    after, before = (me + 1) % comm.size, (me - 1) % comm.size
    x, wanted = drawn(dtype, rows, me), drawn(dtype, rows, before)

    def expect(what: str, got: Any, to_be: np.ndarray = wanted) -> None:
        if not same(np.asarray(got), to_be):
            told.append(f"{dtype}, {rows} rows: {what}")

    sends = {
        "send": lambda: comm.send(x, after, 1),
        "later": lambda: comm.send(x, after, 1, async_op=True),
        "synchronous": lambda: comm.send(x, after, 1, synchronous=True, async_op=True),
        "batch": lambda: comm.batch([shmcoll.Send(x, after, 1)])[0],
        "plan": lambda: comm.plan("send", x, after, 1).start(),
        "swapped": lambda: comm.send(x.astype(dtype.newbyteorder()), after, 1),
        "strided": lambda: comm.send(np.asfortranarray(x), after, 1),
    }
    receives = {
        "recv": lambda: comm.recv(None, before, 1)[0],
        "any source": lambda: comm.recv(tag=1)[0],
        "out": lambda: comm.recv(np.zeros_like(wanted), before, 1)[0],
        "longer out": lambda: comm.recv(np.zeros((rows + 1, 3), dtype), before, 1)[0].reshape(wanted.shape),
        "strided out": lambda: comm.recv(np.zeros((rows, 6), dtype)[:, ::2], before, 1)[0],
        "posted": lambda: comm.recv(None, before, 1, async_op=True).wait(30)[0],
        "posted out": lambda: comm.recv(np.zeros_like(wanted), shmcoll.ANY, 1, async_op=True).wait(30)[0],
        "batch": lambda: comm.batch([shmcoll.Recv(np.zeros_like(wanted), before, 1)])[0].wait(30)[0],
        "plan": lambda: comm.plan("recv", np.zeros_like(wanted), before, 1)()[0],
        "mprobe": lambda: comm.mprobe(before, 1).recv(),
        "mprobe, out": lambda: comm.mprobe(before, 1).recv(np.zeros_like(wanted)),
    }
    for how, send in sends.items():
        for what, receive in receives.items() if how == "send" else list(receives.items())[:3]:
            work = send() if rows < LONG or how != "send" else sends["later"]()
            expect(f"{how}, {what}", receive())
            if work is not None:
                work.wait(30)
    for later in (False, True):
        for out, in_place in ((None, False), (np.zeros_like(wanted), False), (x.copy(), True)):
            sent = out if in_place else x
            got = comm.sendrecv(sent, after, out, before, async_op=later)
            expect(f"sendrecv, {later}", (got.wait(30) if later else got)[0])
    comm.send(x, me, 2)
    expect("to itself", comm.recv(source=me, tag=2)[0], x)
    return told


@pytest.mark.parametrize("number", range(len(DTYPES)), ids=[str(dtype)[:30] for dtype in DTYPES])
def test_every_way_to_send_and_to_receive(ranks, number):
    for told in ranks(3, messages, number, 2):
        assert not told, "\n".join(told)


@pytest.mark.parametrize("number", [0, 2, 9])
def test_long_messages(ranks, number):
    for told in ranks(2, messages, number, LONG):
        assert not told, "\n".join(told)


def descriptions(comm: Any) -> None:
    """A probe tells dtype and shape; what does not fit stays, and the error names both dtypes."""
    other = 1 - comm.rank
    x = np.array([["ab", "cde"]])
    comm.send(x, other)
    assert comm.probe(other)[2:] == (np.dtype("<U3"), (1, 2))
    for out, kind, words in (
        (np.zeros(2, "U4"), TypeError, "<U4"),
        (np.zeros(24, np.uint8), TypeError, "uint8"),
        (np.zeros(1, "U3"), ValueError, "room for 1"),
        (np.zeros(2), TypeError, "float64"),
    ):
        for later in (False, True):
            with pytest.raises(kind) as error:
                comm.recv(out, other, async_op=True).wait(30) if later else comm.recv(out, other)
            assert "<U3" in str(error.value) or kind is ValueError, error.value
            assert words in str(error.value), error.value
            assert not out.any(), out
    with pytest.raises(TypeError):
        comm.recv_object(other)
    assert comm.recv(source=other)[0].tolist() == x.tolist()
    comm.send(np.zeros(24, np.uint8), other)
    with pytest.raises(TypeError, match="uint8"):
        comm.recv(np.zeros(2, "U3"), other)
    assert comm.recv(source=other)[0].dtype == np.uint8
    # without elements, without bytes, without dimensions
    for one in (np.zeros((0, 3), "U3"), np.zeros(2, "S0"), np.array("abc"), np.zeros((), "M8[s]"), np.str_("text")):
        comm.send(one, other)
        got = comm.recv(source=other)[0]
        assert (got.dtype, got.shape, got.tolist()) == (one.dtype, one.shape, one.tolist()), (one, got)
    many = np.zeros(2, [(f"field {i}", "f8") for i in range(600)])
    with pytest.raises(TypeError, match=r"more fields than a message can describe; use comm\.send_object"):
        comm.send(many, other)
    comm.barrier()


def test_what_a_message_says_of_its_array(ranks):
    ranks(2, descriptions)


def neighbours(comm: Any) -> None:
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    with comm.graph([before], [after]) as ring:
        x = np.array([f"rank {comm.rank}"])
        assert ring.all_gather(x).tolist() == [f"rank {before}"]
        assert ring.all_to_all(x, out=np.zeros(1, x.dtype), async_op=True).wait(30).tolist() == [f"rank {before}"]
        assert ring.all_gather_v(x)[0].tolist() == [f"rank {before}"]
        assert ring.all_to_all_v(x, [1])[0].tolist() == [f"rank {before}"]


def test_neighbours(ranks):
    ranks(3, neighbours)
