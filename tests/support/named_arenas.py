"""What jobs that meet under names have in /dev/shm."""

from pathlib import Path

from shmcoll.startup import arena_names, rendezvous


def files_of(key: str) -> list[Path]:
    """The files whose names belong to a job, whoever owns them."""
    return sorted(arena_names.FOLDER.glob(f"{arena_names.of_job(key)}*"))


def is_open(key: str) -> bool:
    """Whether ranks of a job can register with a rank 0."""
    stages = [rendezvous._stage_behind(fd) for _, fd in arena_names.living(arena_names.of_job(key))]
    return rendezvous.Stage.OPEN in stages
