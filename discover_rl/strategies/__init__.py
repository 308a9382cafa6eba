"""The strategies, by name. A member is a module with `Hyper` and `make`."""

STRATEGIES = {
    "none": "nothing added: what the policy does by itself",
    "gaussian": "white noise on the action",
    "ou": "Ornstein–Uhlenbeck noise on the action, with a memory",
    "noisynet": "learned noise on the last layer's weights",
    "psne": "noise on all parameters, adapted to a distance of actions",
    "coherent": "noise on the last layer's weights that wanders slowly",
    "meta": "a teacher that acts, paid by what the student learns from it",
    "discover": "a learned direction towards large TD error",
}

ONLY: dict[str, tuple[str, ...]] = {"meta": ("ddpg",)}
"""Strategies that exist for some algorithms alone. All others exist for every algorithm."""
