"""Small jobs for Ray, what observers receive of them, and which process works on one."""

from pathlib import Path

from discover_rl.training.job import Job
from tests.helpers.trainings import runs_of

LONG = {"steps": 4000, "eval.every": 500, "eval.episodes": 1}
"""Long enough to be stopped or killed in the midst."""


def jobs_of(out: Path, *requests: dict) -> list[Job]:
    """A cohort of two runs for each request."""
    cohorts = [runs_of(**request) for request in requests]
    return [Job(runs, out / str(i), out / str(i) / "work") for i, runs in enumerate(cohorts)]


class Recorder:
    """Keeps the events of each job by its number, and calls a function with each."""

    def __init__(self, react=lambda number, event: None):
        self.events, self.react = {}, react

    def __call__(self, number, event):
        self.events.setdefault(number, []).append(event)
        self.react(number, event)

    def of_kind(self, number: int, *kinds: type) -> list:
        return [event for event in self.events[number] if isinstance(event, kinds)]


def holder(workdir: Path) -> int:
    """The process that holds the lock of a work folder."""
    inode = str((workdir / ".lock").stat().st_ino)
    for line in Path("/proc/locks").read_text().splitlines():
        _, kind, _, _, pid, place, *_ = line.split()
        if kind == "FLOCK" and place.split(":")[-1] == inode:
            return int(pid)
    raise AssertionError("no process holds the lock")
