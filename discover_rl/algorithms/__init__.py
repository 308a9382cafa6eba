"""How an agent learns: one file per algorithm.

A member is a module with `Hyper` (its hyper-parameters), `blueprint` (its actor's architecture) and
`make` (the algorithm, given a strategy). `off_policy.py` is what DDPG, TD3 and SAC share,
`on_policy.py` what A2C and PPO share, `likelihood.py` how likely a rollout's actions were.
`interface.py` says what an algorithm is to the agent that runs it.
"""

import importlib
from typing import Any

ALGORITHMS = {
    "a2c": "advantage actor-critic (on-policy)",
    "ddpg": "deep deterministic policy gradient (off-policy)",
    "ppo": "proximal policy optimisation (on-policy)",
    "sac": "soft actor-critic with learned temperature (off-policy)",
    "td3": "twin delayed DDPG (off-policy)",
}
"""The algorithms, by name, each with a sentence."""


def load(name: str) -> Any:
    """The module of an algorithm. Imports JAX, which takes a second the first time.

    >>> load("ppo").Hyper.on_policy, load("td3").Hyper.on_policy
    (True, False)
    """
    return importlib.import_module(f"discover_rl.algorithms.{name}")


__all__ = ["ALGORITHMS", "load"]
