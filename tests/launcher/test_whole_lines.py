"""What several ranks print on one screen: lines are whole, what one `print` brings is together, and nothing is late."""

import os
import pty
import select
import subprocess
import sys
import termios

import pytest
from shmrun.watch.output import HOLD, LINGER, MOST_HOLD, QUIET, TURN, Sink, Stream

BLOCKS = """
    import os, sys
    rank = os.environ["RANK"]
    for i in range(100):
        print("rank", rank, "has", i)
        print(f"one\\n{rank}\\n{i}")
        sys.stderr.write(f"err {rank}\\nerr {i}\\n")
"""


def blocks(lines, head, length):
    """The blocks of `length` lines that begin with `head`; the rest of the lines."""
    found, rest, i = [], [], 0
    while i < len(lines):
        if lines[i] == head:
            found.append(tuple(lines[i + 1 : i + length]))
            i += length
        else:
            rest.append(lines[i])
            i += 1
    return found, rest


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("way", [(), ("--fresh",)], ids=["fork", "fresh"])
def test_lines_and_prints_are_whole(shmrun, way, unbuffered):
    told = shmrun("-n", 4, *way, shmrun.write(BLOCKS), env={"PYTHONUNBUFFERED": unbuffered})
    assert told.returncode == 0
    found, rest = blocks(told.stdout.splitlines(), "one", 3)
    expected = [(str(rank), str(i)) for rank in range(4) for i in range(100)]
    assert sorted(found, key=lambda pair: (int(pair[0]), int(pair[1]))) == expected
    for rank in range(4):
        mine = [line for line in rest if line.startswith(f"rank {rank} ")]
        assert mine == [f"rank {rank} has {i}" for i in range(100)]
    assert len(rest) == 400
    errors = told.stderr.splitlines()
    for rank in range(4):
        starts = [k for k in range(0, 800, 2) if errors[k] == f"err {rank}"]
        assert [errors[k + 1] for k in starts] == [f"err {i}" for i in range(100)]


def test_marked_blocks_stay_together(shmrun):
    told = shmrun("-n", 4, "-l", shmrun.write(BLOCKS), env={"PYTHONUNBUFFERED": "1"})
    lines = told.stdout.splitlines()
    for k, line in enumerate(lines):
        if line.endswith("] one"):
            assert lines[k + 1] == f"{line[:4]}{line[1]}"
            assert lines[k + 2].startswith(line[:4])
    assert len(lines) == 1600


def test_a_write_of_many_pipes_is_whole(shmrun):
    """Longer than a pipe holds: the rank is still writing when the launcher reads."""
    told = shmrun(
        "-n",
        3,
        shmrun.write("""
            import os, time
            for i in range(3):
                print((os.environ["RANK"] * 79 + "\\n") * 5000, end="", flush=True)
                time.sleep(0.05)
        """),
    )
    ranks = [line[0] for line in told.stdout.splitlines()]
    assert len(ranks) == 45_000
    assert all(len(set(ranks[k : k + 5000])) == 1 for k in range(0, 45_000, 5000))


def test_order_of_both_streams_in_one_place(shmrun):
    """`2>&1`: what a rank writes arrives in the order in which it was written."""
    script = shmrun.write("""
        import sys
        for i in range(100):
            print("out", i)
            print("err", i, file=sys.stderr)
    """)
    told = shmrun("-n", 2, "-l", script, stderr=subprocess.STDOUT)
    for rank in (0, 1):
        mine = [line[4:] for line in told.stdout.splitlines() if line.startswith(f"[{rank}] ")]
        assert mine == [f"{name} {i}" for i in range(100) for name in ("out", "err")]


def test_a_prompt_comes_without_its_newline(shmrun):
    script = shmrun.write("import os; print('> ' * (os.environ['RANK'] == '0'), end='', flush=True); input()")
    job = shmrun.start("-n", 2, script, stdin=subprocess.PIPE)
    assert job.stdout.read(2) == "> "
    shmrun.finish(job, "\n")


def test_a_killed_rank_loses_nothing(shmrun):
    script = shmrun.write("""
        import os, signal
        os.write(1, b"x" * 60_000 + b"last words")
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    told = shmrun("-n", 2, "--on-failure", "continue", script)
    assert told.stdout == ("x" * 60_000 + "last words") * 2
    assert told.returncode == 137


def test_a_terminal_stays_a_terminal(shmrun):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (33, 77))
    job = shmrun.start(
        "-n", 2, shmrun.write("import os, sys; print(sys.stdout.isatty(), os.get_terminal_size())"), stdout=theirs
    )
    os.close(theirs)
    shmrun.finish(job)
    assert os.read(ours, 1000) == b"True os.terminal_size(columns=77, lines=33)\r\n" * 2
    os.close(ours)


def test_many_ranks_need_no_higher_limit_of_open_files(shmrun):
    """The launcher raises its own soft limit; the ranks have the one that was set."""
    script = shmrun.write("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])")
    command = f"ulimit -Sn 60; exec {sys.executable} -m shmrun -n 20 {script}"
    told = shmrun.finish(shmrun.start_process(["sh", "-c", command], dict(os.environ)))
    assert told.stdout == "60\n" * 20, told.stderr


class TwoStreams:
    """Two streams into one sink that nobody empties, and a clock that stands still."""

    def __init__(self, monkeypatch, *, marked=False):
        self.now = 100.0
        monkeypatch.setattr("shmrun.watch.output.time.monotonic", lambda: self.now)
        self.sink = Sink(1)
        self.writes = {}
        for rank in (0, 1):
            read, self.writes[rank] = os.pipe()
            self.sink.streams.append(Stream(rank, read, marked=marked))
        self.streams = dict(enumerate(self.sink.streams))

    def write(self, rank, data):
        os.write(self.writes[rank], data)
        self.look()

    def look(self, later=0.0):
        """What the launcher's loop does, until nothing is left to read now."""
        self.now += later
        for _ in range(5):
            wanted = {fd for fd, _ in self.sink.sources()} - {self.sink.fd}
            self.sink.read(set(select.select(wanted, [], [], 0)[0]))

    def close(self, rank):
        os.close(self.writes.pop(rank))
        self.look()

    def seen(self):
        seen = bytes(self.sink.pending)
        self.sink.pending.clear()
        return seen


@pytest.fixture
def two(monkeypatch, request):
    two = TwoStreams(monkeypatch, marked=getattr(request, "param", False))
    yield two
    two.seen()
    for rank in list(two.writes):
        two.close(rank)
    two.look(later=60)
    assert not two.sink.streams


marked = pytest.mark.parametrize("two", [True], indirect=True)


def test_the_beginning_of_a_line_comes_at_once_and_others_wait_for_its_end(two):
    two.write(0, b"be")
    two.write(1, b"other\n")
    assert two.seen() == b"be"
    two.write(0, b"gin\n")
    assert two.seen() == b"gin\n"
    two.look(later=QUIET)
    assert two.seen() == b"other\n"


def test_others_wait_while_a_rank_prints_line_after_line(two):
    two.write(0, b"one\n")
    two.write(1, b"other\n")
    two.look(later=QUIET / 2)
    two.write(0, b"two\n")
    two.look(later=QUIET / 2)
    assert two.seen() == b"one\ntwo\n"
    two.look(later=QUIET)
    assert two.seen() == b"other\n"


def test_but_not_for_ever(two):
    """Not for a rank that never pauses, nor for one that never ends its line."""
    two.write(1, b"other\n")
    two.look(later=QUIET)
    for piece, limit in ((b"x\n", TURN), (b".", MOST_HOLD)):
        two.seen()
        two.write(0, piece)
        two.write(1, b"other\n")
        begun = two.now
        while b"other" not in two.seen():  # what waits is read when the turn is free
            two.look(later=QUIET / 2)
            two.write(0, piece)
        assert limit - QUIET <= two.now - begun <= limit + 2 * QUIET
        two.look(later=QUIET)


def test_a_rank_that_pauses_within_a_line(two):
    two.write(0, b"Name? ")
    two.write(1, b"other\n")
    two.look(later=HOLD - 0.001)
    assert two.seen() == b"Name? "
    two.look(later=0.001)
    assert two.seen() == b"other\n"


def test_a_write_that_has_filled_the_pipe_is_whole_however_late_its_rest_is(two):
    """A busy machine lets the rank run late. The pieces of such a write are whole pages, which may be whole lines."""
    line = b"x" * 63 + b"\n"
    two.write(0, line * 1024)
    two.write(1, b"other\n")
    for _ in range(3):
        two.look(later=HOLD / 2)
        two.write(0, line * 64)
    two.look(later=HOLD / 2)
    two.write(0, b"end\n")
    assert two.seen() == line * (1024 + 3 * 64) + b"end\nother\n"


def test_a_rank_that_once_filled_its_pipe_holds_nobody_up_later(two):
    """When its turn is over, pieces of whole pages are those of a buffer again."""
    line = b"x" * 63 + b"\n"
    two.write(0, line * 1024)
    two.look(later=HOLD)
    two.write(0, line * 64)
    two.write(1, b"other\n")
    two.look(later=QUIET)
    assert two.seen() == line * (1024 + 64) + b"other\n"


def test_a_bar_of_progress_holds_nobody_up(two):
    two.write(0, b"\r 10% #")
    two.write(1, b"other\n")
    two.look(later=QUIET)
    assert two.seen() == b"\r 10% #other\n"


def test_what_a_full_buffer_has_cut_waits_for_the_rest(two):
    """As long as it takes: the program writes again when its buffer is full again."""
    two.write(0, b"line\n" + b"x" * 8187)
    two.write(1, b"other\n")
    two.look(later=10)
    assert two.seen() == b"line\nother\n"
    two.look(later=QUIET)
    two.write(0, b"y\n")
    assert two.seen() == b"x" * 8187 + b"y\n"


def test_the_end_of_a_rank_brings_all_and_ends_its_turn(two):
    two.write(0, b"line\n" + b"x" * 4091)
    two.write(1, b"other\n")
    two.close(0)
    assert two.seen() == b"line\n" + b"x" * 4091 + b"other\n"


def test_a_process_left_behind_is_read_for_a_moment(two):
    two.streams[0].ended = two.now
    two.write(0, b"late\n")
    two.look(later=LINGER)
    assert two.seen() == b"late\n"
    assert len(two.sink.streams) == 1


@marked
def test_a_marked_line_that_was_begun_is_not_continued_by_another_rank(two):
    two.write(0, b"10%")
    two.write(1, b"one\ntwo\n\n")
    two.look(later=HOLD)
    two.look(later=QUIET)
    two.write(0, b"20")
    two.write(0, b"%\n")
    assert two.seen() == b"[0] 10%\n[1] one\n[1] two\n[1] \n[0] 20%\n"


@marked
def test_the_last_line_of_a_marked_rank_ends(two):
    two.write(0, b"no newline")
    two.close(0)
    assert two.seen() == b"[0] no newline\n"


def test_what_the_launcher_says_begins_a_line(two):
    two.write(0, b"Name? ")
    two.sink.say("shmrun: word")
    assert two.seen() == b"Name? \nshmrun: word\n"


def test_nobody_is_read_while_the_sink_is_full(two):
    two.sink.pending += bytes(1 << 20)
    two.write(0, b"later\n")
    assert [fd for fd, _ in two.sink.sources()] == [two.sink.fd]
    assert len(two.seen()) == 1 << 20
    two.look()
    assert two.seen() == b"later\n"
