"""How an agent explores: one file per strategy.

A strategy is a module with `Hyper` (its hyper-parameters) and `make` (which builds the strategy), a
`StrategyModule`. `interface.py` says what a strategy is made of, and `hooks.py` has the signatures
of its functions. `added_noise.py` is noise that strategies add to their own shift, and
`distillation.py` knows by two networks which inputs are new.
The groups of a strategy and what it is shown are re-exported here. Other packages add strategies
by `register_strategy` or by an entry point of the group `discover_rl.strategies`.
"""

from collections.abc import Iterable
from typing import Any

from discover_rl.core.types import UserError
from discover_rl.strategies.interface import (
    Acting,
    Blueprint,
    Density,
    Learning,
    NetworkSpec,
    Schedule,
    Strategy,
    StrategyModule,
    View,
)
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
"""The strategies of this package: name → one sentence."""

ONLY: dict[str, tuple[str, ...]] = {
    "meta": ("ddpg",),
    "oac": ("ddpg", "td3", "sac"),
    "see": ("td3", "sac"),
    "seek": ("ddpg", "td3", "sac"),
}
"""Strategies that exist only for some algorithms. All others exist for every algorithm."""


registry = Registry("strategy", __name__, STRATEGIES, ONLY, needs=("Hyper", "make"))
"""All strategies: those above and those that other packages add."""


def load(name: str) -> StrategyModule:
    """Import the module of a strategy. The first import of JAX takes a second."""
    return registry.load(name)


def register_strategy(name: str, member: Any, about: str = "", only: Iterable[str] = ()) -> None:
    """Add your own strategy.

    Args:
        name: its name: small letters, digits and underscores.
        member: an object with the attributes `Hyper` and `make`; or the name of a module that has
            them, for instance `__name__` in the module itself.
        about: a sentence for `discover list`.
        only: the names of the algorithms that it exists for; all, by default.
    """
    registry.register(name, member, about, only)


def several_environments(strategy: str, count: int) -> UserError:
    """The error for `count` environments per run with a strategy that can have one alone: its
    `Hyper` says so with a class variable, `one_environment`."""
    return UserError(
        f"env.count must be 1 with {strategy}, which follows one episode after the other, not "
        f"{count}."
    )


__all__ = [
    "ONLY",
    "STRATEGIES",
    "Acting",
    "Blueprint",
    "Density",
    "Learning",
    "NetworkSpec",
    "Schedule",
    "Strategy",
    "StrategyModule",
    "View",
    "load",
    "register_strategy",
    "registry",
    "several_environments",
]
