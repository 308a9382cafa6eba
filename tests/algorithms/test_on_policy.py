"""The on-policy family: returns by hand and by a loop, losses in NumPy, what moves and what not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import a2c, likelihood, ppo
from discover_rl.core import networks
from discover_rl.core.equations import advantages, gaussian_log_prob
from discover_rl.core.types import Rollout
from discover_rl.strategies import discover, none
from discover_rl.strategies.interface import Strategy
from tests.helpers import cells, reference
from tests.helpers.reference_on_policy import Reference

SMALL = {"hidden": (16, 16), "horizon": 12}
MODULES = {"a2c": a2c, "ppo": ppo}


def rollout(steps=12, envs=1, context=0, seed=0) -> Rollout:
    """Made-up data: a termination, a truncation, and an episode that goes on at the end."""
    g = np.random.default_rng(seed)
    terminated = np.zeros((steps, envs), bool)
    terminated[3] = True
    ended = terminated.copy()
    ended[8] = True
    normal = lambda *shape: g.normal(size=shape).astype(np.float32)  # noqa: E731
    return Rollout(
        obs=normal(steps, envs, cells.SPEC.observation_size),
        context=0.1 * normal(steps, envs, context),
        action=normal(steps, envs, cells.SPEC.action_size),
        reward=normal(steps, envs),
        terminated=terminated,
        ended=ended,
        next_obs=normal(steps, envs, cells.SPEC.observation_size),
    )


@functools.cache
def learner(name: str, lam: float | None = None, **settings):
    module = MODULES[name]
    hp = module.Hyper(**{**SMALL, **settings})
    hyper = none.Hyper() if lam is None else discover.Hyper(lam=lam)
    blueprint = module.blueprint(cells.SPEC, hp)
    strategy = Strategy() if lam is None else discover.make(cells.SPEC, hyper, blueprint)
    algorithm = module.make(cells.SPEC, hp, strategy)
    state = jax.jit(algorithm.init)(random.key(0), hp, hyper)
    return algorithm, state, jax.jit(lambda *given: without_belief(algorithm, *given))


def without_belief(algorithm, state, data, key, progress):
    """A learner of actions that do not depend on each other."""
    state, _, losses, diagnostics = algorithm.learn(state, (), data, key, progress)
    return state, losses, diagnostics


def test_advantages_by_hand():
    """Three steps, γ = λ = ½, V = 1 and V(s′) = 2 throughout, rewards 1."""
    ones = jnp.ones((3, 1))
    no, yes = jnp.zeros((3, 1), bool), jnp.asarray([[False], [True], [False]])

    def of(terminated, ended):
        return advantages(ones, terminated, ended, ones, 2 * ones, 0.5, 0.5)[:, 0]

    # δ = 1 + ½ · 2 − 1 = 1 everywhere; A₂ = 1, A₁ = 1 + ¼, A₀ = 1 + ¼ · 1.25.
    np.testing.assert_allclose(of(no, no), [1.3125, 1.25, 1.0])
    # Truncated after the second step: it keeps its bootstrap, but nothing flows back past it.
    np.testing.assert_allclose(of(no, yes), [1.25, 1.0, 1.0])
    # Terminated there: no bootstrap either, so δ₁ = 1 − 1 = 0.
    np.testing.assert_allclose(of(yes, yes), [1.0, 0.0, 1.0])


@pytest.mark.parametrize("gae_lambda", [0.0, 0.95, 1.0])
def test_advantages_equal_a_loop(gae_lambda):
    data, gamma = rollout(envs=2), 0.9
    value, next_value = (np.random.default_rng(i).normal(size=(12, 2)) for i in (1, 2))
    expected, later = np.zeros((12, 2)), np.zeros(2)
    for t in reversed(range(12)):
        bootstrap = np.where(data.terminated[t], 0.0, next_value[t])
        delta = data.reward[t] + gamma * bootstrap - value[t]
        later = delta + gamma * gae_lambda * np.where(data.ended[t], 0.0, later)
        expected[t] = later
    ends = data.terminated, data.ended
    got = advantages(data.reward, *ends, value, next_value, gamma, gae_lambda)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_without_gae_targets_are_n_step_returns():
    """A + V with λ = 1: rewards summed to the end of the episode or of the rollout, then V."""
    data, gamma = rollout(), 0.9
    value, next_value = (np.random.default_rng(i).normal(size=(12, 1)) for i in (1, 2))
    # Within an episode, what comes next is what is valued next.
    next_value[:-1] = np.where(data.ended[:-1], next_value[:-1], value[1:])
    got = (
        advantages(data.reward, data.terminated, data.ended, value, next_value, gamma, 1.0) + value
    )
    for t in range(12):
        total, discount = 0.0, 1.0
        for i in range(t, 12):
            total += discount * data.reward[i, 0]
            discount *= gamma
            if data.ended[i, 0] or i == 11:
                total += 0.0 if data.terminated[i, 0] else discount * next_value[i, 0]
                break
        assert float(got[t, 0]) == pytest.approx(total, rel=1e-4, abs=1e-5)


def test_log_probability_is_the_normals():
    from scipy.stats import norm

    g = np.random.default_rng(0)
    action, mean, log_std = g.normal(size=(5, 2)), g.normal(size=(5, 2)), g.normal(size=2)
    expected = norm.logpdf(action, mean, np.exp(log_std)).sum(1)
    got = gaussian_log_prob(*(jnp.asarray(x, jnp.float32) for x in (action, mean, log_std[None])))
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def sample(n=16, seed=0, **changes):
    g = np.random.default_rng(seed)
    normal = lambda *shape: g.normal(size=shape).astype(np.float32)  # noqa: E731
    made = likelihood.Sample(
        obs=normal(n, 3),
        context=normal(n, 0),
        action=normal(n, 2),
        log_prob=normal(n),
        value=normal(n),
        advantage=normal(n),
        target=normal(n),
    )
    return made._replace(**changes)


def test_ppos_losses_equal_numpy():
    s, hp = sample(), ppo.Hyper(clip=0.2)
    log_prob = s.log_prob + 0.5 * np.random.default_rng(1).normal(size=16).astype(np.float32)
    ratio = np.exp(log_prob - s.log_prob)
    terms = [min(r * a, np.clip(r, 0.8, 1.2) * a) for r, a in zip(ratio, s.advantage, strict=True)]
    assert float(ppo.policy_loss(log_prob, s, hp)) == pytest.approx(-np.mean(terms), rel=1e-5)
    value = s.value + np.random.default_rng(2).normal(size=16).astype(np.float32)
    near = s.value + np.clip(value - s.value, -0.2, 0.2)
    worst = np.maximum((value - s.target) ** 2, (near - s.target) ** 2)
    assert float(ppo.value_loss(value, s, hp)) == pytest.approx(0.5 * worst.mean(), rel=1e-5)
    plain = ppo.Hyper(clip_value=False)
    expected = 0.5 * ((value - s.target) ** 2).mean()
    assert float(ppo.value_loss(value, s, plain)) == pytest.approx(expected, rel=1e-5)


def test_a2cs_losses_equal_numpy():
    s, hp = sample(), a2c.Hyper()
    expected = -(s.advantage * s.log_prob).mean()
    assert float(a2c.policy_loss(s.log_prob, s, hp)) == pytest.approx(expected, rel=1e-5)
    expected = ((s.value - s.target) ** 2).mean()
    assert float(a2c.value_loss(s.value, s, hp)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("lam", [None, 0.1])
def test_the_ratio_is_one_before_the_first_step(lam):
    """With no step made, PPO's loss is minus the mean advantage, which is 0 when normalised."""
    settings = {"epochs": 1, "minibatches": 1, "actor_lr": 0.0}
    _, state, learn = learner("ppo", lam, **settings)
    data = rollout(context=0 if lam is None else cells.SPEC.observation_size)
    after, losses, _ = learn(state, data, random.key(0), 0.0)
    assert float(losses.actor) == pytest.approx(0.0, abs=1e-6)
    cells.assert_same(after.actor, state.actor)


def test_without_a_strategy_there_is_no_context():
    _, state, _ = learner("ppo")
    for net in (state.actor["net"], state.critic):
        assert net["layer0"]["weight"].shape == (cells.SPEC.observation_size, 16)
    _, state, _ = learner("ppo", 0.1)
    for net in (state.actor["net"], state.critic):
        assert net["layer0"]["weight"].shape == (2 * cells.SPEC.observation_size, 16)
    explorer = state.strategy.explorer
    assert explorer["head"]["weight"].shape == (16, cells.SPEC.observation_size)


def test_the_context_is_zero_in_evaluation():
    algorithm, state, _ = learner("ppo", 0.1)
    net = jax.device_get(algorithm.greedy(state).net)
    obs = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    wide = np.hstack([obs, np.zeros_like(obs)])
    full = networks.apply(jax.device_get(state.actor["net"]), wide, "tanh")
    np.testing.assert_allclose(networks.mean_action(algorithm.head, net, obs), full, rtol=1e-5)
    # While training there is one, and it counts.
    noise = jax.device_get(algorithm.draw(random.key(0)))
    _, nudge, action = algorithm.acting(jax.device_get(state))((), obs[:1], noise)
    xi = np.tanh(networks.apply(jax.device_get(state.strategy.explorer), obs[:1], "tanh"))
    np.testing.assert_allclose(nudge.context, 0.1 * xi, rtol=1e-5)
    assert np.abs(action - noise[0] - full[:1]).max() > 1e-4  # σ is 1 at first


def test_an_explorer_step_raises_the_error_and_moves_nothing_else():
    settings = {"epochs": 1, "minibatches": 1, "value_weight": 0.0}
    _, state, learn = learner("a2c", 0.1, **settings)
    # Episodes of one step: the target is the reward, whatever the explorer says of s′.
    over = np.ones((12, 1), bool)
    data = rollout(context=3)._replace(terminated=over, ended=over)
    moved, losses, _ = learn(state, data, random.key(0), 0.0)
    before = state.strategy.explorer["head"]["weight"]
    assert np.abs(moved.strategy.explorer["head"]["weight"] - before).max() > 1e-5
    cells.assert_same(moved.critic, state.critic)  # its loss has no weight here
    # Once more from the moved explorer, everything else as it was: the error is larger.
    again = state._replace(strategy=moved.strategy)
    _, after, _ = learn(again, data, random.key(0), 0.0)
    assert float(after.strategy) < float(losses.strategy) < 0.0


def order(key, count: int, epochs: int, minibatches: int) -> np.ndarray:
    """Which samples each step of learning sees."""
    tags = random.bits(random.split(key, 3)[1], (epochs, count))
    return np.argsort(tags, axis=1, kind="stable").reshape(epochs * minibatches, -1)


# Large steps, so that ratios and values come to be cut.
LARGE = {"epochs": 2, "minibatches": 2, "actor_lr": 0.02, "max_grad_norm": 0.7}


@pytest.mark.parametrize(
    ("name", "envs", "settings"),
    [
        ("a2c", 2, {"gae_lambda": 1.0, "max_grad_norm": 0.5}),
        ("a2c", 2, {"gae_lambda": 0.9, "max_grad_norm": 50.0}),
        ("ppo", 1, LARGE),
        ("ppo", 1, LARGE | {"normalise_advantages": "minibatch", "max_grad_norm": 2.5}),
    ],
)
def test_a_whole_update_equals_numpy(name, envs, settings):
    settings = settings | {"entropy_weight": 0.01, "lr_decay": 1.0, "initial_log_std": -0.3}
    _, state, learn = learner(name, **settings)
    hp = state.hyper
    rate = 0.75 * float(hp.actor_lr)
    clip = float(hp.clip) if name == "ppo" else None
    start = jax.device_get(state)
    theirs = Reference(start.actor["net"], start.critic, jax.device_get(hp), rate, clip)
    epochs, minibatches = settings.get("epochs", 1), settings.get("minibatches", 1)
    for number in range(2):  # the second with an optimiser that remembers the first
        key, data = random.key(number), rollout(envs=envs, seed=number)
        theirs.learn(data, order(key, data.reward.size, epochs, minibatches))
        state, _, _ = learn(state, data, key, 0.25)
    assert len(theirs.norms) == 2 * epochs * minibatches
    if name == "ppo":
        assert theirs.cut_ratios > 2
        assert theirs.cut_values > 2
        assert min(theirs.norms) < settings["max_grad_norm"] < max(theirs.norms)
    else:
        assert (min(theirs.norms) > hp.max_grad_norm) == (settings["max_grad_norm"] == 0.5)
    after = jax.device_get(state)
    net = {layer: part for layer, part in after.actor["net"].items() if layer != "log_std"}
    got = [reference.layers(net), reference.layers(after.critic), after.actor["net"]["log_std"]]
    cells.assert_close(got, [theirs.actor, theirs.critic, {"value": theirs.log_std}], 2e-5)
    moved = np.abs(after.critic["head"]["weight"] - start.critic["head"]["weight"]).max()
    assert moved > 1e-3


def test_the_policys_last_layer_starts_as_large_as_it_is_told():
    """Orthogonal times the gain: columns of that length. Nothing else starts otherwise."""
    _, usual, _ = learner("ppo")
    _, small, _ = learner("ppo", head_gain=0.01)
    for state, gain in ((usual, 1.0), (small, 0.01)):
        weight = np.asarray(state.actor["net"]["head"]["weight"])
        size = cells.SPEC.action_size
        np.testing.assert_allclose(weight.T @ weight, gain**2 * np.eye(size), atol=1e-6 * gain**2)
    rest = [{n: it for n, it in s.actor["net"].items() if n != "head"} for s in (usual, small)]
    cells.assert_same(*rest)
    cells.assert_same(usual.critic, small.critic)


def test_gradients_are_cut_jointly():
    """With a tiny norm allowed, RMSProp's first step still is lr · g/|g|/√(1−α): direction kept."""
    _, state, learn = learner("a2c", max_grad_norm=1e-3)
    _, same, free = learner("a2c", max_grad_norm=1e9)
    data = rollout()
    cut, _, _ = learn(state, data, random.key(0), 0.0)
    whole, _, _ = free(same, data, random.key(0), 0.0)
    small, large = (np.asarray(state.optimiser[1][0].nu) for state in (cut, whole))
    used = large > 1e-12
    ratio = np.sqrt(small[used] / large[used])
    assert ratio.std() / ratio.mean() < 1e-2
    assert np.sqrt(small.sum() / 0.01) == pytest.approx(1e-3, rel=1e-2)


def test_learning_rates_fade():
    _, state, learn = learner("ppo", lr_decay=1.0, epochs=1, minibatches=1)
    after, _, _ = learn(state, rollout(), random.key(0), 1.0)
    cells.assert_same(after.actor, state.actor)
    _, state, learn = learner("ppo", lr_decay=1.0, lr_decay_share=0.5, epochs=1, minibatches=1)
    after, _, _ = learn(state, rollout(), random.key(0), 0.5)
    cells.assert_same(after.actor, state.actor)


def test_every_transition_is_used_once_an_epoch():
    """With learning switched off, the mean loss over minibatches is the loss of the whole."""
    _, state, learn = learner("ppo", epochs=3, minibatches=4, actor_lr=0.0)
    _, same, at_once = learner("ppo", epochs=1, minibatches=1, actor_lr=0.0)
    data = rollout()
    parts, whole = learn(state, data, random.key(0), 0.0), at_once(same, data, random.key(1), 0.0)
    np.testing.assert_allclose(parts[1].critic, whole[1].critic, rtol=1e-5)


@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_metrics_of_what_was_learned_equal_numpy(name):
    algorithm, before, _ = learner(name, gamma=0.0)
    data, key = rollout(), random.key(1)
    measure = jax.jit(algorithm.measure)
    found = measure(before, before, (), data, key, 0.0)
    np.testing.assert_allclose(found["kl"], 0.0, atol=1e-6)
    assert found.get("clip_fraction", 0.0) == 0.0
    # A state whose actions are half as far spread.
    net = before.actor["net"]
    narrow = {**net, "log_std": {"value": net["log_std"]["value"] + np.log(0.5)}}
    after = before._replace(actor={**before.actor, "net": narrow})
    found = jax.device_get(measure(before, after, (), data, key, 0.0))
    z = data.action[:, 0] - np.asarray(
        networks.mean_action(algorithm.head, algorithm.greedy(before).net, data.obs[:, 0])
    )
    ratio = np.exp((-0.5 * (2 * z) ** 2 + 0.5 * z**2 + np.log(2)).sum(axis=1))
    np.testing.assert_allclose(found["kl"], (ratio - 1 - np.log(ratio)).mean(), rtol=1e-3)
    np.testing.assert_allclose(found["noise"], np.sqrt((z**2).mean()), rtol=1e-5)
    entropy = 2 * (np.log(0.5) + 0.5 * np.log(2 * np.pi * np.e))
    np.testing.assert_allclose(found["entropy"], entropy, rtol=1e-5)
    if name == "ppo":
        assert found["clip_fraction"] == np.float32((abs(ratio - 1) > 0.2).mean())
    # Without a future, R̂ is the reward.
    reward, value = data.reward[:, 0], likelihood.value_of(before.critic, data.obs[:, 0], None)
    explained = 1 - np.var(reward - value) / np.var(reward)
    np.testing.assert_allclose(found["explained_variance"], explained, rtol=1e-4)
