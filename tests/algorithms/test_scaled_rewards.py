"""Rewards in standard deviations of the discounted return, off-policy."""

import jax
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import sac, scaled_rewards
from discover_rl.core.normalization import LIMIT, RunningStats, deviation, scale_rewards
from discover_rl.core.types import Update
from discover_rl.strategies import none
from discover_rl.strategies.interface import Strategy
from discover_rl.training import launch
from tests.agents.test_fused_loop import Trained
from tests.helpers import cells
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

SEEDS = [3, 5]
ON = {"normalise_rewards": True}


def test_the_scale_is_that_of_discounted_returns_as_on_policy():
    hypers = cells.hypers("td3", "ou", gamma=0.9, warmup=6, **ON)
    agent = cells.made("td3", "ou", *hypers)
    state, _ = cells.run(agent, cells.begin(agent, SEEDS, *hypers), SEEDS, 24)
    answers = [cells.transition_at(SEEDS, step) for step in range(1, 25)]
    for lane in range(2):
        rewards = [float(it.reward[lane]) for it in answers]
        ended = [bool(it.ended[lane]) for it in answers]
        stats, left, _ = scale_rewards(RunningStats(0.0, 0.0, 0.0), [0.0], rewards, ended, 0.9)
        mine = jax.tree.map(lambda leaf, lane=lane: leaf[lane], state)
        found = mine.learner.returns
        np.testing.assert_allclose(found.mean, stats.mean, rtol=1e-5)
        np.testing.assert_allclose(deviation(found), deviation(stats), rtol=1e-5)
        np.testing.assert_allclose(mine.memory.discounted, left[0], rtol=1e-5)
        # What is kept for replay is what the task pays.
        np.testing.assert_array_equal(mine.replay.reward[:24], np.float32(rewards))
    # An episode that is lost leaves nothing to the next one.
    lost = agent.enter(state, cells.observations(SEEDS, 0), np.array([True, False]), np.int32(24))
    assert lost.memory.discounted[0] == 0
    assert lost.memory.discounted[1] != 0


def test_what_is_learned_is_what_scaled_rewards_teach():
    made = {}
    for value in (False, True):
        hp = sac.Hyper(**cells.SMALL, normalise_rewards=value)
        algorithm = sac.make(cells.SPEC, hp, Strategy())
        made[value] = algorithm, jax.jit(algorithm.init)(random.key(0), hp, none.Hyper())
    (plain, before), (scaling, state) = made[False], made[True]
    returns = state.returns._replace(variance=np.float32(0.04))
    state = state._replace(returns=returns)
    batch = cells.batch()
    by_hand = batch._replace(reward=np.clip(batch.reward / np.sqrt(0.04 + 1e-8), -LIMIT, LIMIT))
    assert np.abs(by_hand.reward).max() == LIMIT  # some are cut
    given = random.key(1), Update(), 0.0
    learn = [jax.jit(it.learn, static_argnums=3) for it in (plain, scaling)]
    expected, _ = learn[0](before, by_hand, *given)
    found, _ = learn[1](state, batch, *given)
    cells.assert_close(
        found._replace(returns=(), hyper=()), expected._replace(returns=(), hyper=()), 1e-4
    )
    errors = scaling.errors(state, batch, random.key(2))
    np.testing.assert_allclose(errors, plain.errors(before, by_hand, random.key(2)), rtol=1e-4)
    assert np.abs(scaled_rewards.scaled(batch, state).reward).max() <= LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "strategy"), [("sac", "rnd"), ("ddpg", "meta")])
def test_a_run_goes_on_exactly(algorithm, strategy, tmp_path):
    runs = runs_of(algorithm=algorithm, strategy=strategy, **ON)
    launch.train(runs, tmp_path / "whole")
    stop_at(110, runs, tmp_path / "parts")
    launch.train(runs, tmp_path / "parts")
    assert_same_files(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_the_fused_loop_counts_the_same_returns():
    one, other = (Trained("Hopper-v5", "td3", "none", fused, own=ON) for fused in (False, True))
    for it in (one, other):
        assert not it.go(70)
    cells.assert_close(jax.device_get(one.state), jax.device_get(other.state), 1e-4)
    assert one.state.learner.returns.samples.tolist() == [70.0] * 3
