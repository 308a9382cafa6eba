"""Metrics of training: when a cohort is measured, and the lines that this adds to records.

A line has the step and, by name, the mean return and length of the training episodes that ended
since the last line, and the agent's metrics: losses, values, learning rates. A run that was killed
and resumed reproduces all of these bit for bit. Speed cannot be reproduced, so observers receive
the steps per second and records do not contain them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from discover_rl.agents.interface import Agent
from discover_rl.config import Run
from discover_rl.envs.vector import EndedEpisodes, VectorEnv
from discover_rl.storage.records import Record
from discover_rl.training.events import Measured
from discover_rl.training.observers.base import Observer

IN_A_RUN = 200
"""How many times a run is measured by default, unless lines would be closer than `APART`."""
APART = 1000
"""The smallest number of steps between two lines by default."""


def spacing(run: Run) -> int:
    """Return the steps between lines of metrics, on-policy whole rollouts; 0: there are no lines.

    Args:
        run: with its setting metrics.every.
    """
    if run.metrics.every < 0:
        return 0
    asked = run.metrics.every or max(APART, -(-run.steps // IN_A_RUN))
    unit = run.env.count * (run.hyper.horizon if run.on_policy else 1)
    return -(-asked // unit) * unit


def finite(value: Any) -> float | None:
    """Return a number for JSON: None in place of NaN and infinity, which JSON does not have.

    >>> finite(np.float32(0.5)), finite(np.inf)
    (0.5, None)
    """
    return float(value) if np.isfinite(value) else None


class Line(NamedTuple):
    """A line for one lane's record."""

    lane: int
    step: int
    metrics: dict[str, float | None]
    steps_per_second: float


class Meter:
    """Measures a cohort when that is due."""

    def __init__(self, runs: Sequence[Run], records: Sequence[Record], observer: Observer):
        """Nothing is measured yet.

        Args:
            runs: of the lanes; they share their settings.
            records: of these.
            observer: receives the lines that are written.
        """
        self._runs, self._records, self._observer = runs, records, observer
        self.every = spacing(runs[0])
        self._waiting: list[Line] = []
        self._before = 0, 0.0

    def start(self, step: int) -> None:
        """Start to measure time."""
        self._before = step, time.monotonic()

    def next_step(self, step: int) -> int:
        """Return the next step at which the cohort is measured; its last step if there is none."""
        return step - step % self.every + self.every if self.every else self._runs[0].steps

    def due(self, step: int) -> bool:
        """Whether the cohort is measured at this step."""
        return self.every > 0 and step % self.every == 0

    def measure(
        self,
        agent: Agent,
        state: Any,
        vector: VectorEnv,
        alive: np.ndarray,
        step: int,
        evaluating: float,
    ) -> None:
        """Measure the living lanes; `write` writes what is found.

        Args:
            agent: of the cohort.
            state: of the agent.
            vector: the environments.
            alive: (lanes,) which lanes are trained.
            step: environment steps made.
            evaluating: seconds that training has waited for evaluation since `start`.
        """
        found = jax.device_get(agent.metrics(state, step))
        (first, began), now = self._before, time.monotonic() - evaluating
        self._before = step, now
        speed = (step - first) / max(now - began, 1e-9)
        for lane in np.flatnonzero(alive).tolist():
            own = {name: finite(values[lane]) for name, values in found.items()}
            metrics = _episode_metrics(vector.take_ended(lane)) | own
            self._waiting.append(Line(lane, step, metrics, speed))

    def write(self, alive: np.ndarray) -> None:
        """Write what was measured into the records of lanes that are still alive."""
        lines, self._waiting = self._waiting, []
        for lane, step, metrics, speed in lines:
            if alive[lane]:
                self._records[lane].append({"step": step, "metrics": metrics}, sync=False)
                self._observer.on_event(Measured(self._runs[lane], step, metrics, speed))


def _episode_metrics(ended: EndedEpisodes) -> dict[str, float | None]:
    """How many episodes have ended, and their mean return and length; None if none has."""
    count = ended.number
    means = (ended.returns / count, ended.lengths / count) if count else (None, None)
    return {"episodes": count, "return": means[0], "length": means[1]}
