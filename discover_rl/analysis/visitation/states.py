"""The states that a run visited, from the replay buffer that it kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discover_rl import algorithms
from discover_rl.core.types import ReplayExport, UserError
from discover_rl.storage import array_files
from discover_rl.storage.records import RECORD_FILE, REPLAY_FILE, read_record

STAGES = ("early", "intermediate", "late")
"""The thirds of a run."""


class VisitedStates(NamedTuple):
    """The transitions of a run after its warm-up.

    Attributes:
        run: The run, as its record has it.
        first: The step of the first transition.
        replay: The transitions, oldest first.
    """

    run: dict[str, Any]
    first: int
    replay: ReplayExport

    @property
    def label(self) -> str:
        """Algorithm, strategy and seed, in words."""
        return f"{self.run['algorithm']} + {self.run['strategy']}, seed {self.run['seed']}"

    @property
    def episodes(self) -> np.ndarray:
        """(n,) a number for each transition, the same for those of one episode of one of the run's
        environments, and for no others."""
        count, ended = self.run.get("settings", {}).get("env.count", 1), self.replay.ended
        envs = (self.first + np.arange(len(ended))) % count
        numbers = np.zeros(len(ended), int)
        for start in range(count):  # environments take turns
            own = ended[start::count]
            numbers[start::count] = np.cumsum(own) - own
        return numbers * count + envs


def load(path: Path) -> VisitedStates:
    """Read the only run at or below a folder that kept its replay buffer.

    Raises:
        UserError: There is none, there are several, the run is on-policy or not done, the file
            cannot be read, or it has warm-up only.
    """
    found = sorted(path.rglob(REPLAY_FILE))
    if len(found) > 1:
        names = ", ".join(str(file.parent) for file in found)
        raise UserError(f"{path} holds several runs; name one of {names}.")
    file = found[0] if found else path / REPLAY_FILE
    record = read_record(file.with_name(RECORD_FILE))
    name = record.header["run"]["algorithm"] if record.header else ""
    if name in algorithms.ALGORITHMS and algorithms.load(name).Hyper.on_policy:
        raise UserError(f"{path} has no replay: {name} is on-policy and keeps no transitions.")
    if not found:
        raise UserError(
            f"There is no replay in {path}; train with --set compute.keep_replay=true to have one."
        )
    if record.damage:
        raise UserError(record.damage)
    if not record.header or not record.done:
        raise UserError(f"The run in {file.parent} is not done; train it to its end first.")
    run = record.header["run"]
    try:
        replay = ReplayExport(**array_files.read(file))
        _check(replay, run["steps"])
    except (OSError, TypeError, ValueError) as error:
        raise UserError(f"{file} cannot be read: {error}.") from error
    first = run["steps"] - len(replay.obs)  # the oldest may have been overwritten
    skipped = max(0, run["settings"].get("warmup", 0) - first)
    if len(replay.obs) - skipped < 10 * len(STAGES):
        raise UserError(f"The replay in {file.parent} has nothing but warm-up steps.")
    kept = ReplayExport(*(array[skipped:] for array in replay))
    return VisitedStates(run, first + skipped, kept)


def _check(replay: ReplayExport, steps: int) -> None:
    """Raise a ValueError if these are not the transitions of a run of so many steps."""
    count = len(np.atleast_1d(replay.obs))
    for name, array in replay._asdict().items():
        dimensions = 2 if name in ("obs", "executed") else 1
        if array.ndim != dimensions or len(array) != count or array.dtype.kind not in "fb":
            raise ValueError(f"{name} is not one for each transition")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has numbers that are not finite")
    if count > steps:
        raise ValueError(f"there are {count:,} transitions of {steps:,} steps")


def check_same_task(runs: Sequence[VisitedStates]) -> None:
    """Raise a UserError if two runs are of different tasks."""
    a, b = (run.run["task"] for run in runs)
    if a != b:
        raise UserError(f"Only runs of one task can be compared; these are of {a} and {b}.")


def evenly(length: int, count: int) -> np.ndarray:
    """`count` indices, or all if there are fewer, spread evenly over `length`.

    >>> evenly(10, 4).tolist()
    [0, 2, 5, 7]
    """
    count = min(length, count)
    return np.arange(count) * length // count


def stage_of(length: int) -> np.ndarray:
    """The stage, an index into STAGES, of each of `length` transitions in order of time.

    >>> stage_of(6).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    return np.arange(length) * len(STAGES) // length
