"""What the cache lacks is compiled before the tests: within a job it would count against the limits of the test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nodes import started
from tests.nodes.network import Network, NoNetwork
from tests.nodes.slurm import NoSlurm, Slurm
from tests.support import prepare


def pytest_collection_finish(session: pytest.Session) -> None:
    here = any("tests/nodes/" in item.nodeid for item in session.items)
    if here and "MPI4PY_LIBMPI" in os.environ and not session.config.option.collectonly:
        prepare.load(True)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Two nodes, a and b, that are linked to a switch."""
    started.mpi_or_skip()
    try:
        made = Network(tmp_path)
    except NoNetwork as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture
def slurm(tmp_path: Path, network: Network) -> Iterator[Slurm]:
    """Slurm on the nodes of the network."""
    try:
        made = Slurm(network, tmp_path)
    except NoSlurm as error:
        pytest.skip(str(error))
    yield made
    made.close()
