"""How an agent explores: one file per strategy.

A member is a module with `Hyper` (its hyper-parameters) and `make` (the strategy). `interface.py`
says what a strategy is made of. Strategies of others are registered, or are entry points of the
group `discover_rl.strategies`.
"""

from collections.abc import Iterable
from typing import Any

from discover_rl.system.registry import Registry

STRATEGIES = {
    "none": "nothing added: what the policy does by itself",
    "gaussian": "white noise on the action",
    "ou": "Ornstein–Uhlenbeck noise on the action, with a memory",
    "pink": "coloured noise: by default pink, with a spectrum of 1/f",
    "zeta": "noise that is repeated for a random number of steps",
    "corner": "a random corner of the action box, held for a stretch",
    "gsde": "noise that is a function of the state, its size learned",
    "noisynet": "learned noise on the last layer's weights",
    "psne": "noise on all parameters, adapted to a distance of actions",
    "coherent": "noise on the last layer's weights that changes slowly",
    "meta": "a teacher that acts, rewarded by what the student learns from it",
    "oac": "a shift towards an upper bound of Q",
    "discover": "a learned direction towards large TD error",
    "rnd": "a bonus for states that a network has not learned to predict",
    "see": "a second policy that seeks TD errors, chosen by advantage",
    "seek": "a direction towards an optimistic value of TD errors, in stretches",
}
"""The strategies, by name, each with a sentence."""

ONLY: dict[str, tuple[str, ...]] = {
    "meta": ("ddpg",),
    "oac": ("ddpg", "td3", "sac"),
    "see": ("td3", "sac"),
    "seek": ("ddpg", "td3", "sac"),
}
"""Strategies that exist for some algorithms alone. All others exist for every algorithm."""


registry = Registry("strategy", __name__, STRATEGIES, ONLY, needs=("Hyper", "make"))
"""These and those of others."""


def load(name: str) -> Any:
    """The module of a strategy. Imports JAX, which takes a second the first time."""
    return registry.load(name)


def register_strategy(name: str, member: Any, about: str = "", only: Iterable[str] = ()) -> None:
    """Add a strategy of one's own.

    Args:
        name: its name: small letters, digits and underscores.
        member: what has its `Hyper` and `make`; or the name of a module, which may be the one that
            is being imported: `__name__`.
        about: a sentence for `discover list`.
        only: the names of the algorithms that it exists for; all, by default.
    """
    registry.register(name, member, about, only)


__all__ = ["ONLY", "STRATEGIES", "load", "register_strategy", "registry"]
