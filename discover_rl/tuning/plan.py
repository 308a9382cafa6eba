"""The plan of a tuning: a request with ranges in place of some settings, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from discover_rl.config import (
    MOST_RUNS,
    Request,
    Run,
    check_seeds,
    check_whole,
    current_names,
    resolve,
)
from discover_rl.config.unused import check_used
from discover_rl.core.types import UserError
from discover_rl.tuning import pruning
from discover_rl.tuning.ranges import Range, parse, possible

BATCH = 8
"""Trials in a batch. More use a device better; with fewer, Optuna learns from scores sooner."""
FIRST_SEED = 1000
"""The first seed of a tuning's runs. `train` has the seeds from 0 on, so these stay unused."""
MANY = 32
"""Trials of a tuning by default."""
MOST = 10_000
"""The largest number of trials of a tuning."""


@dataclass(frozen=True)
class Plan:
    """What is tuned; everything in it is checked."""

    request: Request
    """What all trials share; its seeds are a tuple."""
    ranges: Mapping[str, Range]
    """The ranges of the tuned settings, by the settings' names."""
    seed: int
    """The seed of Optuna's proposals."""
    batch: int
    """Trials in a batch."""
    prune: str | None = None
    """The pruner; None: no trial is stopped on the way."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the runs of each trial."""
        assert isinstance(self.request.seeds, tuple)
        return self.request.seeds

    def runs(self, number: int, parameters: Mapping[str, Any]) -> list[Run]:
        """The runs of a trial, one per seed.

        Args:
            number: the number of the trial, for the runs' names.
            parameters: its values of the tuned settings.

        Raises:
            UserError: these values are not possible together.
        """
        runs = _resolved(self.request, parameters)
        return [dataclasses.replace(run, name=f"trial-{number}/seed-{run.seed}") for run in runs]

    @property
    def first(self) -> Run:
        """A run of some trial whose values are possible together."""
        values = {name: given.values for name, given in self.ranges.items()}
        return possible(values, lambda chosen: self.runs(0, chosen)[0])

    def to_json(self) -> dict[str, Any]:
        """The request with its ranges and all settings that are not tuned, for request.json."""
        run = self.first
        first = run.to_json()
        # By other scores than before, a tuning that goes on would be another one.
        scored = {"score.last": run.score.last} if run.score.last else {}
        settings = (first["settings"] | scored).items()
        fixed = {name: value for name, value in settings if name not in self.ranges}
        ranges = {f"--range {name}": str(given) for name, given in self.ranges.items()}
        own = {"seeds": list(self.seeds), "seed": self.seed, "trials at a time": self.batch}
        own |= {"--prune": self.prune} if self.prune else {}
        return {**first, **own, "settings": fixed, "ranges": ranges}


def default_folder(request: Request) -> Path:
    """The default folder of a tuning, runs/TASK-ALGORITHM-STRATEGY-tune."""
    folder = request.default_folder
    return folder.with_name(f"{folder.name}-tune")


def make_plan(
    request: Request,
    ranges: Mapping[str, Any],
    lanes: int | None = None,
    seed: int = 0,
    prune: str | None = None,
) -> Plan:
    """Check a request and its ranges.

    Args:
        request: what all trials share; its seeds are their number (1000, 1001, …) or a list.
        ranges: the tuned settings, as `tune` and `--range` take them.
        lanes: the largest number of runs side by side; None: those of 8 trials.
        seed: the seed of Optuna's proposals.
        prune: "median" to stop trials on the way that are worse than the median of earlier ones.

    Raises:
        UserError: the first mistake in these.
    """
    seeds: Any = request.seeds
    if isinstance(seeds, Integral):
        seeds = [FIRST_SEED + seed for seed in check_seeds(seeds)]
    lanes, seed = lanes if lanes is None else check_whole("lanes", lanes), check_whole("seed", seed)
    if not isinstance(ranges, Mapping):
        raise UserError(f"ranges are by the names of settings, not {type(ranges).__name__}.")
    request = dataclasses.replace(request, seeds=tuple(seeds) if _several(seeds) else seeds)
    if both := sorted(ranges.keys() & request.settings.keys()):
        raise UserError(f"{both[0]} is both set and tuned; remove one of --set and --range.")

    def settings_of(chosen: Mapping[str, Any]) -> Mapping[str, Any]:
        return _resolved(request, chosen)[0].settings

    parsed = parse(ranges, settings_of)
    assert isinstance(request.seeds, tuple)
    count = len(request.seeds)
    if lanes is not None and lanes < count:
        raise UserError(f"lanes must be at least {count}, one for each seed, not {lanes}.")
    if lanes is not None and lanes > MOST_RUNS:
        raise UserError(f"lanes must be {MOST_RUNS:,} at most, not {lanes:,}.")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed must be at least 0 and below 2³², not {seed}.")
    batch = BATCH if lanes is None else lanes // count
    plan = Plan(request, parsed, seed, batch, prune)
    check_used(plan.first, (), ranges)
    pruning.check(prune, plan.first)
    return plan


def _several(seeds: Any) -> bool:
    return isinstance(seeds, Iterable) and not isinstance(seeds, str)


def _resolved(request: Request, parameters: Mapping[str, Any]) -> list[Run]:
    """A run per seed; a UserError if a setting has several values."""
    settings = {**request.settings, **parameters}
    runs = resolve(dataclasses.replace(request, settings=settings))
    assert isinstance(request.seeds, tuple)
    if len(runs) > len(request.seeds):
        ends = [run.settings for run in (runs[0], runs[-1])]
        name = next(name for name in current_names(settings) if ends[0][name] != ends[1][name])
        raise UserError(f"{name} has several values; --range {name}=a,b tries one or the other.")
    return runs
