"""The basis of all other packages. It imports none of them.

`types` has the types that packages hand to each other. `hyperparameters` declares settings, and
`schedules` those that change over a run. `networks` has multi-layer perceptrons for NumPy and JAX
alike, `half_precision` their products in bf16, `equations` targets, advantages and densities.
`replay_buffer` stores transitions, `replay_rings` those of several environments, `normalization`
keeps running statistics, `prng` makes random numbers, `pytrees` handles arrays of many lanes, and
`finite` checks that numbers stay finite. Only `types` is re-exported here: most of the others
import JAX, which takes a second.
"""

from discover_rl.core.types import (
    Action,
    Actor,
    Array,
    Batch,
    CriticHead,
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
    "CriticHead",
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
