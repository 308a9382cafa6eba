"""Who hears of training while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discover_rl.config import Run

Report = Mapping[str, float | None]
"""Diagnostics by name, of the algorithm and of the strategy; None where one is not finite."""


class Observer:
    """Hears what happens in training. Every method may be left as it is."""

    def started(self, runs: Sequence[Run], step: int) -> None:
        """These runs start, or go on, at this step; where they are not at the same one, at this
        step or later."""

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


class Several(Observer):
    """Passes everything on to several observers, in their order."""

    def __init__(self, observers: Iterable[Observer]):
        self.observers = tuple(observers)

    def _tell(self, name: str, *details: Any, **named: Any) -> None:
        for observer in self.observers:
            getattr(observer, name)(*details, **named)


class Droppable(Observer):
    """Passes everything on to several observers; one that raises is told of once and left out, for
    what it observes is worth more than it is."""

    def __init__(self, observers: Iterable[Observer], say: Callable[[str], None]):
        self.observers, self._say = list(observers), say

    def _tell(self, name: str, *details: Any, **named: Any) -> None:
        for observer in [*self.observers]:
            try:
                getattr(observer, name)(*details, **named)
            except Exception as error:
                self.observers.remove(observer)
                self._say(f"{type(observer).__name__} is left out from here on: {error}")


def _passing_on(name: str) -> Callable[..., None]:
    def tell(self: Any, *details: Any, **named: Any) -> None:
        self._tell(name, *details, **named)

    return tell


for _name in [name for name in vars(Observer) if not name.startswith("_")]:
    for _kind in (Several, Droppable):
        setattr(_kind, _name, _passing_on(_name))


def chosen(out: Path, tensorboard: bool = False, wandb: str | None = None) -> list[Observer]:
    """The observers that options ask for, of runs in `out`; `wandb` is a project's name."""
    from discover_rl.observers.tensorboard import TensorBoard
    from discover_rl.observers.weights_and_biases import WeightsAndBiases

    asked: list[Observer] = [TensorBoard(out)] if tensorboard else []
    return asked if wandb is None else [*asked, WeightsAndBiases(out, wandb)]


def scalars(returns: Sequence[float], report: Report) -> dict[str, float]:
    """An evaluation as numbers by name, the same for all who draw curves of it."""
    told = {f"report/{name}": value for name, value in report.items() if value is not None}
    return {"return/mean": float(np.mean(returns)), "return/sd": float(np.std(returns))} | told
