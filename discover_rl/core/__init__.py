"""What everything else is built on. It imports nothing of the package but itself.

`types` has the types that packages hand to each other, `hyperparameters` declares settings,
`networks` has multi-layer perceptrons for NumPy and JAX alike, `equations` targets, advantages and
densities, `replay_buffer` transitions to sample from, `normalization` running statistics, `prng`
random numbers, `pytrees` arrays of many lanes, `finite` what must stay finite. Only `types` is
re-exported here: most of the others import JAX, which takes a second.
"""

from discover_rl.core.types import (
    Action,
    Actor,
    Array,
    Batch,
    Key,
    Losses,
    Net,
    Nudge,
    Optimiser,
    PolicyHead,
    ReplayExport,
    Role,
    Rollout,
    Spec,
    Stopped,
    StrategyEvent,
    Transition,
    Update,
    UserError,
)

__all__ = [
    "Action",
    "Actor",
    "Array",
    "Batch",
    "Key",
    "Losses",
    "Net",
    "Nudge",
    "Optimiser",
    "PolicyHead",
    "ReplayExport",
    "Role",
    "Rollout",
    "Spec",
    "Stopped",
    "StrategyEvent",
    "Transition",
    "Update",
    "UserError",
]
