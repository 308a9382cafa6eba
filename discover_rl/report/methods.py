"""Find the settings that make a cell's method differ from its algorithm and strategy as usual."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from discover_rl import config
from discover_rl.studies.study import Cell

IGNORED = ("eval.", "env.backend", "compute.", "score.", "metrics.")
"""Prefixes of settings that do not make another method."""
LONG = 1_000_000
"""Steps enough for the rollouts of every preset."""


def unusual_settings(cell: Cell) -> dict[str, Any]:
    """Return the settings of a cell whose values differ from defaults and presets.

    A setting that a study's file repeats with its usual value does not count.
    """
    named = config.current_names(cell.settings)
    stated = {name: value for name, value in named.items() if not name.startswith(IGNORED)}
    if not stated:
        return {}
    usual = _usual_settings(cell.task, cell.algorithm, cell.strategy)
    return {name: value for name, value in stated.items() if usual.get(name) != value}


@functools.cache
def _usual_settings(task: str, algorithm: str, strategy: str) -> Mapping[str, Any]:
    """Return the settings of a run for which nothing is set."""
    (run,) = config.resolve(config.Request(task, algorithm, strategy, LONG))
    return run.settings
