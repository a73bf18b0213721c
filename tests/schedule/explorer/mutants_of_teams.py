"""Seeded bugs of a team of threads."""

from tests.schedule.explorer.mutants import Mutant

TEAM, WANTED = "a team of threads", "a team that two threads want"

MUTANTS_OF_TEAMS = {
    "a part is taken in two steps": Mutant(
        "team.take_parts",
        "number = add(left, -1)",
        "number = load(left)\n            store(left, number - 1)",
        TEAM,
    ),
    "a part counts before it is done": Mutant(
        "team.take_parts",
        "                do_part(team, owner, number)\n                add(team + DONE, 1)\n",
        "                add(team + DONE, 1)\n                do_part(team, owner, number)\n",
        TEAM,
    ),
    "the caller does not wait for the helpers": Mutant("team.share", "    await_parts(team)\n", "", TEAM),
    "parts are offered before the piece is there": Mutant(
        "team.share",
        "    store(team + KIND, kind)\n",
        "    store(member(team, 1) + LEFT, 1)\n    store(team + KIND, kind)\n",
        TEAM,
    ),
    "a caller does not look whether the team is free": Mutant("team.share", "1) > 0:", "1) > 1:", WANTED),
}
