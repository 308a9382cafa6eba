"""How an agent learns: one file per algorithm.

A member is a module with `Hyper` (its hyper-parameters), `blueprint` (its actor's architecture) and
`make` (the algorithm, given a strategy). `off_policy.py` is what DDPG, TD3 and SAC share,
`on_policy.py` what A2C and PPO share, `likelihood.py` how likely a rollout's actions were.
`interface.py` says what an algorithm is to the agent that runs it. Algorithms of others are
registered, or are entry points of the group `discover_rl.algorithms`.
"""

from typing import Any

from discover_rl.system.registry import Registry

ALGORITHMS = {
    "a2c": "advantage actor-critic (on-policy)",
    "ddpg": "deep deterministic policy gradient (off-policy)",
    "ppo": "proximal policy optimisation (on-policy)",
    "sac": "soft actor-critic with learned temperature (off-policy)",
    "td3": "twin delayed DDPG (off-policy)",
}
"""The algorithms, by name, each with a sentence."""


registry = Registry("algorithm", __name__, ALGORITHMS, {}, needs=("Hyper", "blueprint", "make"))
"""These and those of others."""


def load(name: str) -> Any:
    """The module of an algorithm. Imports JAX, which takes a second the first time.

    >>> load("ppo").Hyper.on_policy, load("td3").Hyper.on_policy
    (True, False)
    """
    return registry.load(name)


def register_algorithm(name: str, member: Any, about: str = "") -> None:
    """Add an algorithm of one's own; its settings have the defaults of its `Hyper` on every task.

    Args:
        name: its name: small letters, digits and underscores.
        member: what has its `Hyper`, `blueprint` and `make`; or the name of a module, which may be
            the one that is being imported: `__name__`.
        about: a sentence for `discover list`.
    """
    registry.register(name, member, about)


__all__ = ["ALGORITHMS", "load", "register_algorithm", "registry"]
