"""Settings that every algorithm and strategy shares: of evaluation, environments and computing.

A setting has one name everywhere – command line, Python, files. An algorithm's has no prefix
(`gamma`), a strategy's has one (`strategy.lam`), and so have those below (`eval.every`).
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discover_rl.core.hyperparameters import setting
from discover_rl.envs.settings import Env

RENAMED = {"env.engine": "env.backend"}
"""Settings that were renamed: old name → new name. Old names are still accepted."""


@dataclass(frozen=True)
class Eval:
    """How runs are evaluated."""

    every: int = setting(
        0, "Steps between evaluations; 0: 100 in a run, 1,000 apart or more.", low=0, high=10**9
    )
    episodes: int = setting(10, "Episodes in an evaluation.", low=1, high=100_000)
    max_steps: int = setting(
        10_000,
        "Where an episode is cut, for tasks without a time limit of their own.",
        low=1,
        high=10**9,
    )
    stop_at: float = setting(
        math.inf,
        "A run ends early once its mean return reaches this; inf: never.",
        low=-(10**9),
        high=10**9,
        omit_default=True,
    )
    patience: int = setting(
        0,
        "Evaluations without a better one after which a run ends early; 0: never.",
        low=0,
        high=10**9,
        omit_default=True,
    )


@dataclass(frozen=True)
class Compute:
    """How runs are computed, and what is kept of them."""

    precision: str = setting(
        "float32",
        "Of matrix products: tf32 is faster on a GPU; bf16, off-policy only, faster and coarser.",
        choices=("float32", "tf32", "bf16"),
    )
    keep_replay: bool = setting(
        False, "Keep the replay of a finished run in its folder, for `discover visitation`."
    )
    keep_checkpoint: bool = setting(
        False,
        "Keep the replay in a finished run's checkpoint, so that more steps can follow.",
        omit_default=True,
    )


@dataclass(frozen=True)
class Score:
    """Which evaluations a run is scored by. This may change later: the run stays the same."""

    last: int = setting(
        0,
        "Evaluations whose mean is a run's score; 0: the last tenth, ten if there are 50 or more.",
        low=0,
        high=10**9,
    )


@dataclass(frozen=True)
class Metrics:
    """How often training is measured. This may change later: the run stays the same."""

    every: int = setting(
        0,
        "Steps between metrics of training; 0: 200 in a run, 1,000 apart or more; -1: none.",
        low=-1,
        high=10**9,
    )


SHARED: dict[str, type] = {
    "eval.": Eval,
    "env.": Env,
    "compute.": Compute,
    "score.": Score,
    "metrics.": Metrics,
}
"""The classes of these settings, by their prefix."""


def current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under their present names.

    >>> current_names({"env.engine": "envpool", "gamma": 0.98})
    {'env.backend': 'envpool', 'gamma': 0.98}
    """
    return {RENAMED.get(name, name): value for name, value in settings.items()}


@functools.cache
def note_old_name(name: str) -> None:
    """Tell the user, once in a process, that a setting has a new name."""
    print(f"Note: the setting {name} is called {RENAMED[name]} now.", file=sys.stderr)
