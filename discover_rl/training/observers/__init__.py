"""Observers: they receive the events of training.

`base` has the base class, `terminal` shows progress, `tensorboard` and `weights_and_biases` write
curves for these programs.
"""

from discover_rl.training.observers.base import (
    FailSafeObservers,
    Observer,
    Observers,
    listed,
    requested,
    scalars,
    training_scalars,
)

__all__ = [
    "FailSafeObservers",
    "Observer",
    "Observers",
    "listed",
    "requested",
    "scalars",
    "training_scalars",
]
