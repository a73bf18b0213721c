"""What shmcoll says by itself, as records of `logging`: by whom, from which level on, and where it goes."""

import logging
import re
from pathlib import Path

import pytest

import shmcoll
from shmcoll.engine.system import log
from shmcoll.runner import client
from tests.support.launched import Shmrun, shmrun

__all__ = ["shmrun"]

JOB = """
import shmcoll
BEGIN
comm = shmcoll.init()
from shmcoll.engine.system import log
log.info("it compiles")
if comm.rank:
    log.warning("odd \\udce9")
"""


@pytest.fixture
def logger():
    """The logger of shmcoll, which has no level afterwards, and the server of `run` has ended."""
    one = logging.getLogger("shmcoll")
    yield one
    one.setLevel(logging.NOTSET)
    client.end()


def said(shmrun: Shmrun, begin: str, *options: str) -> list[str]:
    """What two ranks print, without what differs from job to job."""
    done = shmrun("-n", 2, *options, shmrun.write(JOB.replace("BEGIN", begin)))
    assert done.returncode == 0, done.stderr
    return sorted(re.sub(r"\b[0-9a-f]{8}\b", "JOB", line) for line in done.stderr.splitlines())


def test_a_program_that_has_configured_nothing_sees_lines(shmrun: Shmrun) -> None:
    both = ["shmcoll: it compiles"] * 2
    assert said(shmrun, "") == [*both, r"shmcoll: odd \udce9"]
    assert said(shmrun, "", "--log-level", "warning") == [r"shmcoll: odd \udce9"]
    joined = [f"shmcoll: rank {rank} has joined job JOB" for rank in range(2)]
    assert said(shmrun, "", "--log-level", "debug") == [*both, r"shmcoll: odd \udce9", *joined]


def test_a_program_that_has_configured_logging_gets_records(shmrun: Shmrun) -> None:
    configured = """
import logging
logging.basicConfig(format="%(levelname)s %(rank)s %(job)s %(filename)s %(message)s")
"""
    warning = r"WARNING 1 JOB job.py odd \udce9"
    assert said(shmrun, configured) == [warning]
    more = [f"INFO {rank} JOB job.py it compiles" for rank in range(2)]
    assert said(shmrun, configured, "--log-level", "info") == [*more, warning]
    own = f"{configured}\nlogging.getLogger('shmcoll').setLevel(logging.INFO)"
    assert said(shmrun, own, "--log-level", "error") == [*more, warning]
    assert said(shmrun, "import logging; logging.disable(logging.INFO)") == [r"shmcoll: odd \udce9"]


def level_of_rank() -> int:
    shmcoll.init()
    log.info("seen at 15")
    return logging.getLogger("shmcoll").level


def test_the_level_of_the_caller_reaches_the_ranks_of_run(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logger.setLevel(15)
    assert shmcoll.run(level_of_rank, 2) == [15, 15]
    assert capsys.readouterr().err == "shmcoll: seen at 15\n" * 2
    logger.setLevel(logging.CRITICAL)
    assert shmcoll.run(level_of_rank, 1) == [logging.CRITICAL]
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("logger")
def test_a_level_that_there_is_not(monkeypatch: pytest.MonkeyPatch, shmrun: Shmrun) -> None:
    monkeypatch.setenv("SHMCOLL_LOG_LEVEL", "loud")
    levels = "'loud' is not one of debug, info, warning, error, critical"
    with pytest.raises(ValueError, match=f"SHMCOLL_LOG_LEVEL={levels}"):
        shmcoll.run(level_of_rank, 1)
    done = shmrun("-n", 1, "true")
    assert (done.returncode, done.stderr) == (
        2,
        f"shmrun: environment variable SHMCOLL_LOG_LEVEL: {levels} (see shmrun --help)\n",
    )


def test_no_other_file_prints() -> None:
    """Tools print: `python -m shmcoll`, and what a rank's program or MPI itself would print."""
    root = Path(shmcoll.__file__).parent
    printing = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"^(?!.*>>>) *(print\(.*|.*sys\.stderr\.write.*)", path.read_text(), re.MULTILINE)
    }
    assert printing == {
        "__main__.py", "runtime/user_code.py", "startup/warm.py", "mpi/objects/error_handlers.py",
    }  # fmt: skip
