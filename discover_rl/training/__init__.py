"""Training: from runs to records.

`launch` finds the runs that are not finished and trains them. A `job` is one cohort to be trained,
`cohort` has the training loop, and `evaluation` plays episodes without exploration. `engines/`
train several cohorts at once. `events` declares the events of training, which `observers/` receive,
and `signals` handles Ctrl-C.

Parts of the loop: `agent_setup` says what its agent is built from, `evaluation_process` evaluates
in another process, `metrics` measures training, `early_stopping` ends a run, `outputs` writes its
files, `headers` the first line of its record, and `memory` checks that runs fit. Other starts:
`continuation` trains finished runs for more steps, `warm_start` finds the run that others start
from, and `inheritance` takes over its state.

Only events are re-exported here: the rest imports JAX.
"""

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

__all__ = [
    "Compiling",
    "Ended",
    "Evaluated",
    "EvaluationTime",
    "Event",
    "Finished",
    "Measured",
    "Noted",
    "Report",
    "Started",
    "Stepped",
]
