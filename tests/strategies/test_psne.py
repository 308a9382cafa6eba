"""Parameter noise: how far it reaches, when it changes, what it leaves alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import td3
from discover_rl.core import networks
from discover_rl.core.types import Batch
from discover_rl.strategies import psne
from discover_rl.strategies.interface import Blueprint, View
from tests.helpers import cells

build = functools.partial(cells.paired, td3, psne)


def linear(scale: float) -> View:
    """a = W x, without anything that bends."""
    net = {"head": {"weight": scale * jnp.ones((8, 2)), "bias": jnp.zeros(2)}}
    policy = lambda nudge, obs: (  # noqa: E731
        obs @ nudge.net["head"]["weight"] + nudge.net["head"]["bias"][None]
    )
    return View({"net": net}, policy, None)


LINEAR = Blueprint(
    lambda key, outputs: {"head": {"weight": jnp.zeros((8, outputs)), "bias": jnp.zeros(outputs)}},
    networks.apply,
    outputs=2,
)


def batch(n: int = 256) -> Batch:
    return cells.batch()._replace(
        obs=np.random.default_rng(0).normal(size=(n, 8)).astype(np.float32)
    )


@pytest.mark.parametrize(("threshold", "times"), [(1e9, 1.01), (0.0, 1 / 1.01)])
def test_sigma_grows_where_actions_are_near_and_shrinks_where_they_are_far(threshold, times):
    hyper = psne.Hyper(sigma=0.2, threshold=threshold)
    strategy = psne.make(cells.SPEC, hyper, LINEAR)
    state = strategy.init(None, hyper, None)
    after, _ = strategy.learning.step(state, linear(1.0), batch(), random.key(0))
    assert float(after.sigma) == pytest.approx(0.2 * times, rel=1e-6)
    # And back again.
    other = psne.Hyper(sigma=0.2, threshold=1e9 - threshold)
    back, _ = strategy.learning.step(
        after._replace(hyper=other), linear(1.0), batch(), random.key(0)
    )
    assert float(back.sigma) == pytest.approx(0.2, rel=1e-6)


def test_sigma_settles_where_the_distance_is_the_threshold():
    """E d² = σ² · mean |[x; 1]|² for a linear policy."""
    hyper = psne.Hyper(sigma=1.0, threshold=0.1)
    strategy = psne.make(cells.SPEC, hyper, LINEAR)
    data, view = batch(), linear(1.0)

    def step(state, key):
        state, d = strategy.learning.step(state, view, data, key)
        return state, (state.sigma, d)

    keys = random.split(random.key(0), 1500)
    _, (sigma, d) = jax.jit(lambda s: jax.lax.scan(step, s, keys))(strategy.init(None, hyper, None))
    expected = 0.1 / np.sqrt((data.obs**2).sum(1).mean() + 1)
    assert np.asarray(sigma[500:]).mean() == pytest.approx(expected, rel=0.1)
    assert np.asarray(d[500:]).mean() == pytest.approx(0.1, rel=0.1)


def test_a_copy_moves_all_but_what_normalises_and_by_sigma():
    _, algorithm, state = build(sigma=0.3)
    net = state.actor["net"]
    copies = jax.jit(jax.vmap(lambda key: algorithm.begin(state, key)))(
        random.split(random.key(1), 4000)
    )
    for name, layer in net.items():
        for part, own in layer.items():
            moved = np.asarray(copies[name][part]) - np.asarray(own)
            if part in ("gain", "offset"):
                assert np.abs(moved).max() == 0.0
            else:
                np.testing.assert_allclose(moved.std(0), 0.3, rtol=0.08)
                np.testing.assert_allclose(moved.mean(0), 0.0, atol=0.03)
    assert "gain" in net["layer0"]
    assert "gain" not in build(layer_norm=False)[2].actor["net"]["layer0"]


def test_without_sigma_it_acts_greedily_and_learning_sees_clean_parameters():
    strategy, algorithm, state = build(sigma=0.0)
    memory, noise = algorithm.begin(state, random.key(1)), algorithm.draw(random.key(2))
    obs = jnp.ones(3)
    _, _, action = jax.jit(algorithm.act)(state, memory, obs, noise, 99)
    greedy = networks.mean_action(algorithm.head, algorithm.greedy(state).net, obs[None])[0]
    np.testing.assert_allclose(action.executed, greedy, rtol=1e-6)
    view = View(state.actor, None, None, None)
    for role in ("target", "actor"):
        cells.assert_same(
            strategy.learning.expect(None, view, None, None, role).net, state.actor["net"]
        )


def test_it_adapts_every_so_many_updates():
    _, algorithm, _ = build(interval=3)
    flags = [update.strategy for step in range(5, 17) for update in algorithm.due(step)]
    assert flags == [number % 3 == 0 for number in range(1, 13)]


def test_the_copy_is_kept_until_the_episode_ends():
    """Whatever is learned and however σ adapts meanwhile."""
    agent = cells.build("ddpg", "psne", strategy_interval=1)
    seeds = [5, 6]
    state = cells.begin(agent, seeds, *cells.hypers("ddpg", "psne", strategy_interval=1))
    actor, sigma = jax.device_get((state.learner.actor["net"], state.learner.strategy.sigma))
    before = jax.device_get(state.memory)
    for step in range(1, 12):
        transition = cells.transition_at(seeds, step)
        state, _ = cells.tick(agent, state, transition, step)
        now = jax.device_get(state.memory)
        for lane in range(2):
            same = np.array_equal(before["head"]["weight"][lane], now["head"]["weight"][lane])
            assert same == (not transition.ended[lane])
        before = now
    assert (np.asarray(state.learner.strategy.sigma) != sigma).all()
    assert (
        np.asarray(state.learner.actor["net"]["head"]["weight"]) != actor["head"]["weight"]
    ).any()
