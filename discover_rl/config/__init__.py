"""What a run is, and how a request becomes runs.

`run` has the class `Run`, and `settings` the settings that every algorithm and strategy shares.
`resolve` combines defaults, presets and the user's settings; `origins` says which of these a
number comes from, and `unused` which settings do nothing with an algorithm. `presets/` has the
settings per task, each with its source. Nothing here depends on the machine: the same request gives
the same runs everywhere.
"""

from discover_rl.config.origins import origins
from discover_rl.config.resolve import (
    MOST_PROCESSES,
    MOST_RUNS,
    Request,
    check_processes,
    check_seconds,
    check_seeds,
    check_steps,
    check_whole,
    pairs,
    preset,
    preset_values,
    resolve,
)
from discover_rl.config.run import Run, Start, cohorts
from discover_rl.config.settings import SHARED, Compute, Eval, Metrics, Score, current_names
from discover_rl.envs.settings import Env

__all__ = [
    "MOST_PROCESSES",
    "MOST_RUNS",
    "SHARED",
    "Compute",
    "Env",
    "Eval",
    "Metrics",
    "Request",
    "Run",
    "Score",
    "Start",
    "check_processes",
    "check_seconds",
    "check_seeds",
    "check_steps",
    "check_whole",
    "cohorts",
    "current_names",
    "origins",
    "pairs",
    "preset",
    "preset_values",
    "resolve",
]
