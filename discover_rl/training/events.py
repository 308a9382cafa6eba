"""The events of training. Observers and boards receive the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from discover_rl.config import Run

Report = Mapping[str, float | None]
"""Diagnostics by name, of the algorithm and of the strategy; None where one is not finite."""


@dataclass(frozen=True)
class Started:
    """Runs start or continue at this step, or at a later one where several cohorts differ."""

    runs: Sequence[Run]
    step: int


@dataclass(frozen=True)
class Compiling:
    """Programs are compiled before the next step."""


@dataclass(frozen=True)
class Stepped:
    """Every lane has made this many steps."""

    step: int


@dataclass(frozen=True)
class Evaluated:
    """A run was evaluated."""

    run: Run
    step: int
    returns: Sequence[float]
    """The return of each episode of the evaluation."""
    report: Report


@dataclass(frozen=True)
class Measured:
    """A run was measured while it trains."""

    run: Run
    step: int
    metrics: Report
    """Metrics of training by name; None where one is not finite, or no episode has ended."""
    steps_per_second: float
    """Steps per second of every lane since the last measurement, without evaluation."""


@dataclass(frozen=True)
class EvaluationTime:
    """How much of the time evaluation has taken, since training started or went on."""

    step: int
    share: float


@dataclass(frozen=True)
class Noted:
    """Something unusual happened to a run."""

    run: Run
    step: int
    note: str


@dataclass(frozen=True)
class Finished:
    """Runs have come to their end."""

    runs: Sequence[Run]


@dataclass(frozen=True)
class Ended:
    """A cohort is no longer trained."""

    outcome: Exception | None
    """The error that ended it early; None if it was trained to its end."""


Event = (
    Started | Compiling | Stepped | Evaluated | Measured | EvaluationTime | Noted | Finished | Ended
)
"""Any event of training."""
