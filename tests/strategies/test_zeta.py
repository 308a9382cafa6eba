"""Repeated noise: how long it is held, what it is, and whose random numbers it replaces."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

from discover_rl.algorithms import ddpg, ppo, sac
from discover_rl.strategies import zeta
from discover_rl.strategies.interface import View
from discover_rl.training import launch
from tests.helpers import cells, rollouts
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

VIEW = View({"net": {}}, None, None)


def made(algorithm=ddpg, own=None, **settings):
    """The strategy with an algorithm, and the state that it has in a run."""
    hyper = zeta.Hyper(**settings)
    blueprint = algorithm.blueprint(cells.SPEC, algorithm.Hyper(**(own or {})))
    strategy = zeta.make(cells.SPEC, hyper, blueprint)
    return strategy, strategy.init(None, hyper, VIEW)


@functools.cache
def path(mu: float, limit: int, steps: int) -> np.ndarray:
    """The noise of one long episode: (steps, action)."""
    strategy, state = made(mu=mu, limit=limit, sigma=1.0)

    def step(memory, key):
        noise = strategy.acting.draw(key)
        memory, nudge = strategy.acting.behave(state, memory, VIEW, None, noise, False)
        return memory, nudge.shift[0]

    @jax.jit
    def whole(key):
        memory = strategy.acting.begin(state, VIEW, key)
        return jax.lax.scan(step, memory, random.split(key, steps))[1]

    return np.asarray(whole(random.key(limit)))


def stretches(noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the stretches in which noise is the same, and the noise of each; the last stretch,
    which may be cut off, is left out."""
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(noise, axis=0) != 0).any(axis=1)]))
    return np.diff(starts), noise[starts[:-1]]


@pytest.mark.parametrize(("mu", "limit"), [(2.0, 16), (1.0, 8), (0.0, 4), (3.0, 16), (2.0, 1)])
def test_lengths_have_the_exact_probabilities(mu, limit):
    """By Pearson's χ², lengths that are rarer than 5 of all counted as one."""
    lengths, _ = stretches(path(mu, limit, 40_000))
    assert lengths.min() == 1
    assert lengths.max() == limit
    if limit == 1:
        return
    weight = np.arange(1.0, limit + 1) ** -mu
    expected = len(lengths) * weight / weight.sum()
    counted = np.bincount(lengths, minlength=limit + 1)[1:]
    # Chance may join two stretches only if ε is drawn twice the same, which floats hardly are.
    assert stats.chisquare(counted, expected * counted.sum() / expected.sum()).pvalue > 1e-3
    assert lengths.mean() == pytest.approx(
        weight @ np.arange(1, limit + 1) / weight.sum(), rel=0.05
    )


def test_noise_is_held_within_a_stretch_and_each_is_standard_normal():
    lengths, noise = stretches(path(2.0, 16, 40_000))
    assert lengths.max() > 10  # all dimensions are held together
    assert stats.kstest(noise[:, 0], "norm").pvalue > 1e-3
    assert stats.kstest(noise[:, 1], "norm").pvalue > 1e-3
    count = len(noise)
    np.testing.assert_allclose(noise.var(axis=0), 1.0, atol=5 * (2 / count) ** 0.5)
    bound = 5 * count**-0.5
    assert abs(np.corrcoef(noise.T)[0, 1]) < bound
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < bound
    # Long stretches have no other noise than short ones.
    assert stats.ks_2samp(noise[lengths == 1, 0], noise[lengths > 1, 0]).pvalue > 1e-3


def test_at_every_step_of_an_episode_it_is_standard_normal():
    strategy, state = made(ppo)

    def episode(key):
        def step(memory, key):
            noise = strategy.acting.draw(key)
            memory, nudge = strategy.acting.behave(state, memory, VIEW, None, noise, False)
            return memory, nudge.noise[0]

        memory = strategy.acting.begin(state, VIEW, key)
        return jax.lax.scan(step, memory, random.split(key, 20))[1]

    noise = np.asarray(jax.jit(jax.vmap(episode))(random.split(random.key(1), 20_000)))
    np.testing.assert_allclose(noise.var(axis=0), 1.0, atol=5 * (2 / 20_000) ** 0.5)
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=5 * 20_000**-0.5)
    # The second number is the first with the probability that a stretch is longer than a step.
    weight = np.arange(1.0, 17) ** -2.0
    held = (noise[:, 0] == noise[:, 1]).all(axis=1).mean()
    assert held == pytest.approx(1 - 1 / weight.sum(), abs=0.02)


@pytest.mark.parametrize(
    ("algorithm", "settings", "own"),
    [(ddpg, {}, False), (sac, {}, True), (sac, {"behaviour": "mean"}, False), (ppo, {}, True)],
)
def test_policies_that_draw_numbers_are_given_these_and_others_a_shift(algorithm, settings, own):
    strategy, state = made(algorithm, settings, sigma=0.5)
    memory = strategy.acting.begin(state, VIEW, None)
    noise = np.float32([[1.5, -0.5]]), np.float32([[0.99]])
    for warm in (False, True):
        after, nudge = strategy.acting.behave(state, memory, VIEW, None, noise, warm)
        np.testing.assert_array_equal(after.noise, noise[0])
        if own:
            np.testing.assert_array_equal(nudge.noise, noise[0])
            assert nudge.shift == 0.0
        else:
            assert nudge.noise is None
            np.testing.assert_allclose(nudge.shift, 0.0 * noise[0] if warm else 0.5 * noise[0])
    logged = strategy.report(state, VIEW, None)
    assert logged == ({} if own else {"sigma": 0.5})


def test_each_of_several_environments_has_stretches_of_its_own():
    """By hand, in NumPy, with environments in front; μ differs from lane to lane."""
    strategy, _ = made(ppo, limit=3)
    # P(n ≤ 1), P(n ≤ 2): of μ = 0 ⅓ and ⅔, of μ = 1 6/11 and 9/11.
    states = [made(ppo, limit=3, mu=mu)[1] for mu in (0.0, 1.0, 1.0)]
    np.testing.assert_allclose(states[0].shorter, [1 / 3, 2 / 3], rtol=1e-6)
    np.testing.assert_allclose(states[1].shorter, [6 / 11, 9 / 11], rtol=1e-6)
    state = zeta.State(zeta.Hyper(), np.stack([np.asarray(it.shorter) for it in states]))
    memory = zeta.Memory(
        np.zeros((3, 1, 2), np.float32), np.asarray([0, 0, 2], np.int32)[:, None, None]
    )
    noise = np.ones((3, 1, 2), np.float32), np.float32([0.5, 0.5, 0.5])[:, None, None]
    after, nudge = strategy.acting.behave(state, memory, VIEW, None, noise, False)
    np.testing.assert_array_equal(after.left.ravel(), [1, 0, 1])  # of lengths 2, 1 and 3
    np.testing.assert_array_equal(nudge.noise[:, 0, 0], [1.0, 1.0, 0.0])
    assert isinstance(nudge.noise, np.ndarray)
    assert (after.left.dtype, after.noise.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize("left", [[0, 0], [2, 1], [0, 3]], ids=["renewed", "held", "either"])
def test_numpy_and_jax_renew_the_same_environments(left):
    strategy, state = made(ppo)
    state = state._replace(shorter=np.stack([np.asarray(state.shorter)] * 2))
    memory = zeta.Memory(np.zeros((2, 1, 2), np.float32), np.int32(left)[:, None, None])
    noise = np.ones((2, 1, 2), np.float32), np.float32([0.3, 0.9])[:, None, None]
    after, _ = strategy.acting.behave(state, memory, VIEW, None, noise, False)
    given = jax.tree.map(jnp.asarray, (state._replace(hyper=()), memory, noise))
    traced, _ = strategy.acting.behave(given[0], given[1], VIEW, None, given[2], False)
    for host, device in zip(after, traced, strict=True):
        assert isinstance(host, np.ndarray)
        assert host.dtype == device.dtype
        np.testing.assert_array_equal(host, device)
    np.testing.assert_array_equal(after.noise[:, 0, 0], np.equal(left, 0))


def test_a_stretch_ends_with_its_episode():
    # With so few rounds of updates, a few steps learn nothing and compile nothing.
    settings = {"strategy_mu": 0.0, "strategy_limit": 64, "train_every": 64}
    agent, seeds = cells.build(strategy="zeta", **settings), [5, 6]
    hypers = cells.hypers("td3", "zeta", **settings)
    state, renewed = cells.begin(agent, seeds, *hypers), 0
    for step in range(1, 15):
        transition = cells.transition_at(seeds, step)
        before = jax.device_get(state.memory)
        state, reply = cells.tick(agent, state, transition, step)
        memory, bare = jax.device_get((state.memory, state.action.bare))
        for lane, ended in enumerate(transition.ended):
            redrawn = ended or before.left[lane].item() == 0
            assert np.array_equal(memory.noise[lane], before.noise[lane]) != redrawn
            renewed += bool(ended and before.left[lane].item())
            shifted = bare[lane] + 0.3 * memory.noise[lane, 0] * (step >= 4)
            np.testing.assert_allclose(reply.executed[lane], np.clip(shifted, -1, 1), atol=1e-6)
    assert renewed
    assert agent.strategy.learning.replaces_smoothing is False


def test_on_policy_the_ratio_is_1_at_the_first_epoch(monkeypatch):
    agent, hypers = rollouts.agent_of("ppo", "zeta", 2, horizon=9)
    state, vector = rollouts.begin(agent, hypers, [5, 1])
    monkeypatch.setattr(agent, "_learn_lanes", lambda state, living, step: [])
    state, _ = rollouts.advance(agent, state, vector, 18)
    held = 0
    for lane in range(2):
        noise, ratio = rollouts.noise_and_ratio(agent, state, lane)
        np.testing.assert_allclose(ratio, 1.0, rtol=1e-5)
        held += (np.abs(np.diff(noise, axis=0)).max(axis=-1) < 1e-4).sum()
    assert 0 < held < 32


def test_sac_acts_by_these_numbers():
    strategy, algorithm, state = cells.paired(sac, zeta)
    memory = strategy.acting.begin(state.strategy, VIEW, None)
    obs, noise = jnp.asarray([0.3, -0.2, 0.9]), algorithm.draw(random.key(5))
    _, after, action = jax.jit(algorithm.act)(state, memory, obs, noise, 100)
    mean, std = sac.distribution(sac.Nudge(state.actor["net"]), obs[None])
    np.testing.assert_allclose(action.bare, np.tanh(mean + std * after.noise)[0], rtol=1e-5)
    np.testing.assert_array_equal(after.noise, noise.strategy[0])


@pytest.mark.slow
def test_a_stopped_run_resumes_exactly(tmp_path):
    runs = runs_of(algorithm="a2c", strategy="zeta", **{"env.count": 2})
    launch.train(runs, tmp_path / "whole")
    for step in (36, 102):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    launch.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
