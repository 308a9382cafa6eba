"""Settings that both families declare in the same words: only their defaults may differ.

A dataclass keeps its fields in the order of their declaration, and records keep that order. So each
family declares these among its own settings, as `setting(default, **LAYER_NORM)`, instead of
inheriting them from a common base.
"""

from __future__ import annotations

from typing import Any

from discover_rl.core import networks

LR_DECAY_SHARE: dict[str, Any] = {
    "sentence": "Share of the run over which lr_decay acts; afterwards learning rates stay.",
    "above": 0,
    "high": 1,
    "omit_default": True,
    "static": True,
}
"""The arguments of `setting` for `lr_decay_share`."""
LAYER_NORM: dict[str, Any] = {
    "sentence": "Networks whose hidden layers are normalised before their nonlinearity.",
    "choices": ("none", "actor", "critic", "both"),
    "omit_default": True,
}
"""The arguments of `setting` for `layer_norm`."""
ACTIVATION: dict[str, Any] = {
    "sentence": "Nonlinearity of the hidden layers.",
    "choices": tuple(networks.ACTIVATIONS),
    "omit_default": True,
}
"""The arguments of `setting` for `activation`; the default is the family's usual one."""


def activation_entry(hp: Any, usual: str) -> str:
    """Return the nonlinearity as new networks take it: "" where it is the family's usual one.

    A network with another nonlinearity carries its name; one with the usual nonlinearity does not.
    """
    return "" if hp.activation == usual else hp.activation
