"""Coloured noise: its spectrum, its size at every time, and whose random numbers it replaces."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

from discover_rl.algorithms import ddpg, ppo, sac
from discover_rl.strategies import pink
from discover_rl.strategies.interface import View
from discover_rl.training import launch
from tests.helpers import cells, rollouts
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

SPEC = dataclasses.replace(cells.SPEC, time_limit=7)
UNLEARNED = {"warmup": 2, "train_every": 64}  # a few steps learn nothing, and compile nothing


@functools.cache
def sequences(beta: float, length: int, count: int) -> np.ndarray:
    """Independent sequences of two dimensions: (count, length, 2)."""
    keys = random.split(random.key(int(10 * beta) + length), count)
    draw = jax.jit(jax.vmap(lambda key: pink.coloured(key, jnp.float32(beta), length, 2)))
    return np.asarray(draw(keys))


def made(algorithm=ddpg, **settings):
    """The strategy, and the state that it has in a run."""
    hyper = pink.Hyper(**settings)
    strategy = pink.make(SPEC, hyper, algorithm.blueprint(SPEC, algorithm.Hyper()))
    return strategy, hyper


VIEW = View({"net": {}}, None, None)


# The sequences.


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_the_power_falls_with_the_frequency_to_the_minus_beta(beta):
    """Fitted to the mean periodogram of 200 sequences, from the lowest frequency to the highest."""
    length = 1000
    whole = sequences(beta, length, 200)
    power = (np.abs(np.fft.rfft(whole, axis=1)) ** 2).mean(axis=(0, 2))[1:]
    frequency = np.arange(1, length // 2 + 1) / length
    fitted = stats.linregress(np.log(frequency), np.log(power))
    assert fitted.slope == pytest.approx(-beta, abs=4 * fitted.stderr + 0.01)
    # Half of it, too: it is a straight line.
    halves = [stats.linregress(np.log(f), np.log(p)) for f, p in _halves(frequency, power)]
    assert all(half.slope == pytest.approx(-beta, abs=0.12) for half in halves)


def _halves(frequency, power):
    low = frequency < 0.02
    return (frequency[low], power[low]), (frequency[~low], power[~low])


@pytest.mark.parametrize(("beta", "length"), [(0.0, 50), (1.0, 50), (1.0, 51), (2.0, 50), (1.0, 1)])
def test_the_variance_is_1_at_every_time_and_dimensions_are_uncorrelated(beta, length):
    count = 20_000
    whole = sequences(beta, length, count)
    assert whole.shape == (count, length, 2)
    # The sample variance of a standard normal number has the standard deviation √(2 / count).
    np.testing.assert_allclose(whole.var(axis=0), 1.0, atol=5 * (2 / count) ** 0.5)
    np.testing.assert_allclose(whole.mean(axis=0), 0.0, atol=5 * count**-0.5)
    across = (whole[..., 0] * whole[..., 1]).mean(axis=0)
    np.testing.assert_allclose(across, 0.0, atol=5 * count**-0.5)
    assert stats.kstest(whole[:, length // 2, 0], "norm").pvalue > 1e-3


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_autocorrelations_are_those_of_the_spectrum(beta):
    """E ε_t ε_{t+τ} = Σ_k m_k s_k² cos(2π k τ / T) / Σ_k m_k s_k², m_k = 2 but at the ends."""
    length, count = 40, 20_000
    k = np.arange(length // 2 + 1)
    weight = np.maximum(k, 1.0) ** -beta * np.where((k == 0) | (k == length // 2), 1.0, 2.0)
    whole = sequences(beta, length, count)
    for lag in (1, 3, 10):
        expected = (weight * np.cos(2 * np.pi * k * lag / length)).sum() / weight.sum()
        found = (whole[:, 5] * whole[:, 5 + lag]).mean()
        assert found == pytest.approx(expected, abs=0.02)


def test_colour_0_is_white():
    """No lag has a correlation, and each number is standard normal: as `random.normal` gives."""
    whole = sequences(0.0, 50, 20_000)
    for lag in (1, 2, 7, 25):
        correlation = (whole[:, lag:] * whole[:, :-lag]).mean(axis=(0, 2))
        np.testing.assert_allclose(correlation, 0.0, atol=5 * (2 * 20_000) ** -0.5)
    one_each = whole[np.arange(20_000), np.arange(20_000) % 50, 0]
    plain = np.asarray(random.normal(random.key(3), (20_000,)))
    assert stats.ks_2samp(one_each, plain).pvalue > 1e-3
    # Sums over a sequence, which would show what single numbers do not.
    assert stats.kstest(whole[:, :, 0].sum(axis=1) / 50**0.5, "norm").pvalue > 1e-3
    assert (
        stats.kstest((whole[:, ::2, 0] - whole[:, 1::2, 0]).sum(1) / 50**0.5, "norm").pvalue > 1e-3
    )


# Acting.


def test_it_is_as_long_as_an_episode_and_goes_round_past_its_end():
    strategy, state = made(sigma=0.5)
    memory = jax.jit(lambda key: strategy.acting.begin(state, VIEW, key))(random.key(0))
    assert memory.sequence.shape == (7, 2)
    behave = jax.jit(lambda memory: strategy.acting.behave(state, memory, VIEW, None, (), False))
    sequence = np.asarray(memory.sequence)
    for step in range(17):
        memory, nudge = behave(memory)
        np.testing.assert_allclose(nudge.shift, 0.5 * sequence[None, step % 7], rtol=1e-6)
    assert int(memory.step) == 17
    np.testing.assert_array_equal(memory.sequence, sequence)
    unlimited = pink.make(cells.SPEC, state, ddpg.blueprint(cells.SPEC, ddpg.Hyper()))
    assert unlimited.acting.begin(state, VIEW, random.key(0)).sequence.shape == (1000, 2)


@pytest.mark.parametrize(
    ("algorithm", "settings", "own"),
    [(ddpg, {}, False), (sac, {}, True), (sac, {"behaviour": "mean"}, False), (ppo, {}, True)],
)
def test_policies_that_draw_numbers_are_given_these_and_others_a_shift(algorithm, settings, own):
    hyper = pink.Hyper(sigma=0.5)
    blueprint = algorithm.blueprint(SPEC, algorithm.Hyper(**settings))
    strategy = pink.make(SPEC, hyper, blueprint)
    memory = strategy.acting.begin(hyper, VIEW, random.key(0))
    for warm in (False, True):
        _, nudge = strategy.acting.behave(hyper, memory, VIEW, None, (), warm)
        if own:
            np.testing.assert_array_equal(nudge.noise, memory.sequence[:1])
            assert nudge.shift == 0.0
        else:
            assert nudge.noise is None
            expected = 0.0 if warm else 0.5 * memory.sequence[:1]
            np.testing.assert_allclose(nudge.shift, expected * np.ones((1, 2)), rtol=1e-6)
    logged = strategy.report(hyper, VIEW, None)
    assert logged == ({} if own else {"sigma": 0.5})


def test_each_of_several_environments_is_where_its_own_episode_is():
    """In NumPy, with environments in front, as A2C and PPO have it; and σ of each."""
    strategy, _ = made(ddpg)
    g = np.random.default_rng(0)
    memory = pink.Memory(g.normal(size=(3, 7, 2)).astype(np.float32), np.int32([0, 6, 9]))
    sigma = np.float32([[[1.0]], [[2.0]], [[3.0]]])
    state = dataclasses.replace(pink.Hyper(), sigma=pink.Amplitude(sigma, sigma, sigma / sigma))
    after, nudge = strategy.acting.behave(state, memory, VIEW, None, (), False)
    expected = [(1 + i) * memory.sequence[i, row] for i, row in enumerate((0, 6, 2))]
    np.testing.assert_allclose(nudge.shift, np.stack(expected)[:, None], rtol=1e-6)
    assert isinstance(nudge.shift, np.ndarray)
    assert nudge.shift.dtype == np.float32
    np.testing.assert_array_equal(after.step, [1, 7, 10])
    assert after.step.dtype == np.int32


@pytest.mark.parametrize("steps", [[3], [9, 9, 9], [9, 9, 3]])
def test_numpy_and_jax_read_the_same_numbers_of_a_sequence(steps):
    sequence = np.random.default_rng(0).normal(size=(len(steps), 7, 2)).astype(np.float32)
    read = pink.at(np.int32(steps), sequence)
    assert isinstance(read, np.ndarray)
    np.testing.assert_array_equal(
        read, [[own[step % 7]] for own, step in zip(sequence, steps, strict=True)]
    )
    np.testing.assert_array_equal(read, pink.at(jnp.asarray(steps), jnp.asarray(sequence)))


def test_an_episode_has_a_new_sequence_and_only_where_one_starts():
    agent, seeds = cells.build(strategy="pink", **UNLEARNED), [5, 6]
    state = cells.begin(agent, seeds, *cells.hypers("td3", "pink", **UNLEARNED))
    assert np.abs(np.diff(state.memory.sequence, axis=0)).max() > 0.1  # each lane has its own
    for step in range(1, 15):
        transition = cells.transition_at(seeds, step)
        before = jax.device_get(state.memory)
        state, reply = cells.tick(agent, state, transition, step)
        memory, bare = jax.device_get((state.memory, state.action.bare))
        for lane, ended in enumerate(transition.ended):
            same = np.array_equal(memory.sequence[lane], before.sequence[lane])
            assert same != ended
            assert memory.step[lane] == (1 if ended else before.step[lane] + 1)
            epsilon = memory.sequence[lane, memory.step[lane] - 1]
            shifted = bare[lane] + 0.3 * epsilon * (step >= 2)
            np.testing.assert_allclose(reply.executed[lane], np.clip(shifted, -1, 1), atol=1e-6)
    assert agent.strategy.learning.replaces_smoothing is False


def test_lanes_may_have_colours_of_their_own():
    agent, seeds = cells.build(strategy="pink"), [5, 5]
    hyper, red = cells.hypers("td3", "pink", strategy_beta=2.0)
    state = cells.begin(agent, seeds, hyper, [red, pink.Hyper(beta=0.0)])
    jumps = np.diff(np.asarray(state.memory.sequence), axis=1).var(axis=(1, 2))
    assert jumps[0] < 0.1  # neighbours hardly differ
    assert jumps[1] == pytest.approx(2.0, rel=0.1)


def test_sac_acts_by_these_numbers():
    """a = tanh(mean + std ε_t): the density that SAC learns with knows nothing of the colour."""
    strategy, algorithm, state = cells.paired(sac, pink)
    memory = strategy.acting.begin(state.strategy, VIEW, random.key(4))
    obs = jnp.asarray([0.3, -0.2, 0.9])
    _, after, action = jax.jit(algorithm.act)(
        state, memory, obs, algorithm.draw(random.key(5)), 100
    )
    mean, std = sac.distribution(sac.Nudge(state.actor["net"]), obs[None])
    expected = np.tanh(mean + std * memory.sequence[:1])[0]
    np.testing.assert_allclose(action.bare, expected, rtol=1e-5)
    np.testing.assert_array_equal(action.executed, action.bare)
    assert int(after.step) == 1


# On-policy.


def test_on_policy_the_ratio_is_1_at_the_first_epoch(monkeypatch):
    """The stored probability of an action is that of the policy by itself, at ε_t."""
    agent, hypers = rollouts.agent_of("ppo", "pink", 2, horizon=9)
    state, vector = rollouts.begin(agent, hypers, [5, 1])
    assert state.memory.sequence.shape == (2, 2, 1000, 2)
    first = state.memory.sequence.copy()
    monkeypatch.setattr(agent, "_learn_lanes", lambda state, living, step: [])
    state, _ = rollouts.advance(agent, state, vector, 18)
    again = 0
    for lane in range(2):
        noise, ratio = rollouts.noise_and_ratio(agent, state, lane)
        np.testing.assert_allclose(ratio, 1.0, rtol=1e-5)
        for env in range(2):
            sequence, ended = first[lane, env], np.flatnonzero(state.rollout.ended[lane, :, env])
            until = ended[0] + 1 if len(ended) else 9
            np.testing.assert_allclose(noise[:until, env], sequence[:until], rtol=1e-3, atol=1e-4)
            if until < 9:  # another episode, from the start of another sequence
                again += 1
                sequence = state.memory.sequence[lane, env]
                new = noise[until:, env]
                np.testing.assert_allclose(new, sequence[: len(new)], rtol=1e-3, atol=1e-4)
                assert np.abs(sequence - first[lane, env]).max() > 1.0
            assert state.memory.step[lane, env] == 9 - until if until < 9 else 9
    assert again
    # The next rollout goes on with the sequences of the episodes that go on.
    before = jax.tree.map(np.copy, state.memory)
    state, _ = rollouts.advance(agent, state, vector, 20, 18)
    same = (state.memory.sequence == before.sequence).all(axis=(-2, -1))
    ended = state.rollout.ended[:, 0]
    np.testing.assert_array_equal(same, ~ended)
    np.testing.assert_array_equal(state.memory.step, np.where(ended, 0, before.step + 1))
    assert same.any()


# Whole runs.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("td3", {"strategy.sigma": "linear:0.6:0.1:0.5"}),
        ("ppo", {"env.count": 2}),
    ],
)
def test_a_stopped_run_resumes_exactly(tmp_path, algorithm, settings):
    runs = runs_of(algorithm=algorithm, strategy="pink", **settings)
    launch.train(runs, tmp_path / "whole")
    for step in (36, 102):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    launch.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
