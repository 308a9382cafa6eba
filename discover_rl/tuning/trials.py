"""Trials of a tuning: parameters and what came of them, best first, and as a table."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discover_rl.storage import files


@dataclass(frozen=True)
class Trial:
    """One trial of a tuning: the values that were tried, and their scores."""

    number: int
    parameters: dict[str, Any]
    """The values of the tuned settings, by name."""
    scores: tuple[float, ...] = ()
    """For each seed, its run's score (`storage.scores`); empty until the trial is over."""
    failure: str | None = None
    """Why it failed, if it did; it has no scores then."""
    values: Mapping[int, float] = field(default_factory=dict)
    """With pruning, its mean return over seeds at each step at which trials are compared."""
    pruned: int | None = None
    """The step at which it was pruned, if it was; it has no scores then."""

    @property
    def over(self) -> bool:
        """Whether it has scores, has failed or was pruned."""
        return bool(self.scores) or self.failure is not None or self.pruned is not None

    @property
    def score(self) -> float:
        """The mean of its scores; NaN if it has none."""
        return statistics.fmean(self.scores) if self.scores else float("nan")

    @property
    def deviation(self) -> float:
        """The standard deviation of its scores; NaN if there are fewer than two."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else float("nan")


@dataclass(frozen=True)
class Tuning:
    """The result of a tuning."""

    path: Path
    """Its folder."""
    trials: list[Trial]
    """All of them, by number."""
    importances: dict[str, float] = field(default_factory=dict)
    """How much of the scores' variance each tuned setting explains, by fANOVA; they sum to 1. Empty
    where too few trials have a score."""

    @property
    def ranking(self) -> list[Trial]:
        """The trials that have scores, the best one first."""
        return sorted((one for one in self.trials if one.scores), key=lambda one: -one.score)

    @property
    def pruned(self) -> list[Trial]:
        """The trials that were pruned, the one that came farthest first."""
        pruned = [one for one in self.trials if one.pruned is not None]
        return sorted(pruned, key=lambda one: (-(one.pruned or 0), -one.values[one.pruned or 0]))

    @property
    def best(self) -> dict[str, Any]:
        """The parameters of the best trial; empty if none has a score."""
        return self.ranking[0].parameters if self.ranking else {}


def write_table(path: Path, trials: Sequence[Trial], seeds: Sequence[int]) -> None:
    """Write a CSV file with a line for each trial that is over.

    Args:
        path: the file to write.
        trials: all trials; at least one.
        seeds: the seeds of each trial's runs.
    """
    text = io.StringIO()
    names = list(trials[0].parameters)
    own = [f"seed-{seed}" for seed in seeds]
    columns = ["trial", *names, "score", "sd", *own, "failure", "pruned", "return when pruned"]
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    for trial in (trial for trial in trials if trial.over):
        row = {"trial": trial.number, **trial.parameters, "failure": trial.failure or ""}
        if trial.scores:
            row |= dict(zip(own, trial.scores, strict=True))
            row["score"] = trial.score
        if len(trial.scores) > 1:
            row["sd"] = trial.deviation
        if trial.pruned is not None:
            row |= {"pruned": trial.pruned, "return when pruned": trial.values[trial.pruned]}
        table.writerow(row)
    files.write(path, text.getvalue().encode())
