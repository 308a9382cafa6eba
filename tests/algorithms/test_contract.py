"""Strategies without noise do nothing: step for step, it is the algorithm by itself."""

import functools

import jax
import numpy as np
import pytest

from tests.helpers import cells

SEEDS = [5, 1]
# Each strategy with one algorithm of a family: what a family's algorithms share calls it.
CELLS = [
    ("ddpg", "discover", {"strategy_lam": 0.0}),
    ("sac", "coherent", {"strategy_sigma": 0.0}),
    ("td3", "gaussian", {"strategy_sigma": 0.0}),
    ("ddpg", "ou", {"strategy_sigma": 0.0}),
    # Its σ is learned and leaves 0 with the first step of the actor; until then it is silent.
    ("ddpg", "noisynet", {"strategy_sigma": 0.0, "actor_lr": 0.0}),
    # Its copy of the actor stays behind as the actor learns.
    ("td3", "psne", {"strategy_sigma": 0.0, "strategy_layer_norm": False, "actor_lr": 0.0}),
    ("a2c", "gaussian", {"strategy_sigma": 0.0}),
    ("ppo", "ou", {"strategy_sigma": 0.0}),
    ("ppo", "coherent", {"strategy_sigma": 0.0, "minibatches": 1}),
]


@functools.cache  # several strategies are compared with one algorithm
def outcome(algorithm: str, strategy: str, **settings):
    """What was done, and the policy that came of it."""
    agent = cells.build(algorithm, strategy, **settings)
    state = cells.begin(agent, SEEDS, *cells.hypers(algorithm, strategy, **settings))
    state, actions = cells.run(agent, state, SEEDS, 30)
    learner = jax.device_get(state.learner)
    return actions, learner.actor["net"], getattr(learner, "critics", None) or learner.critic


# TD3's own smoothing gives way to DISCOVER's, however short its directions: see test_discover.py.
# NoisyNet and PSNE on-policy are in test_recalled.py.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy", "quiet"),
    [pytest.param(*cell, id="-".join(cell[:2])) for cell in CELLS],
)
def test_without_noise_it_is_the_algorithm_by_itself(algorithm, strategy, quiet):
    bare = {name: value for name, value in quiet.items() if not name.startswith("strategy_")}
    silent, expected = outcome(algorithm, strategy, **quiet), outcome(algorithm, "none", **bare)
    cells.assert_close(silent, expected, 2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["a2c", "ppo"])
def test_a_direction_of_length_zero_is_the_algorithm_by_itself(algorithm):
    """Given the same weights for what they both see, wider networks learn the same."""
    started = {}
    for strategy, settings in (("none", {}), ("discover", {"strategy_lam": 0.0})):
        agent = cells.build(algorithm, strategy, **settings)
        hypers = cells.hypers(algorithm, strategy, **settings)
        started[strategy] = agent, cells.begin(agent, SEEDS, *hypers)
    (bare, state), (wide, directed) = started["none"], started["discover"]
    size = cells.SPEC.observation_size

    def widened(theirs, ours):
        layer = dict(theirs["layer0"])
        layer["weight"] = np.array(layer["weight"])
        layer["weight"][:, :size] = ours["layer0"]["weight"]
        net = {**ours, "layer0": {**ours["layer0"], "weight": layer["weight"]}}
        return jax.tree.map(np.copy, net)  # training writes into the arrays of a state

    learner = directed.learner
    actor = {"net": widened(learner.actor["net"], state.learner.actor["net"]), "joint": {}}
    critic = widened(learner.critic, state.learner.critic)
    directed = directed._replace(learner=learner._replace(actor=actor, critic=critic))
    state, actions = cells.run(bare, state, SEEDS, 30)
    directed, same = cells.run(wide, directed, SEEDS, 30)
    np.testing.assert_allclose(same, actions, rtol=2e-4, atol=2e-4)
    for name in ("actor", "critic"):
        nets = [getattr(it.learner, name) for it in (state, directed)]
        ours, theirs = (net["net"] if name == "actor" else net for net in nets)
        np.testing.assert_allclose(
            theirs["layer0"]["weight"][:, :size], ours["layer0"]["weight"], rtol=2e-4, atol=2e-4
        )
        untouched = learner.actor["net"] if name == "actor" else learner.critic
        np.testing.assert_array_equal(
            theirs["layer0"]["weight"][:, size:], untouched["layer0"]["weight"][:, size:]
        )
