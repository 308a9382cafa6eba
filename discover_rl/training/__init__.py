"""Training: from runs to records.

`launch` finds the runs that are not finished and trains them, `job` is one cohort to be trained,
`cohort` the loop itself, `evaluation` what it evaluates by. `engines/` train several cohorts at
once, `events` are what happens on the way, `observers/` hear of them, `signals` asks training to
stop. Only events are re-exported here: the rest imports JAX.
"""

from discover_rl.training.events import (
    Ended,
    Evaluated,
    EvaluationTime,
    Event,
    Finished,
    Noted,
    Started,
    Stepped,
)

__all__ = [
    "Ended",
    "Evaluated",
    "EvaluationTime",
    "Event",
    "Finished",
    "Noted",
    "Started",
    "Stepped",
]
