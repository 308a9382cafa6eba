"""Which settings make a cell another method than its algorithm and strategy by themselves."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from discover_rl import config
from discover_rl.studies.study import Cell

IGNORED = ("eval.", "env.backend", "compute.", "score.", "metrics.")
"""How the names of settings begin that make no other method."""
LONG = 1_000_000
"""Steps enough for the rollouts of every preset."""


def unusual_settings(cell: Cell) -> dict[str, Any]:
    """The settings of a cell that have another value than by default or preset.

    A setting that is written out with the value a run has anyway does not count.
    """
    named = config.current_names(cell.settings)
    stated = {name: value for name, value in named.items() if not name.startswith(IGNORED)}
    if not stated:
        return {}
    usual = _usual_settings(cell.task, cell.algorithm, cell.strategy)
    return {name: value for name, value in stated.items() if usual.get(name) != value}


@functools.cache
def _usual_settings(task: str, algorithm: str, strategy: str) -> Mapping[str, Any]:
    """What a run has if nothing is set."""
    (run,) = config.resolve(config.Request(task, algorithm, strategy, LONG))
    return run.settings
