"""What is said of messages when something is wrong with them."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from shmcoll.diagnostics.describe_call import receives
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_CODE, BY_NUMPY
from shmcoll.engine.layout import ANY, WORD
from shmcoll.engine.memory.group import Group
from shmcoll.engine.messages.buffers import MessageBuffers, SeenMessages
from shmcoll.engine.messages.ring_buffers import ARRAY, FOREIGN
from shmcoll.engine.messages.send import GIVE_UP

_SHOWN = 8  # at most so many different tags


def missing_message(group: Group, words: np.ndarray, operation: str, mail: MessageBuffers) -> str:
    """Return for which rank a call has waited without success, and which messages have arrived instead."""
    peer, tag = words.item(c.ARGUMENT // WORD), words.item(c.ARGUMENT_2 // WORD)
    if not receives(operation):
        if words.item(c.SEND_MEMORY // WORD) == GIVE_UP:
            return f"rank {group.name(peer)} has not begun to receive this synchronous message"
        return f"rank {group.name(peer)} has begun to receive this message and does not continue"
    me = words.item(c.RANK // WORD)
    sources = [rank for rank in range(group.size) if rank != me] if peer == ANY else [peer]
    what = "nothing that has not been received" if tag == ANY else f"nothing with tag {tag}"
    told = f"{group.names(sources)} {'has' if len(sources) == 1 else 'have'} sent {what}"
    return told + what_waits(group, sources, mail)


def what_waits(group: Group, sources: Iterable[int], mail: MessageBuffers | SeenMessages) -> str:
    """Return ' (waiting to be received: from rank 1: 2 with tag 7)'; empty if no message of these ranks is."""
    waiting = messages_of(group, sources, mail)
    return f" (waiting to be received: {waiting})" if waiting else ""


def messages_of(group: Group, sources: Iterable[int], mail: MessageBuffers | SeenMessages) -> str:
    """Return 'from rank 1: 2 with tag 7': the messages of these ranks that have arrived; empty if none has."""
    told = [f"from rank {group.name(source)}: {_tags(tags)}" for source in sources if (tags := mail.waiting(source))]
    return "; ".join(told)


def _tags(tags: list[int]) -> str:
    counts = Counter(tags)
    shown = [f"{n} with tag {tag}" for tag, n in list(counts.items())[:_SHOWN]]
    return ", ".join(shown) + (", and others" if len(counts) > _SHOWN else "")


def misfit(call: str, group: Group, words: np.ndarray, mail: MessageBuffers) -> Exception:
    """Return the error for a message of another kind than the receive expects, or that does not fit its `out`."""
    source, tag = mail.found
    sent = f"the next message, from rank {group.name(source)} with tag {tag},"
    if mail.found_object:
        return TypeError(f"{call}: {sent} is an object of {mail.found_count} bytes. It stays: use recv_object")
    found = mail.found_dtype
    sent = f"{sent} has {mail.found_count} x {_title(found)}"
    if words.item(c.FORM // WORD) not in (ARRAY, FOREIGN):
        return TypeError(f"{call}: {sent}; it is not an object. It stays: use recv")
    out = BY_CODE[words.item((c.OUT + c.DTYPE) // WORD)].numpy, words.item((c.OUT + c.COUNT) // WORD)
    (dtype, count), mail.expected = mail.expected or out, None
    kind = TypeError if dtype != found else ValueError
    return kind(
        f"{call}: {sent}, out has room for {count} x {_title(dtype)}. It stays: receive it without out, or into one "
        f"that it fits"
    )


def _title(dtype: np.dtype) -> str:
    return BY_NUMPY[dtype].title if dtype in BY_NUMPY else str(dtype)


def from_itself(call: str) -> str:
    return (
        f"{call}: no message that this rank has sent to itself fits, and it cannot send one while it waits; send first"
    )
