"""How an agent learns: one file per algorithm.

An algorithm is a module with `Hyper` (its hyper-parameters), `blueprint` (its actor's architecture)
and `make` (which builds the algorithm for a given strategy), an `AlgorithmModule`. `interface.py`
says what an algorithm is to the agent that runs it. `off_policy.py` has the code that DDPG, TD3 and
SAC share and `on_policy.py` the code that A2C and PPO share; `off_policy_parts.py` and
`on_policy_parts.py` have the settings and building blocks of each family, `shared_settings.py`
settings of both. `likelihood.py` computes how likely the actions of a rollout were, and
`scaled_rewards.py` scales rewards off-policy. Other packages add algorithms by
`register_algorithm` or by an entry point of the group `discover_rl.algorithms`.
"""

from typing import Any

from discover_rl.algorithms.interface import AlgorithmModule, OffPolicyAlgorithm, OnPolicyAlgorithm
from discover_rl.system.registry import Registry

ALGORITHMS = {
    "a2c": "advantage actor-critic (on-policy)",
    "ddpg": "deep deterministic policy gradient (off-policy)",
    "ppo": "proximal policy optimisation (on-policy)",
    "sac": "soft actor-critic with learned temperature (off-policy)",
    "td3": "twin delayed DDPG (off-policy)",
}
"""The algorithms of this package: name → one sentence."""


registry = Registry("algorithm", __name__, ALGORITHMS, {}, needs=("Hyper", "blueprint", "make"))
"""All algorithms: those above and those that other packages add."""


def load(name: str) -> AlgorithmModule:
    """Import the module of an algorithm. The first import of JAX takes a second.

    >>> load("ppo").Hyper.on_policy, load("td3").Hyper.on_policy
    (True, False)
    """
    return registry.load(name)


def register_algorithm(name: str, member: Any, about: str = "") -> None:
    """Add your own algorithm. On every task its settings have the defaults of its `Hyper`.

    Args:
        name: its name: small letters, digits and underscores.
        member: an object with the attributes `Hyper`, `blueprint` and `make`; or the name of a
            module that has them, for instance `__name__` in the module itself.
        about: a sentence for `discover list`.
    """
    registry.register(name, member, about)


__all__ = [
    "ALGORITHMS",
    "AlgorithmModule",
    "OffPolicyAlgorithm",
    "OnPolicyAlgorithm",
    "load",
    "register_algorithm",
    "registry",
]
