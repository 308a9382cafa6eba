"""Which settings make a cell another method than its algorithm and strategy by themselves."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from discover_rl import config
from discover_rl.studies import Cell

ASIDE = ("eval.", "env.engine", "compute.")
"""Settings that make no other method."""
LONG = 1_000_000
"""Steps that are enough for any preset's rollouts."""


def own(cell: Cell) -> dict[str, Any]:
    """What is set and would be something else by default or preset: writing a value out that a run
    has anyway changes nothing."""
    said = {name: it for name, it in cell.settings.items() if not name.startswith(ASIDE)}
    if not said:
        return {}
    usual = _usual(cell.task, cell.algorithm, cell.strategy)
    return {name: it for name, it in said.items() if usual.get(name) != it}


@functools.cache
def _usual(task: str, algorithm: str, strategy: str) -> Mapping[str, Any]:
    (run,) = config.resolve(task, algorithm, strategy, LONG, 1, {})
    return run.to_json()["settings"]
