"""Held corners: how long, how often, which, and where they stay away."""

import functools

import jax
import numpy as np
import pytest
from jax import random
from scipy import stats

from discover_rl.algorithms import ddpg, sac
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Spec
from discover_rl.strategies import corner
from discover_rl.strategies.interface import View
from discover_rl.training import launch
from tests.helpers import cells, rollouts
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

VIEW = View({"net": {}}, None, None)
SPEC = Spec((3,), (3,), (-1.0,) * 3, (1.0,) * 3)


def made(seed: int = 0, **settings):
    """The strategy for three action dimensions, and the state of a run with this seed."""
    hyper = corner.Hyper(**settings)
    strategy = corner.make(SPEC, hyper, ddpg.blueprint(SPEC, ddpg.Hyper()))
    return strategy, strategy.init(random.key(seed), hyper, VIEW)


def episodes(count: int, steps: int, seed: int = 0, warm: int = 0, **settings) -> np.ndarray:
    """Shifts of independent episodes of a run: (count, steps, action)."""
    strategy, state = made(seed, **settings)

    def episode(key):
        def step(memory, inputs):
            now, key = inputs
            noise = strategy.acting.draw(key)
            return strategy.acting.behave(state, memory, VIEW, None, noise, now < warm)

        def shift(memory, inputs):
            memory, nudge = step(memory, inputs)
            return memory, nudge.shift[0]

        first, rest = random.split(key)
        memory = strategy.acting.begin(state, VIEW, first)
        return jax.lax.scan(shift, memory, (np.arange(steps), random.split(rest, steps)))[1]

    return np.asarray(jax.jit(jax.vmap(episode))(random.split(random.key(seed + 7), count)))


@functools.cache
def held(share: float = 1.0, length: float = 5.0) -> np.ndarray:
    """Corners of episodes of 400 steps, without white noise: (100, 400, 3)."""
    return episodes(100, 400, sigma=0.0, share=share, length=length)


def lengths(corners: np.ndarray) -> np.ndarray:
    """Of stretches with the same corner, the last of each episode, which is cut off, left out."""
    found = []
    for episode in corners:
        starts = np.flatnonzero((np.diff(episode, axis=0) != 0).any(axis=1)) + 1
        found.append(np.diff(np.concatenate([[0], starts])))
    return np.concatenate(found)


def test_stretches_are_geometric_with_the_mean_that_was_asked_for():
    """A stretch is seen to end when the next corner is another: of 8 with probability 7/8. So what
    is seen is geometric again, with 7/8 of the probability to end."""
    ends = 7 / 8 / 5.0
    found = lengths(held())
    assert found.mean() == pytest.approx(1 / ends, rel=0.05)
    n = np.arange(1, 31)
    expected = np.append(ends * (1 - ends) ** (n - 1), (1 - ends) ** 30)
    counted = np.append(np.bincount(np.minimum(found, 31), minlength=32)[1:31], (found > 30).sum())
    joined = [np.append(it[:20], it[20:].sum()) for it in (counted, expected * len(found))]
    assert stats.chisquare(*joined).pvalue > 1e-3


@pytest.mark.parametrize("length", [1.0, 50.0])
def test_it_is_redrawn_after_each_step_with_one_over_the_length(length):
    """The probability that one step is as the last: 1 − 1/length, or the same corner by chance."""
    corners = episodes(400, 400, sigma=0.0, share=1.0, length=length)
    same = (np.diff(corners, axis=1) == 0).all(axis=2).mean()
    assert same == pytest.approx(1 - 7 / 8 / length, abs=0.005)


def test_corners_are_uniform_and_reach_as_far_as_lambda():
    corners = held()
    assert set(np.unique(corners)) == {-1.0, 1.0}
    which = ((corners[:, ::50] > 0) @ np.asarray([4, 2, 1])).ravel()  # hardly depend on each other
    assert stats.chisquare(np.bincount(which, minlength=8)).pvalue > 1e-3
    far = episodes(5, 10, sigma=0.0, share=1.0, lam=0.25)
    assert set(np.unique(far)) == {-0.25, 0.25}


@pytest.mark.parametrize(("share", "tolerance"), [(0.5, 0.03), (0.2, 0.03), (0.0, 0.0), (1.0, 0.0)])
def test_part_of_the_time_there_is_none(share, tolerance):
    corners = held(share)
    acts = np.abs(corners).max(axis=2)
    np.testing.assert_array_equal(np.abs(corners).min(axis=2), acts)  # all of a corner, or nothing
    assert acts.mean() == pytest.approx(share, abs=tolerance)
    # From the first step on.
    assert acts[:, 0].mean() == pytest.approx(share, abs=0.2 if tolerance else 0.0)


def test_white_noise_comes_on_top_and_both_stay_away_from_warm_up():
    shifts = episodes(200, 50, warm=10, lam=0.0, sigma=0.3)
    assert np.abs(shifts[:, :10]).max() == 0.0
    late = shifts[:, 10:]
    assert late.std() == pytest.approx(0.3, rel=0.03)
    assert abs((late[:, 1:] * late[:, :-1]).mean()) < 0.005
    both = episodes(200, 50, warm=10, share=1.0)
    assert np.abs(both[:, :10]).max() == 0.0
    assert np.abs(both[:, 10:]).mean() == pytest.approx(1.0, abs=0.02)
    assert np.abs(both[:, 10:]).std() == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("algorithm", [ddpg, sac])
def test_the_noise_on_top_may_be_pink(algorithm):
    """Then it is one sequence an episode, which has its size and knows nothing of the corners."""
    hyper = corner.Hyper(noise="pink", sigma=0.2, length=3.0, share=1.0)
    spec = Spec((3,), (3,), (-1.0,) * 3, (1.0,) * 3, time_limit=40)
    strategy = corner.make(spec, hyper, algorithm.blueprint(spec, algorithm.Hyper()))
    state = strategy.init(random.key(0), hyper, VIEW)
    memory = strategy.acting.begin(state, VIEW, random.key(1))
    sequence = np.asarray(memory.noise.sequence)
    assert sequence.shape == (40, 3)
    assert (np.diff(sequence, axis=0) ** 2).mean() < 1.0  # of white noise it would be 2
    changed = 0
    for step in range(8):
        noise, before = strategy.acting.draw(random.key(step)), memory
        memory, nudge = strategy.acting.behave(state, memory, VIEW, None, noise, step < 2)
        expected = (np.asarray(before.corner) + 0.2 * sequence[step]) * (step >= 2)
        np.testing.assert_allclose(nudge.shift, expected, rtol=1e-5, atol=1e-6)
        assert nudge.noise is None
        changed += not np.array_equal(memory.corner, before.corner)
    assert changed


# Controls.


@pytest.mark.parametrize("lasts", ["episode", "run"])
def test_a_corner_is_held_for_an_episode(lasts):
    corners = episodes(2000, 20, lasts=lasts, sigma=0.0, length=1.0)
    assert (corners == corners[:, :1]).all()
    acting = np.abs(corners[:, 0]).max(axis=1)
    assert acting.mean() == pytest.approx(0.5, abs=0.05)
    drawn = np.unique(corners[acting > 0, 0], axis=0)
    assert len(drawn) == (8 if lasts == "episode" else 1)
    assert (np.abs(episodes(50, 3, lasts=lasts, sigma=0.0, share=1.0)) == 1.0).all()


def test_runs_have_corners_of_their_own():
    corners = np.stack([np.asarray(made(seed, lasts="run")[1].corner)[0] for seed in range(400)])
    which = (corners > 0) @ np.asarray([4, 2, 1])
    assert stats.chisquare(np.bincount(which, minlength=8)).pvalue > 1e-3
    for lasts in ("stretch", "episode"):
        assert made(lasts=lasts)[1].corner == ()


# In agents.


def test_it_is_added_to_the_action_of_its_own_lane():
    settings = {
        "train_every": 64,
        "strategy_length": 3.0,
        "strategy_share": 1.0,
        "strategy_sigma": 0.0,
        "warmup": 2,
    }
    agent, seeds = cells.build(strategy="corner", **settings), [5, 6]
    state, changed = cells.begin(agent, seeds, *cells.hypers("td3", "corner", **settings)), 0
    for step in range(1, 15):
        transition = cells.transition_at(seeds, step)
        before = np.asarray(state.memory.corner)
        state, reply = cells.tick(agent, state, transition, step)
        bare, after = np.asarray(state.action.bare), np.asarray(state.memory.corner)
        added = reply.executed - bare
        for lane, ended in enumerate(transition.ended):
            # A corner that acts moves every action to its side, or leaves it at the bound.
            signs = before[lane, 0] * (step >= 2)
            if not ended:
                expected = np.clip(bare[lane] + signs, -1, 1)
                np.testing.assert_allclose(reply.executed[lane], expected, atol=1e-6)
            assert np.abs(added[lane]).max() <= 1.0
            changed += not np.array_equal(before[lane], after[lane])
    assert 4 < changed < 24
    assert agent.strategy.learning.replaces_smoothing is False


def test_on_policy_each_environment_holds_its_own_and_the_probability_is_the_policys(monkeypatch):
    agent, hypers = rollouts.agent_of("ppo", "corner", 2, horizon=9, strategy_share=1.0)
    state, vector = rollouts.begin(agent, hypers, [5, 1])
    corners = state.memory.corner.reshape(4, 2).copy()  # it is written into
    assert len(np.unique(corners, axis=0)) > 1
    monkeypatch.setattr(agent, "_learn_lanes", lambda state, living, step: [])
    state, _ = rollouts.advance(agent, state, vector, 18)
    for lane in range(2):
        noise, ratio = rollouts.noise_and_ratio(agent, state, lane)
        np.testing.assert_allclose(ratio, 1.0, rtol=1e-5)
        block = agent._noise.of(state.seed, 0)
        own = np.asarray([step[0][2 * lane : 2 * lane + 2, 0] for step in block])
        np.testing.assert_allclose(noise, own, rtol=1e-3, atol=1e-4)  # the shift is not in it
    white, own = block[0][1].top[:, 0], state.rollout.action[:, 0].reshape(4, 2)
    sent = np.asarray([actions[0] for actions in vector.actions])
    np.testing.assert_allclose(sent, np.clip(own + corners + 0.3 * white, -1, 1), atol=1e-6)


def test_amplitudes_follow_their_schedules():
    strategy, state = made(sigma=0.0, lam=Amplitude(1.0, 0.0, 0.5))
    memory, white = corner.Memory(np.ones((1, 3), np.float32), ()), np.zeros((1, 3), np.float32)
    noise = corner.Noise(white, white, np.ones((1, 1)), np.ones((1, 1)))
    for progress, lam in ((0.0, 1.0), (0.25, 0.5), (0.5, 0.0), (0.9, 0.0)):
        view = VIEW._replace(progress=progress)
        _, nudge = strategy.acting.behave(state, memory, view, None, noise, False)
        np.testing.assert_allclose(nudge.shift, lam)
        assert strategy.report(state, view, None) == {"lam": lam, "sigma": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("lasts", ["stretch", "run"])
def test_a_stopped_run_resumes_exactly(tmp_path, lasts):
    own = {"strategy.lasts": lasts, "strategy.length": 7, "strategy.lam": "linear:1:0.5"}
    runs = runs_of(algorithm="td3", strategy="corner", **own)
    launch.train(runs, tmp_path / "whole")
    for step in (36, 102):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    launch.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
