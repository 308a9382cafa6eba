"""The base class of observers, and classes that combine several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from discover_rl.config import Run
from discover_rl.core.types import UserError
from discover_rl.training.events import (
    Compiling,
    Ended,
    Evaluated,
    EvaluationTime,
    Event,
    Finished,
    Measured,
    Noted,
    Report,
    Started,
    Stepped,
)

Answer = Literal["stop"] | None
"""An observer's answer to an evaluation: "stop" ends the run that was evaluated."""


class Observer:
    """Receives the events of training. A subclass overrides the methods for those it needs.

    `on_event` receives all events; by default it calls the method for the kind of event.
    """

    def on_event(self, event: Event) -> Answer:
        """Receive an event. The answer to `Evaluated` may be "stop", which ends the run."""
        match event:
            case Started(runs, step):
                self.started(runs, step)
            case Compiling():
                self.compiling()
            case Stepped(step):
                self.stepped(step)
            case Evaluated(run, step, returns, report):
                return self.evaluated(run, step, returns, report)
            case Measured(run, step, metrics, steps_per_second):
                self.measured(run, step, metrics, steps_per_second)
            case EvaluationTime(step, share):
                self.evaluation_time(step, share)
            case Noted(run, step, note):
                self.noted(run, step, note)
            case Finished(runs):
                self.finished(runs)
            case Ended():
                pass
        return None

    def started(self, runs: Sequence[Run], step: int) -> None:
        """These runs start or continue at this step, or at a later one where cohorts differ."""

    def compiling(self) -> None:
        """Programs are compiled before the next step; that may take a while."""

    def stepped(self, step: int) -> None:
        """Every lane has made this many steps."""

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> Answer:
        """A run was evaluated: a return per episode, and diagnostics by name.

        If this returns "stop", the run ends at this step, and is done.
        """

    def measured(self, run: Run, step: int, metrics: Report, steps_per_second: float) -> None:
        """A run was measured while it trains.

        Args:
            run: the run.
            step: environment steps made.
            metrics: numbers by name (`events.Measured`).
            steps_per_second: of every run of its cohort, without evaluation.
        """

    def evaluation_time(self, step: int, share: float) -> None:
        """Up to this step evaluation has taken this share of the time."""

    def noted(self, run: Run, step: int, note: str) -> None:
        """Something unusual happened to a run."""

    def finished(self, runs: Sequence[Run]) -> None:
        """These runs are finished."""


class Observers(Observer):
    """Several observers as one: each receives all events, in the given order."""

    def __init__(self, observers: Iterable[Observer]):
        self.observers = tuple(observers)

    def on_event(self, event: Event) -> Answer:
        """Pass the event on; "stop" if any of them answers that."""
        answers = [observer.on_event(event) for observer in self.observers]
        return "stop" if "stop" in answers else None


class HeldObserver(Observer):
    """An observer whose error is kept until training can stop.

    After the error, the observer receives no more events.
    """

    def __init__(self, observer: Observer):
        self.observer = observer
        self.error: Exception | None = None

    def on_event(self, event: Event) -> Answer:
        """Pass the event on; keep an error that this raises."""
        if self.error is None:
            try:
                return self.observer.on_event(event)
            except Exception as error:
                self.error = error
        return None

    def failed(self) -> bool:
        """Whether the observer has raised an error."""
        return self.error is not None

    def release(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error


class FailSafeObservers(Observer):
    """Several observers as one. An observer that raises an error is reported once and then left
    out: training is worth more than its display.
    """

    def __init__(self, observers: Iterable[Observer], say: Callable[[str], None]):
        self.observers, self._say = list(observers), say

    def on_event(self, event: Event) -> Answer:
        """Pass the event on; "stop" if any of them answers that."""
        answers: list[Answer] = []
        for observer in [*self.observers]:
            try:
                answers.append(observer.on_event(event))
            except Exception as error:
                self.observers.remove(observer)
                self._say(f"{type(observer).__name__} is left out from here on: {error}")
        return "stop" if "stop" in answers else None


def listed(given: Observer | Iterable[Observer | None] | None) -> list[Observer | None]:
    """Return the observers that a caller names, one or several; a UserError if one is none.

    None, also among several, stands for the one that shows progress on the terminal.
    """
    found = list(given) if isinstance(given, Iterable) else [given]
    for one in found:
        if one is not None and (isinstance(one, type) or not hasattr(one, "on_event")):
            raise UserError(f"An observer is an instance of discover_rl.Observer, not {one!r}.")
    return found


def requested(out: Path, tensorboard: bool = False, wandb: str | None = None) -> list[Observer]:
    """The observers that command-line options ask for.

    Args:
        out: the folder of the runs.
        tensorboard: write files for TensorBoard.
        wandb: log to this project of Weights & Biases.
    """
    found: list[Observer] = []
    if tensorboard:
        from discover_rl.training.observers.tensorboard import TensorBoard

        found.append(TensorBoard(out))
    if wandb is not None:
        from discover_rl.training.observers.weights_and_biases import WeightsAndBiases

        found.append(WeightsAndBiases(out, wandb))
    return found


def scalars(returns: Sequence[float], report: Report) -> dict[str, float]:
    """Return an evaluation as numbers by name, the same for every observer that draws curves."""
    own = {f"report/{name}": value for name, value in report.items() if value is not None}
    return {"return/mean": float(np.mean(returns)), "return/sd": float(np.std(returns))} | own


def training_scalars(metrics: Report, steps_per_second: float) -> dict[str, float]:
    """Return metrics of training as numbers by name, the same for every such observer."""
    whole = {**metrics, "steps_per_second": steps_per_second}
    return {f"train/{name}": value for name, value in whole.items() if value is not None}
