"""Strategies that only act: after the same updates, everything learned is that of `none`."""

import functools
from typing import Any

import jax
import numpy as np
import pytest
from jax import random

from discover_rl import algorithms, strategies
from discover_rl.core.types import Update
from tests.algorithms.test_on_policy import rollout
from tests.helpers import cells

SLOW = pytest.mark.slow


def learned(algorithm: str, strategy: str, **settings: Any) -> tuple[dict, dict]:
    """What an algorithm has learned from given data, and what it started from."""
    module, theirs = algorithms.load(algorithm), strategies.load(strategy)
    on_policy = cells.is_on_policy(algorithm)
    small = {**cells.SHORT, "horizon": 12} if on_policy else cells.SMALL
    hp, hyper = module.Hyper(**small), theirs.Hyper(**settings)
    exploring = theirs.make(cells.SPEC, hyper, module.blueprint(cells.SPEC, hp))
    made = module.make(cells.SPEC, hp, exploring)
    state = start = jax.jit(made.init)(random.key(0), hp, hyper)
    learn = jax.jit(made.learn) if on_policy else jax.jit(made.learn, static_argnums=3)
    for number in range(4):
        data, key = (rollout if on_policy else cells.batch)(seed=number), random.key(number)
        both = number % 2 == 1  # TD3 moves its actor and its targets at every other update
        given = ((), data, key) if on_policy else (data, key, Update(both, both, both))
        state = learn(state, *given, 0.0)[0]
    return algorithms_own(state), algorithms_own(start)


def algorithms_own(state: Any) -> dict[str, Any]:
    """All of a state that is not the strategy's; its parameters beside the actor are."""
    parts = {**state._asdict(), "actor": state.actor["net"], "strategy": (), "hyper": ()}
    if hasattr(state, "actor_optimiser"):
        adam, *rest = state.actor_optimiser
        parts["actor_optimiser"] = adam.count, adam.mu["net"], adam.nu["net"], rest
        parts["target_actor"] = state.target_actor and state.target_actor["net"]
    return parts


of_none = functools.cache(functools.partial(learned, strategy="none"))


@pytest.mark.parametrize(
    ("algorithm", "strategy", "settings"),
    [
        ("td3", "gaussian", {}),
        ("td3", "ou", {}),
        ("ppo", "gaussian", {}),
        ("ppo", "ou", {}),
        # It acts with a perturbed copy and adapts σ; losses and targets have the actor itself.
        ("td3", "psne", {"layer_norm": False, "interval": 1}),
        # Without a density, it learns with the means of the weights.
        ("td3", "coherent", {}),
        *(
            pytest.param(algorithm, strategy, {}, marks=SLOW)
            for algorithm in ("ddpg", "sac", "a2c")
            for strategy in ("gaussian", "ou")
        ),
    ],
)
def test_what_is_learned_is_that_of_none(algorithm, strategy, settings):
    after, start = learned(algorithm, strategy, sigma=0.5, **settings)
    expected, same_start = of_none(algorithm)
    cells.assert_same(start, same_start)
    cells.assert_same(after, expected)
    moved = jax.tree.map(lambda x, y: float(np.abs(x - y).max()), after["actor"], start["actor"])
    assert min(jax.tree.leaves(moved)) > 1e-5
