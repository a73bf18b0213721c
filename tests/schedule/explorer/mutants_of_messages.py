"""Seeded bugs in what carries messages between two ranks: see `mutants.py`."""

from tests.schedule.explorer.mutants import Mutant

MUTANTS_OF_MESSAGES = {
    "a message is published before it is laid": Mutant(
        "put_first_part",
        "    copy_part(ctx, peer, at + head, 0, length)\n"
        "    what = pack_piece(r.FIRST, peek(ctx + c.X + c.DTYPE), dimensions)\n"
        "    publish_piece(ctx, peer, what, peek(ctx + c.X + c.BYTES), length, whole_units(head + length))\n",
        "    what = pack_piece(r.FIRST, peek(ctx + c.X + c.DTYPE), dimensions)\n"
        "    publish_piece(ctx, peer, what, peek(ctx + c.X + c.BYTES), length, whole_units(head + length))\n"
        "    copy_part(ctx, peer, at + head, 0, length)\n",
        "a message",
    ),
    "the flag behind a piece keeps old bytes": Mutant(
        "publish_piece",
        "    store(piece(ring, capacity, tail + whole) + layout.PIECE_FLAG, 0)\n",
        "",
        "messages that look like flags",
        sampled=True,
    ),
    "no room is left for what must always fit": Mutant(
        "make_room", "needed + r.SPARE", "needed", "long messages both ways", sampled=True
    ),
    "a message that waits without memory begins again": Mutant(
        "begin_or_continue",
        "    if memory == STAY:\n",
        "    poke(chain + r.SENT, r.NOTHING_SENT)\n    if memory == STAY:\n",
        "a message without memory",
        sampled=True,
    ),
    "a sender waits for who does not read": Mutant(
        "await_receiver",
        "return ask_for_ring(ctx, peer)\n        limit",
        "pass\n        limit",
        "long messages both ways", sampled=True,
    ),
    "a receiver promises to read what is not at HEAD": Mutant(
        "begin_to_read",
        "if is_first and length_at_cursor",
        "if length_at_cursor",
        "a long message before its turn",
        sampled=True,
    ),
    "the parts of a long message are laid on one another": Mutant(
        "read_message.read_piece",
        "copy_part(ctx, done, total)",
        "copy_part(ctx, 0, total)",
        "a message longer than the ring",
        sampled=True,
    ),
    "a batch takes a message that has not come": Mutant(
        "fetch_soon", " or not find(ctx, source, 0))", ")", "batches"
    ),
    "a batch reads a message that is for another receive": Mutant(
        "fetch_soon",
        "if not find(",
        "if not find_from(ctx, source, layout.ANY, 0) and not find(",
        "batches",
    ),
    "HEAD passes what is still wanted": Mutant(
        "find_from",
        "            skip_piece(ctx)\n",
        "            consume_piece(ctx, source, 0)\n",
        "messages by tag",
    ),
    "what has been taken is found again": Mutant(
        "has_message",
        " and load(piece_at_cursor(ctx) + layout.PIECE_TAKEN) != r.TAKEN",
        "",
        "a message taken before its turn is gone",
    ),
    "a synchronous message is read in its turn unnoticed": Mutant(
        "begin_to_read",
        "if load(taken) == r.AWAITED:",
        "if load(taken) == r.AWAITED and not is_first:",
        "a synchronous message",
    ),
    "a synchronous message is read before its turn unnoticed": Mutant(
        "begin_to_read",
        "publish_to(ctx, taken, r.TAKEN, source)",
        "pass",
        "a synchronous message before its turn",
    ),
    "the receiver acknowledges what it has only found": Mutant(
        "note_found",
        "    poke(found + r.DONE, r.UNREAD)\n",
        "    poke(found + r.DONE, r.UNREAD)\n    store(first + layout.PIECE_TAKEN, r.TAKEN)\n",
        "a synchronous message that is only found",
    ),
    "a sender does not see that its message was overwritten": Mutant(
        "ring_buffers.has_begun",
        "    if load_acquire(ring + layout.RING_HEAD) > at:\n        return True\n",
        "",
        "a synchronous message that was overwritten",
        sampled=True,
    ),
    "HEAD at a message counts as past it": Mutant(
        "ring_buffers.has_begun", "> at", ">= at", "a synchronous message that is only found"
    ),
    "a receiver that has read a message and left is lost": Mutant(
        "look_for_begin",
        "if has_begun(peek(where), peek(where + WORD)) else status",
        "if status == c.OK and has_begun(peek(where), peek(where + WORD)) else status",
        "a synchronous message to a rank that returns",
    ),
    "only who is waited for by name rings": Mutant(
        "wake_one", " or parked == EVERYBODY", "", "messages of anybody", sampled=True
    ),
    "a wait for several looks at the first": Mutant(
        "has_come", "range(wanted)", "range(1)", "messages of anybody", sampled=True
    ),
    "the mark moves with each try": Mutant(
        "try_to_find", "NOWHERE", "0", "a posted receive"
    ),
    "a receiver waits for the first piece of a chain only": Mutant(
        "skip_piece", "kind_at_cursor(ctx) == r.NEXT", "False", "long messages both ways",
        sampled=True
    ),
    "each piece begins the message again": Mutant(
        "read_message.read_piece", "if peek(found + r.DONE) == r.UNREAD:", "if True:", "sendrecv",
        sampled=True
    ),
    "a message is stored that does not fit": Mutant(
        "can_store",
        "return bytes_with_heads(ctx, peek(ctx + c.X + c.BYTES)) + r.PART_BYTES <= room",
        "return 1",
        "messages stored until there is no room",
        sampled=True,
    ),
    "a message that is stored at once is offered": Mutant(
        "put_parts", "if begins and not stores(ctx) else 0", "if begins else 0", "a message stored at once in the arena"
    ),
    "a sender that must not wait asks for too short a ring": Mutant(
        "begin_or_continue",
        "if stores(ctx) and not can_store(ctx, peer, another):",
        "if stores(ctx) and another == 0 and not can_store(ctx, peer, another):",
        "a message too long to be stored at once",
        sampled=True,
    ),
    "a message counts as whole without its last piece": Mutant(
        "is_whole_soon",
        "    set_cursor(ctx, ring, at)\n    return done >= total",
        "    set_cursor(ctx, ring, at)\n    return 1",
        "a message that may be there as a whole",
        sampled=True,
    ),
    "the look for all of a message does not go back": Mutant(
        "is_whole_soon",
        "    set_cursor(ctx, ring, at)\n",
        "",
        "a message that is there as a whole",
        sampled=True,
    ),
    "an offered message counts as whole": Mutant(
        "is_whole_soon",
        "if length_at_cursor(ctx) == 0 or total",
        "if length_at_cursor(ctx) == 0:\n        return 1\n    if total",
        "an offered message that is no whole",
        sampled=True,
    ),
}  # fmt: skip
