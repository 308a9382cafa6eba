"""Settings of the rivals that are seldom turned: each does what it says, and nothing without it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import (
    ddpg,
    likelihood,
    off_policy_parts,
    on_policy_parts,
    ppo,
    sac,
    td3,
)
from discover_rl.core.types import Nudge, Spec, Update
from discover_rl.strategies import coherent, noisynet, psne
from discover_rl.strategies.interface import Learning, Strategy, View
from tests.algorithms.test_sac import log_density
from tests.helpers import cells
from tests.strategies import test_psne

ONE = Spec((3,), (1,), (-1.0,), (1.0,))
HIDDEN = ("layer0", "layer1")
OBS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


@functools.cache
def build(module, strategy, spec: Spec = cells.SPEC, **settings):
    """A strategy, the algorithm that it is built into, and their state at the start."""
    hp = module.Hyper(**(cells.SHORT if module is ppo else cells.SMALL))
    hyper = strategy.Hyper(**settings)
    made = strategy.make(spec, hyper, module.blueprint(spec, hp))
    algorithm = module.make(spec, hp, made)
    return made, algorithm, jax.jit(algorithm.init)(random.key(0), hp, hyper)


def view_of(module, state, actor=None) -> View:
    """What the strategy is shown while learning."""
    actor = state.actor if actor is None else actor
    if module is ppo:
        parts = on_policy_parts
        return View(actor, parts.policy, parts.features, critic=state.critic)
    parts = off_policy_parts
    return View(actor, sac.policy if module is sac else parts.policy, parts.features)


def largest(tree) -> float:
    return max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(tree))


# PSNE.


def test_psne_measures_by_the_mean_square_if_told_to():
    """A threshold between d² and d, or below both, tells them apart."""

    def learned(measure: str, threshold: float):
        hyper = psne.Hyper(sigma=0.1, threshold=threshold, measure=measure)
        strategy = psne.make(cells.SPEC, hyper, test_psne.LINEAR)
        state = strategy.init(None, hyper, None)
        given = test_psne.linear(1.0), test_psne.batch(), random.key(0)
        after, d = strategy.learning.step(state, *given)
        return float(after.sigma) / 0.1, float(d)

    _, d = learned("rms", 0.1)
    assert 0.05 < d < 0.8
    assert learned("mse", 0.1)[1] == pytest.approx(d**2, rel=1e-5)
    between, below = (d + d**2) / 2, d**2 / 2
    for measure, threshold, times in [
        ("rms", between, 1 / 1.01),
        ("mse", between, 1.01),
        ("mse", below, 1 / 1.01),
    ]:
        assert learned(measure, threshold)[0] == pytest.approx(times, rel=1e-5)


# NoisyNet.


@pytest.mark.parametrize("module", [td3, ppo, pytest.param(sac, marks=pytest.mark.slow)])
def test_all_layers_are_noisy_if_told_to(module):
    strategy, _, state = build(module, noisynet, sigma=0.3, layers="all")
    nets = {"net": {n: it for n, it in state.actor["net"].items() if n != "log_std"}}
    if module is ppo:
        nets["critic"] = state.critic
    assert set(nets["net"]) == {*HIDDEN, "head"}
    assert jax.tree.map(jnp.shape, state.actor["joint"]) == jax.tree.map(jnp.shape, nets)
    view = view_of(module, state)

    def moves(key):
        nudge = strategy.learning.expect((), view, None, key, "actor")
        moved = {"net": {n: nudge.net[n] for n in nets["net"]}, "critic": nudge.critic}
        return jax.tree.map(jnp.subtract, {which: moved[which] for which in nets}, nets)

    moved = jax.jit(jax.vmap(moves))(random.split(random.key(1), 2000))
    for leaf in jax.tree.leaves(moved):
        np.testing.assert_allclose(leaf.std(0), 0.3, rtol=0.1)  # six standard errors
        np.testing.assert_allclose(leaf.mean(0), 0.0, atol=0.04)
    last = build(module, noisynet, sigma=0.3)[2].actor["joint"]
    assert all(set(layers) == {"head"} for layers in last.values())


@pytest.mark.parametrize("value", [False, True])
def test_the_value_is_noisy_unless_told_otherwise(value):
    strategy, _, state = build(ppo, noisynet, sigma=0.3, value=value)
    assert set(state.actor["joint"]) == ({"net", "critic"} if value else {"net"})
    view = view_of(ppo, state)
    memory = strategy.acting.begin((), view, random.key(1))
    _, nudge = strategy.acting.behave((), strategy.density.recall(memory), view, OBS, (), False)
    assert (nudge.critic is not None) == value
    moved = nudge.net["head"]["weight"] - state.actor["net"]["head"]["weight"]
    assert largest(moved) > 0.1
    # What learning takes for the states' values.
    likely = likelihood.make(strategy, len(OBS), 1, 1)
    zeros = np.zeros(len(OBS), np.float32)
    action = np.zeros((len(OBS), 2), np.float32)
    sample = likelihood.Sample(OBS, OBS[:, :0], action, zeros, zeros, zeros, zeros, which=zeros)
    shared = jax.tree.map(lambda leaf: leaf[None], strategy.density.recall(memory))
    _, values, _ = likely.sample((), view, shared, sample)
    apart = np.abs(values - likelihood.value_of(state.critic, OBS, None)).max()
    assert apart > 0.1 if value else apart == 0.0


# Coherent.


@pytest.mark.parametrize("detach", [False, True])
def test_detached_the_spread_of_sac_moves_s_and_no_hidden_layer(detach):
    strategy, _, state = build(sac, coherent, sigma=0.3, detach=detach)

    def total(actor):
        view = view_of(sac, state, actor)
        return strategy.learning.expect(state.strategy, view, OBS, None, "actor").spread.sum()

    slopes = jax.jit(jax.grad(total))(state.actor)
    hidden = [largest(slopes["net"][name]) for name in HIDDEN]
    assert max(hidden) == 0.0 if detach else min(hidden) > 0.01
    assert largest(slopes["net"]["head"]) == 0.0
    assert largest(slopes["joint"]["log_s"]) > 0.01


@pytest.mark.parametrize("detach", [False, True])
def test_detached_a_likelihood_moves_hidden_layers_by_its_mean_alone(detach):
    """At the mean it has no slope in the mean: all that is left comes from S."""
    strategy, _, state = build(ppo, coherent, sigma=0.3, beta=0.1, detach=detach)
    mean = on_policy_parts.policy(Nudge(state.actor["net"]), OBS)

    def total(actor, action):
        piece = likelihood.Piece(OBS, OBS[:, :0], action, np.zeros(len(OBS), bool))
        view = view_of(ppo, state, actor)
        return strategy.density.log_prob(
            state.strategy, view, strategy.density.initial_belief, piece
        )[0].sum()

    slope = jax.jit(jax.grad(total))
    there = slope(state.actor, mean)
    hidden = [largest(there["net"][name]) for name in HIDDEN]
    assert max(hidden) < 1e-5 if detach else min(hidden) > 0.01
    away = slope(state.actor, mean + 0.5)
    for slopes in (there, away):
        assert largest(slopes["joint"]["log_s"]) > 0.01
    assert min(largest(away["net"][name]) for name in HIDDEN) > 0.001


def test_s_learns_without_a_density_if_told_to_and_the_target_stays_at_the_mean():
    batch, key, losses = cells.batch(), random.key(0), []
    for learns in (False, True):
        strategy, algorithm, state = build(td3, coherent, sigma=0.3, learn_s=learns)
        after, lost = cells.learner(algorithm)(state, batch, key, True)
        losses.append(lost)
        moved = after.actor["joint"]["log_s"] - state.actor["joint"]["log_s"]
        if learns:
            assert np.abs(moved[-1]).min() > 0  # the biases'
            assert np.count_nonzero(moved[:-1]) > moved[:-1].size / 2  # some inputs are always 0
        else:
            assert largest(moved) == 0.0
        own = {
            role: strategy.learning.expect(state.strategy, view_of(td3, state), OBS, key, role).net
            for role in ("target", "actor")
        }
        cells.assert_same(own["target"], state.actor["net"])
        apart = own["actor"]["head"]["weight"] - state.actor["net"]["head"]["weight"]
        assert largest(apart) > 0.1 if learns else largest(apart) == 0.0
    assert float(losses[0].critic) == pytest.approx(float(losses[1].critic), rel=1e-6)
    assert abs(float(losses[0].actor) - float(losses[1].actor)) > 1e-3


@pytest.mark.parametrize("obs", OBS[:2].tolist())
def test_squashed_actions_under_weights_that_are_drawn_have_the_density_that_is_learned(obs):
    """Counts in forty bins, each within 4.5 standard deviations of what the density expects."""
    draws, bins, fine = 200_000, 40, 100
    strategy, _, state = build(sac, coherent, ONE, sigma=0.5)
    obs, view = np.asarray([obs], np.float32), view_of(sac, state)

    def acted(key):
        start, step, white = random.split(key, 3)
        z = strategy.acting.begin(state.strategy, view, start)
        _, nudge = strategy.acting.behave(
            state.strategy, z, view, obs, strategy.acting.draw(step), False
        )
        return sac.sample(nudge, obs, random.normal(white, (1, 1)))[0, 0]

    actions = jax.jit(jax.vmap(acted))(random.split(random.key(1), draws))
    counts, _ = np.histogram(actions, bins, (-1.0, 1.0))
    grid = (np.arange(bins * fine) + 0.5) * 2 / (bins * fine) - 1

    def furthest(nudge) -> float:
        """How far off a bin is, in its standard deviations."""
        mean, std = (float(it[0, 0]) for it in sac.distribution(nudge, obs))
        density = np.exp(log_density(np.arctanh(grid), mean, std))
        expected = draws * density.reshape(bins, fine).mean(1) * 2 / bins
        assert expected.sum() == pytest.approx(draws, rel=0.01)
        return (np.abs(counts - expected) / np.sqrt(expected)).max()

    assert furthest(strategy.learning.expect(state.strategy, view, obs, None, "actor")) < 4.5
    assert furthest(Nudge(state.actor["net"])) > 20  # without the weights' share


# All of them.


@pytest.mark.parametrize("module", [ddpg, td3, sac])
def test_the_target_and_the_actor_are_nudged_with_keys_of_their_own(module):
    given = {}

    def noted(state, view, obs, key, role):
        given[role] = key
        return Nudge(view.net)

    hp = module.Hyper(**cells.SMALL)
    algorithm = module.make(cells.SPEC, hp, Strategy(learning=Learning(expect=noted)))

    @jax.jit
    def keys(number, batch):
        state = algorithm.init(random.key(0), hp, None)
        algorithm.learn(state, batch, random.key(number), Update(), 0.0)
        return {role: random.key_data(key) for role, key in given.items()}

    batch = cells.batch()
    found = [keys(number, batch)[role] for number in (0, 1) for role in ("target", "actor")]
    assert len(np.unique(found, axis=0)) == 4
