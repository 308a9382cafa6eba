"""Metrics of training, held against NumPy: they are what their names say."""

import jax
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import ddpg, sac
from discover_rl.core.equations import advantages
from discover_rl.strategies import none
from discover_rl.strategies.interface import Strategy
from tests.algorithms.test_on_policy import LARGE, learner, rollout
from tests.helpers import cells
from tests.helpers.reference import forward, layers, q, squashed
from tests.helpers.reference_on_policy import Reference


def begun(module, **settings):
    """An algorithm without a strategy, and its first state."""
    hp = module.Hyper(**cells.SMALL, **settings)
    algorithm = module.make(cells.SPEC, hp, Strategy())
    return algorithm, jax.jit(algorithm.init)(random.key(0), hp, none.Hyper())


def assert_metrics(found, expected):
    """These are among the metrics, with these values."""
    got = {name: float(found[name]) for name in expected}
    assert got == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_losses_and_noise_of_ddpg():
    rates = {"actor_lr": 1e-2, "critic_lr": 2e-2, "lr_decay": 0.5}
    algorithm, state = begun(ddpg, gamma=0.9, normalise=False, **rates)
    batch, recent = cells.batch(), cells.batch(seed=1)
    found = jax.jit(algorithm.measure)(state, batch, recent, random.key(0), 0.5)

    def q_of(critics, obs, action):
        hidden, *_ = critic = layers(jax.tree.map(lambda leaf: leaf[0], critics))
        assert hidden[0].shape[0] == obs.shape[1]  # actions join at the second layer
        return forward(critic, obs, action)[0][:, 0]

    actor = layers(state.actor["net"])
    following = np.tanh(forward(actor, batch.next_obs)[0])
    value = np.where(batch.terminated, 0.0, q_of(state.critics, batch.next_obs, following))
    y, here = batch.reward + 0.9 * value, q_of(state.critics, batch.obs, batch.executed)
    apart = recent.executed - np.tanh(forward(actor, recent.obs)[0])
    chosen = np.tanh(forward(actor, batch.obs)[0])
    expected = {
        "critic_loss": ((y - here) ** 2).mean(),
        "actor_loss": -q_of(state.critics, batch.obs, chosen).mean(),
        "noise": np.sqrt((apart**2).mean()),
        "actor_lr": 0.75e-2,
        "critic_lr": 1.5e-2,
    }
    assert_metrics(found, expected)
    shown = algorithm.report(state, batch, random.key(0))
    assert_metrics(shown, {"q": here.mean(), "td_error": np.abs(y - here).mean()})


def test_entropy_and_temperature_of_sac():
    algorithm, state = begun(sac, temperature=0.3, temperature_lr=3e-2)
    batch, key = cells.batch(), random.key(0)
    found = jax.jit(algorithm.measure)(state, batch, batch, key, 0.0)
    size = cells.SPEC.action_size
    outputs = forward(layers(state.actor["net"]), batch.obs)[0]
    mean, log_std = outputs[:, :size], np.clip(outputs[:, size:], -20, 2)
    sample_key = random.split(random.split(key, 3)[1])[1]
    noise = np.asarray(random.normal(sample_key, mean.shape))
    raw, log_prob = squashed(mean, log_std, noise)
    critics = [layers(jax.tree.map(lambda leaf, i=i: leaf[i], state.critics)) for i in range(2)]
    value = np.minimum(*(q(critic, batch.obs, np.tanh(raw)) for critic in critics))
    expected = {
        "entropy": -log_prob.mean(),
        "actor_loss": (0.3 * log_prob - value).mean(),
        "noise": np.sqrt(((batch.executed - np.tanh(mean)) ** 2).mean()),
        "temperature_lr": 3e-2,
    }
    assert_metrics(found, expected)
    assert_metrics(algorithm.report(state, batch, key), {"temperature": 0.3})


@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_how_far_the_updates_of_a_rollout_moved_the_policy(name):
    settings = LARGE if name == "ppo" else {"actor_lr": 0.02}
    algorithm, before, learn = learner(name, gae_lambda=0.9, gamma=0.8, **settings)
    data, key = rollout(), random.key(0)
    after, _, _ = learn(before, data, key, 0.0)
    found = jax.jit(algorithm.measure)(before, after, (), data, key, 0.0)
    clip = float(before.hyper.clip) if name == "ppo" else None
    old, new = (
        Reference(state.actor["net"], state.critic, before.hyper, 0.0, clip)
        for state in jax.device_get((before, after))
    )
    obs, following, action = data.obs[:, 0], data.next_obs[:, 0], data.action[:, 0]
    log_ratio = new.log_prob(obs, action) - old.log_prob(obs, action)
    values = old.values(obs)[:, None], old.values(following)[:, None]
    ends = data.terminated, data.ended
    advantage = np.asarray(advantages(data.reward, *ends, *values, 0.8, 0.9))
    apart = action - forward(old.actor, obs, tanh=True)[0]
    expected = {
        "kl": (np.exp(log_ratio) - 1 - log_ratio).mean(),
        "explained_variance": 1 - advantage.var() / (advantage + values[0]).var(),
        "entropy": (0.5 * np.log(2 * np.pi * np.e) + new.log_std).sum(),
        "noise": np.sqrt((apart**2).mean()),
        "actor_lr": 0.02,
    }
    if clip:
        expected["clip_fraction"] = (np.abs(np.exp(log_ratio) - 1) > clip).mean()
        assert 0 < expected["clip_fraction"] < 1
    assert expected["kl"] > 1e-4
    assert_metrics(found, expected)
