"""Who hears of training while it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from discover_rl.config import Run

Report = Mapping[str, float | None]
"""Diagnostics by name, of the algorithm and of the strategy; None where one is not finite."""


class Observer:
    """Hears what happens in training. Every method may be left as it is."""

    def started(self, runs: Sequence[Run], step: int) -> None:
        """These runs start, or go on, at this step."""

    def stepped(self, step: int) -> None:
        """Every lane has made this many steps."""

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        """A run has been evaluated: a return per episode, and what else there is to tell of it."""

    def shared(self, step: int, evaluating: float) -> None:
        """Up to this step evaluation has taken this share of the time, since training started or
        went on."""

    def noted(self, run: Run, step: int, note: str) -> None:
        """Something out of the ordinary happened to a run."""

    def finished(self, runs: Sequence[Run]) -> None:
        """These runs have come to their end."""
