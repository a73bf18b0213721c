"""What threads of ranks that stay print between two calls: the next call prints it first."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import shmcoll
from shmcoll.runner import kept_output


def begin(between: threading.Event | None = None) -> None:
    """Leave a thread behind that prints when this call has been answered."""
    from shmcoll.runner.kept_output import KeptOutput

    over, printed = threading.Event(), threading.Event()
    keep = KeptOutput.keep

    def note(self: KeptOutput) -> None:
        keep(self)
        if self.fileno() == 2:
            over.set()

    KeptOutput.keep = note  # type: ignore[method-assign]

    def work() -> None:
        over.wait()
        print("between", shmcoll.init().rank)
        print("error", shmcoll.init().rank, file=sys.stderr)
        printed.set()

    sys.modules["__main__"].printed = printed  # type: ignore[attr-defined]
    threading.Thread(target=work, daemon=True).start()
    print("first")


def wait() -> None:
    """Return when the thread has printed: now, or before."""
    sys.modules["__main__"].printed.wait()


def follow() -> None:
    print("second")


def test_it_is_printed_by_the_next_call(capfd: pytest.CaptureFixture[str]) -> None:
    with shmcoll.ranks(2) as r:
        r.run(begin)
        out, err = capfd.readouterr()
        assert (out, err) == ("first\n" * 2, "")
        r.run(wait)
        r.run(follow)
        out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["between 0", "between 1", "second", "second"]
    assert sorted(err.splitlines()) == ["error 0", "error 1"]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[kept_output.KeptOutput, Path]]:
    path = tmp_path / "out"
    file = path.open("wb", buffering=0)
    output = kept_output.KeptOutput(file.fileno())
    monkeypatch.setattr(kept_output, "MOST", 10)
    yield output, path
    file.close()


def test_only_so_much_is_kept(kept: tuple[kept_output.KeptOutput, Path]) -> None:
    output, path = kept
    assert output.write(b"0123456") == 7
    assert output.write(b"789xyz") == 6
    output.open()
    assert path.read_text() == "0123456789[3 more bytes were printed between calls]\n"
    assert output.write(b"now") == 3
    assert path.read_text().endswith("now")
    output.keep()
    output.write(b"later")
    assert not path.read_text().endswith("later")
