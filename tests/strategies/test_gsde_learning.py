"""State-dependent noise: how its size is learned, and whole runs."""

import re

import jax
import numpy as np
import pytest
from jax import random
from scipy.stats import norm

from discover_rl.algorithms import a2c, ppo, sac
from discover_rl.core.types import Update
from discover_rl.training import launch
from tests.algorithms.test_on_policy import rollout
from tests.helpers import cells
from tests.helpers.reference import forward, layers, q
from tests.helpers.slopes import actor_gradient
from tests.helpers.trainings import assert_same_files, runs_of, stop_at
from tests.strategies.test_gsde import SIZE, made, parts, std_of
from tests.strategies.test_hooks import slopes


@pytest.mark.parametrize("module", [ppo, pytest.param(a2c, marks=pytest.mark.slow)])
@pytest.mark.parametrize("through", [False, True])
def test_on_policy_gradients_are_those_of_the_density(module, through):
    """Of log σ and of a bias below the features, in the policy's loss and the entropy, against
    differences in double precision."""
    weight = 0.1
    sizes = {"horizon": 12, "minibatches": 1, "epochs": 1, "max_grad_norm": 1e9}
    sizes = tuple((sizes | {"entropy_weight": weight}).items())
    _, algorithm, state = made(module, sizes, learn_features=through)
    over = np.ones((12, 1), bool)  # episodes of one step, so that the target is the reward
    data = rollout()._replace(terminated=over, ended=over)
    after = jax.jit(algorithm.learn)(state, (), data, random.key(0), 0.0)[0]

    obs, action = (np.float64(it[:, 0]) for it in (data.obs, data.action))
    advantage = data.reward[:, 0] - forward(layers(state.critic), obs, tanh=True)[0][:, 0]
    if module is ppo:
        advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-5)
    net, start = state.actor["net"], np.float64(state.actor["joint"]["log_std"])
    old_mean, old_z = parts(net, obs, tanh=True)
    old = norm(old_mean, std_of(old_z, start)).logpdf(action).sum(1)

    def loss(log_std: np.ndarray, bias: np.ndarray) -> float:
        moved = {**net, "layer1": {**net["layer1"], "bias": bias}}
        mean, z = parts(moved, obs, tanh=True)
        now = norm(mean, std_of(z if through else old_z, log_std))
        log_prob = now.logpdf(action).sum(1)
        gain = np.exp(log_prob - old) if module is ppo else log_prob
        return -(advantage * gain).mean() - weight * now.entropy().sum(1).mean()

    given = actor_gradient(state, after, adam=module is ppo)
    bias = np.float64(net["layer1"]["bias"])
    expected = slopes(lambda it: loss(it, bias), start)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(given["joint"]["log_std"], expected, rtol=2e-3, atol=2e-4)
    expected = slopes(lambda it: loss(start, it), bias)
    np.testing.assert_allclose(given["net"]["layer1"]["bias"], expected, rtol=2e-3, atol=2e-3)
    assert not np.any(given["net"]["log_std"]["value"])  # it is replaced


@pytest.mark.parametrize("through", [False, True])
def test_sac_learns_with_the_same_density(through):
    """Target, actor's loss and its gradients, against an independent version."""
    sizes = (("gamma", 0.9), ("temperature", 0.4), ("critic_lr", 0.0))
    _, algorithm, state = made(sac, sizes, learn_features=through, mean_limit=0.05)
    batch, key = cells.batch(), random.key(3)
    after, losses = cells.learner(algorithm)(state, batch, key, True)
    target_key, actor_key, _ = random.split(key, 3)
    noises = [
        np.asarray(random.normal(random.split(it)[1], batch.bare.shape), np.float64)
        for it in (target_key, actor_key)
    ]
    critics = [layers(jax.tree.map(lambda leaf, i=i: leaf[i], state.critics)) for i in range(2)]
    net, start = state.actor["net"], np.float64(state.actor["joint"]["log_std"])

    def sampled(obs, log_std, bias, noise):
        moved = {**net, "layer1": {**net["layer1"], "bias": bias}}
        outputs, z = parts(moved, obs, tanh=False)
        z = z if through else parts(net, obs, tanh=False)[1]
        mean, std = np.clip(outputs[:, :SIZE], -0.05, 0.05), std_of(z, log_std)
        raw = mean + std * noise
        log_prob = (norm.logpdf(raw, mean, std) - np.log1p(-(np.tanh(raw) ** 2))).sum(1)
        obs = np.float64(obs)
        return np.minimum(*(q(critic, obs, np.tanh(raw)) for critic in critics)), log_prob

    bias = np.float64(net["layer1"]["bias"])
    value, log_prob = sampled(batch.next_obs, start, bias, noises[0])
    y = batch.reward + 0.9 * np.where(batch.terminated, 0.0, value - 0.4 * log_prob)
    errors = [q(critic, batch.obs, batch.executed) - y for critic in critics]
    assert float(losses.critic) == pytest.approx(sum((it**2).mean() for it in errors), rel=1e-4)

    def loss(log_std, bias) -> float:
        value, log_prob = sampled(batch.obs, log_std, bias, noises[1])
        return (0.4 * log_prob - value).mean()

    assert float(losses.actor) == pytest.approx(loss(start, bias), rel=1e-4)
    given = jax.tree.map(lambda leaf: leaf / 0.1, after.actor_optimiser[0].mu)
    expected = slopes(lambda it: loss(it, bias), start)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(given["joint"]["log_std"], expected, rtol=1e-3, atol=1e-5)
    expected = slopes(lambda it: loss(start, it), bias)
    np.testing.assert_allclose(given["net"]["layer1"]["bias"], expected, rtol=1e-3, atol=1e-5)
    # The part of the network that would give a standard deviation is not used.
    assert not np.any(given["net"]["head"]["weight"][:, SIZE:])


def test_what_sac_learns_by_passes_back_through_the_hidden_layers_once():
    """Mean, cut mean and σ share their features: the second layer has one gradient, not three."""
    _, algorithm, state = made(sac, (("hidden", (5, 7)),), learn_features=True)
    learn = jax.jit(lambda *given: algorithm.learn(*given, Update(), 0.0)[0])
    program = learn.lower(state, cells.batch(), random.key(0)).as_text()
    assert len(re.findall(r"dot_general.*-> tensor<(?:5x7|7x5)xf32>", program)) == 1


# Whole runs.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("sac", {"strategy.interval": 7}),
        ("ppo", {"env.count": 2}),
        ("a2c", {"env.count": 2, "strategy.interval": 4}),
    ],
)
def test_a_stopped_run_resumes_exactly(tmp_path, algorithm, settings):
    runs = runs_of(algorithm=algorithm, strategy="gsde", **settings)
    launch.train(runs, tmp_path / "whole")
    for step in (36, 102):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    launch.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
