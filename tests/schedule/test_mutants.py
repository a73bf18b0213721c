"""Seeded bugs, each of which the explorer must find."""

from pathlib import Path

import pytest

from tests.schedule.explorer.mutants import MUTANTS
from tests.schedule.explorer.mutants_exposing import MUTANTS_EXPOSING
from tests.schedule.explorer.mutants_of_blocks import MUTANTS_OF_BLOCKS
from tests.schedule.explorer.mutants_of_circles import MUTANTS_OF_CIRCLES
from tests.schedule.explorer.mutants_of_events import MUTANTS_OF_EVENTS
from tests.schedule.explorer.mutants_of_holds import MUTANTS_OF_HOLDS
from tests.schedule.explorer.mutants_of_locks import MUTANTS_OF_LOCKS
from tests.schedule.explorer.mutants_of_messages import MUTANTS_OF_MESSAGES
from tests.schedule.explorer.mutants_of_neighbours import MUTANTS_OF_NEIGHBOURS
from tests.schedule.explorer.mutants_of_offers import MUTANTS_OF_OFFERS
from tests.schedule.explorer.mutants_of_profiles import MUTANTS_OF_PROFILES
from tests.schedule.explorer.mutants_of_teams import MUTANTS_OF_TEAMS
from tests.schedule.explorer.mutants_over_nodes import MUTANTS_OVER_NODES
from tests.schedule.explorer.mutants_with_counts import MUTANTS_WITH_COUNTS
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.scenarios import SCENARIOS
from tests.schedule.explorer.scenarios_over_nodes import SCENARIOS_OVER_NODES
from tests.schedule.explorer.search import exhaust, sample
from tests.support import tally

RELIABILITY = Path(__file__).parents[2] / "docs" / "reliability.md"

ALL = (
    MUTANTS
    | MUTANTS_EXPOSING
    | MUTANTS_OF_BLOCKS
    | MUTANTS_WITH_COUNTS
    | MUTANTS_OF_MESSAGES
    | MUTANTS_OF_OFFERS
    | MUTANTS_OF_CIRCLES
    | MUTANTS_OF_HOLDS
    | MUTANTS_OF_LOCKS
    | MUTANTS_OF_PROFILES
    | MUTANTS_OF_TEAMS
    | MUTANTS_OF_NEIGHBOURS
    | MUTANTS_OF_EVENTS
    | MUTANTS_OVER_NODES
)

#: seconds each: as much as a hundred of the others
LONG = {
    "a circle is followed once",
    "a circle is found although a message is on its way",
    "a sleep has no end",
    "no fence where an offer is claimed",
    "no fence where an offer is retracted",
    "the words of the next sleep are no releases",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.stress if n in LONG else ()) for n in ALL])
def test_seeded_bug_is_found(name: str) -> None:
    mutant = ALL[name]
    with mutant.planted(), pytest.raises(Violation):
        machine = (SCENARIOS | SCENARIOS_OVER_NODES)[mutant.scenario].machine(**mutant.options)
        if mutant.sampled:
            sample(machine, seed=1, runs=mutant.runs)
        else:
            exhaust(machine)
    tally.count(f"seeded bugs found by the explorer, of {len(ALL)}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["no fence in the waiter", "no fence in the poster"])
def test_a_missing_fence_shows_only_where_stores_are_delayed(name: str) -> None:
    """So the search that finds these two is the one with store buffers, and it finds what x86 would do."""
    mutant = MUTANTS[name]
    with mutant.planted():
        exhaust(SCENARIOS[mutant.scenario].machine())


def test_the_figure_in_the_documents() -> None:
    assert f"| {len(ALL)} of {len(ALL)} seeded bugs found. |" in RELIABILITY.read_text()
