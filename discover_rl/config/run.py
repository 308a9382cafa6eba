"""A run, and which runs can train together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discover_rl.config.settings import Compute, Eval, Metrics, Score
from discover_rl.core.hyperparameters import lane_fields, omitted_defaults
from discover_rl.core.schedules import Amplitude
from discover_rl.envs.settings import KWARGS, Env


@dataclass(frozen=True)
class Start:
    """The run that another one starts from; by default there is none."""

    run: str = ""
    """Its folder."""
    checksum: str = ""
    """The checksum of the checkpoint that it has kept."""
    step: int = 0
    """The step of that checkpoint."""
    transitions: int = 0
    """How many transitions of its replay buffer are taken over; 0: none."""

    def to_json(self) -> dict[str, Any]:
        """Return it as settings, as a record has them.

        >>> Start().to_json(), Start("runs/a/seed-0", "17ac", 900).to_json()["start.step"]
        ({}, 900)
        """
        named = dataclasses.asdict(self) if self.run else {}
        return {f"start.{name}": value for name, value in named.items()}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Start:
        """Read it from the settings of a record, the inverse of `to_json`."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{it: settings[f"start.{it}"] for it in names if f"start.{it}" in settings})


@dataclass(frozen=True)
class Run:
    """Task × algorithm × strategy × hyper-parameters × seed: the unit of result."""

    task: str
    algorithm: str
    strategy: str
    steps: int
    seed: int
    hyper: Any
    """The algorithm's hyper-parameters."""
    strategy_hyper: Any
    """The strategy's hyper-parameters."""
    eval: Eval
    env: Env
    compute: Compute
    name: str
    """Its folder, below the output folder."""
    score: Score = dataclasses.field(default_factory=Score)
    """How it is scored. This is not part of its identity and may change later."""
    metrics: Metrics = dataclasses.field(default_factory=Metrics)
    """How often training is measured. This is not part of its identity and may change later."""
    start: Start = Start()
    """The run that it starts from, if there is one."""

    @property
    def on_policy(self) -> bool:
        """Whether its algorithm learns from rollouts of its present policy."""
        return self.hyper.on_policy

    @property
    def settings(self) -> dict[str, Any]:
        """All its settings but score.… and metrics.…, by their names, as JSON has their values."""
        settings = {
            prefix + field.name: _plain(getattr(group, field.name))
            for prefix, group in self._groups
            for field in dataclasses.fields(group)
        }
        del settings[KWARGS[:-1]]
        return settings | self.env.making.to_json()

    @property
    def _groups(self) -> tuple[tuple[str, Any], ...]:
        return (
            ("", self.hyper),
            ("strategy.", self.strategy_hyper),
            ("eval.", self.eval),
            ("env.", self.env),
            ("compute.", self.compute),
        )

    def amplitudes(self, step: int) -> dict[str, float]:
        """The strategy's amplitudes that change over the run, by name, as they are at `step`."""
        fields = dataclasses.fields(self.strategy_hyper)
        named = {field.name: getattr(self.strategy_hyper, field.name) for field in fields}
        return {
            name: value.at(step / self.steps)
            for name, value in named.items()
            if isinstance(value, Amplitude) and value.start != value.end
        }

    def to_json(self) -> dict[str, Any]:
        """The run with its settings, as line 1 of its record has it."""
        omitted = {
            prefix + name: _plain(value)
            for prefix, group in self._groups
            for name, value in omitted_defaults(type(group)).items()
        }
        settings = {
            name: value
            for name, value in self.settings.items()
            if name not in omitted or omitted[name] != value
        }
        named = {name: getattr(self, name) for name in ("task", "algorithm", "strategy")}
        settings |= self.start.to_json()
        return named | {"steps": self.steps, "seed": self.seed, "settings": settings}


def cohorts(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs that share everything static: each group can train as lanes of one program."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        static = [_statics(group) for group in (run.hyper, run.strategy_hyper)]
        named = run.task, run.algorithm, run.strategy, run.steps
        key = (*named, run.eval, run.env, run.compute, run.metrics, run.start, *static)
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def _plain(value: Any) -> Any:
    """A setting's value as JSON has it."""
    if isinstance(value, Amplitude):
        return value.to_json()
    return list(value) if isinstance(value, tuple) else value


def _statics(hyper: Any) -> tuple[Any, ...]:
    names, lanes = [field.name for field in dataclasses.fields(hyper)], lane_fields(type(hyper))
    return tuple(getattr(hyper, name) for name in names if name not in lanes)
