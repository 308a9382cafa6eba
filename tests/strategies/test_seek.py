"""Seek, line by line: its rewards, their optimistic value, and the explorer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.core.types import Update
from discover_rl.strategies import seek
from discover_rl.training import launch
from tests.helpers import cells
from tests.helpers.reference import forward, layers
from tests.helpers.seeking import ALGORITHMS, KEY, OWN, learner, members
from tests.helpers.slopes import first_gradient, slopes_agree
from tests.helpers.trainings import assert_same_files, runs_of, stop_at


@functools.cache
def learned(algorithm: str, **settings):
    """The states before and after an update of everything but the targets; its losses."""
    _, state, learn = learner(algorithm, **settings)
    return jax.device_get((state, *learn(state, cells.batch(), KEY, Update(True, False, True), 0)))


class Numpy:
    """The losses of TD3 with seek in float64, from the equations, given the algorithm's networks
    after its own update and the errors that it reports."""

    def __init__(self, **settings):
        self.settings = {"target": "max", "optimism": "none", **OWN, **settings}
        before, after, self.losses = learned("td3", **settings)
        self.before, self.after = jax.tree.map(np.float64, (before, after))
        batch = cells.batch()
        self.obs, self.next_obs = np.float64(batch.obs), np.float64(batch.next_obs)
        self.executed, self.terminated = np.float64(batch.executed), batch.terminated
        self.reward = np.float64(batch.reward)

    def q_x(self, critics, obs, action):
        """Q_xⱼ(s, a), prior included: (ensemble, n)"""
        x, own = np.hstack([obs, action]), self.before.strategy.prior
        prior = self.settings["prior"] * members(own, x) if own != () else 0.0
        return members(critics, x) + prior

    def moved(self, obs, z):
        """The actor's action after its update, with a direction."""
        action = np.tanh(forward(layers(self.after.actor["net"]), obs)[0])
        return np.clip(action + self.settings["lam"] * np.tanh(z), -1, 1)

    def errors(self):
        """|y − Q(s, ã)|, mean over the critics: y from before the update, Q from after it."""
        noise = np.float64(
            random.normal(random.split(random.split(KEY, 3)[0])[1], self.executed.shape)
        )
        noise = np.clip(0.2 * noise, -0.5, 0.5)
        action = np.tanh(forward(layers(self.before.target_actor["net"]), self.next_obs)[0])
        action = np.clip(action + noise, -1, 1)

        def q(critics, obs, action):
            return members(critics, np.hstack([obs, action]))

        later = 0.9 * q(self.before.target_critics, self.next_obs, action).min(axis=0)
        y = self.reward + np.where(self.terminated, 0, later)
        return np.abs(y - q(self.after.critics, self.obs, self.executed)).mean(axis=0)

    def novelty(self):
        """Before the first update inputs are clipped only."""
        own = self.before.strategy.novelty
        x = np.clip(np.hstack([self.obs, self.executed]), -5, 5)
        apart = forward(layers(own.predictor), x)[0] - forward(layers(own.target), x)[0]
        return (apart**2).mean(axis=1)

    def rewards(self):
        """At the first update the running means are those of the batch."""
        floors = self.settings.get("floor", 0.0), 0.0
        each = zip((self.errors(), self.novelty()), floors, strict=True)
        both = [np.minimum(it / max(it.mean(), floor), 1.5) for it, floor in each]
        weights = self.settings.get("error_weight", 1.0), self.settings.get("novelty_weight", 1.0)
        return np.maximum(weights[0] * both[0], weights[1] * both[1])

    def targets(self):
        target = self.before.strategy.target
        action = self.moved(self.next_obs, forward(layers(target.explorer), self.next_obs)[0])
        ahead = self.q_x(target.critics, self.next_obs, action)
        if self.settings["optimism"] != "prior":
            ahead = ahead.min(axis=0)[None]
        ahead = np.where(self.terminated, 0.0, 0.8 * ahead)
        reward = self.rewards()
        return reward + ahead if self.settings["target"] == "sum" else np.maximum(reward, ahead)

    def critic_loss(self, critics):
        q = self.q_x(critics, self.obs, self.executed)
        return ((self.targets() - q) ** 2).sum(axis=0).mean()

    def explorer_loss(self, net):
        """The clip is at the action of the net that the gradient is taken at."""
        own = np.tanh(forward(layers(self.after.actor["net"]), self.obs)[0])
        z, still = (
            forward(layers(it), self.obs)[0] for it in (net, self.before.strategy.online.explorer)
        )
        action, start = (own + self.settings["lam"] * np.tanh(it) for it in (z, still))
        q = self.q_x(
            self.after.strategy.online.critics, self.obs, np.clip(start, -1, 1) + action - start
        )
        best = q.max(axis=0) if self.settings["optimism"] == "prior" else q.min(axis=0)
        return (0.1 * (z**2).sum(axis=1) - best).mean()


CASES = [
    {},
    pytest.param({"target": "sum", "novelty_weight": 0.0}, marks=pytest.mark.slow),
    pytest.param({"floor": 3.0, "novelty_weight": 0.2}, marks=pytest.mark.slow),
    pytest.param({"optimism": "prior", "error_weight": 0.0}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("settings", CASES)
def test_an_update_equals_numpy(settings):
    reference = Numpy(**settings)
    before, after = reference.before.strategy, reference.after.strategy
    loss = reference.critic_loss(before.online.critics)
    assert float(reference.losses.strategy) == pytest.approx(loss, rel=1e-4)
    means = [reference.errors().mean(), reference.novelty().mean()]
    np.testing.assert_allclose(after.scales, means, rtol=1e-4)
    predicted = reference.q_x(before.online.critics, reference.obs, reference.executed)[0]
    observed = np.corrcoef(reference.rewards(), predicted)[0, 1]
    assert after.correlation == pytest.approx(observed, abs=1e-4)
    gradient = first_gradient(after.critic_optimiser)
    slopes_agree(reference.critic_loss, before.online.critics, gradient)
    gradient = first_gradient(after.explorer_optimiser)
    slopes_agree(reference.explorer_loss, before.online.explorer, gradient)


def test_a_weight_of_0_leaves_the_other_alone():
    """Errors make no difference to a value of novelty, nor novelty to one of errors."""

    def loss(reward: float, **settings):
        _, state, learn = learner("td3", **settings)
        batch = cells.batch()
        batch = batch._replace(reward=batch.reward + np.float32(reward) * np.arange(32))
        return float(learn(state, batch, KEY, Update(False, False, True), 0.0)[1].strategy)

    assert loss(0.0, error_weight=0.0) == loss(9.0, error_weight=0.0)
    assert loss(0.0, novelty_weight=0.0) != loss(9.0, novelty_weight=0.0)
    _, state, learn = learner("td3", novelty_weight=0.0)
    other = state.strategy.novelty._replace(target=state.strategy.novelty.predictor)
    changed = state._replace(strategy=state.strategy._replace(novelty=other))
    one, two = (
        learn(it, cells.batch(), KEY, Update(False, False, True), 0.0)[0] for it in (state, changed)
    )
    cells.assert_same(*(jax.device_get(it.strategy.online) for it in (one, two)))


def test_running_means_are_plain_at_first_and_forget_later():
    """Of errors and novelty, which do not depend on them."""
    _, state, learn = learner("td3")

    def scales(updates: float, start: np.ndarray) -> np.ndarray:
        own = state.strategy._replace(
            updates=jnp.asarray(updates), scales=jnp.asarray(start, float)
        )
        after, _ = learn(state._replace(strategy=own), cells.batch(), KEY, Update(False), 0.0)
        assert after.strategy.updates == updates + 1
        return np.asarray(after.strategy.scales)

    before = np.asarray([2.0, 3.0])
    batch = scales(0.0, before)
    np.testing.assert_allclose(scales(1.0, before), (batch + before) / 2, rtol=1e-5)
    moved = before + seek.FORGET * (batch - before)
    np.testing.assert_allclose(scales(5000.0, before), moved, rtol=1e-5)


def test_errors_below_the_floor_are_small():
    """With a floor, errors of a thousandth of it are worth that much, however small their mean."""

    def reward(floor: float) -> float:
        learning, state, _ = learner("td3", floor=floor, novelty_weight=0.0)
        still = jax.tree.map(jnp.zeros_like, state.critics)
        own = state.strategy._replace(scales=jnp.full(2, 1e-3))
        state = state._replace(critics=still, target_critics=still, strategy=own)
        batch = cells.batch()
        batch = batch._replace(reward=np.full_like(batch.reward, 1e-3))
        return float(learning.report(state, batch, KEY)["exploration_reward"])

    assert reward(0.0) == pytest.approx(1.0, rel=1e-4)
    assert reward(1.0) == pytest.approx(1e-3, rel=1e-4)


def test_a_high_start_is_the_largest_reward_there_is():
    _, state, _ = learner("td3", optimism="high", novelty_weight=2.0)
    own = state.strategy
    np.testing.assert_allclose(own.online.critics["head"]["bias"], 1.5 * 2.0)
    assert "gain" in own.online.critics["layer0"]
    _, state, _ = learner("td3", optimism="high", target="sum")
    np.testing.assert_allclose(state.strategy.online.critics["head"]["bias"], 1.5 / 0.2, rtol=1e-6)


@pytest.mark.parametrize(
    "algorithm", ["td3", *(pytest.param(it, marks=pytest.mark.slow) for it in ("ddpg", "sac"))]
)
def test_what_the_algorithm_learns_is_what_it_learns_without(algorithm):
    module = ALGORITHMS[algorithm]
    hp = module.Hyper(**cells.SMALL, gamma=0.9, tau=0.1)
    _, state, learn = learner(algorithm)
    cells.assert_learns_as_alone(module.make, hp, state, learn)


def test_the_explorer_comes_back_from_outside_the_box():
    """Where the policy is at an end of the box and directions go on from there, they still learn
    from Q_x: without a gradient beyond the clip, nothing but the penalty would move them."""
    _, state, learn = learner("td3", penalty=0.0)

    def with_bias(net, bias: float):
        return {**net, "head": {**net["head"], "bias": jnp.full_like(net["head"]["bias"], bias)}}

    online, actor = state.strategy.online, state.actor
    online = online._replace(explorer=with_bias(online.explorer, 1.0))
    state = state._replace(
        actor={**actor, "net": with_bias(actor["net"], 5.0)},
        strategy=state.strategy._replace(online=online),
    )
    after, _ = learn(state, cells.batch(), KEY, Update(True, False, True), 0.0)
    gradient = first_gradient(jax.device_get(after.strategy.explorer_optimiser))
    assert np.abs(gradient["head"]["bias"]).min() > 0


def test_the_explorer_waits_for_the_actor_and_targets_for_targets():
    _, state, learn = learner("td3")
    own = jax.device_get(state.strategy)
    one, _ = learn(state, cells.batch(), KEY, Update(False, False, True), 0.0)
    one = jax.device_get(one.strategy)
    cells.assert_same((one.online.explorer, one.target), (own.online.explorer, own.target))
    both = learn(state, cells.batch(), KEY, Update(True, True, True), 0.0)[0]
    both = jax.device_get(both.strategy)
    assert np.abs(both.online.explorer["head"]["bias"] - own.online.explorer["head"]["bias"]).min()
    followed = jax.tree.map(lambda new, old: 0.1 * new + 0.9 * old, both.online, own.target)
    cells.assert_close(both.target, followed, 1e-6)


@pytest.mark.parametrize(("speed", "share"), [(5.0, 0.5), (20.0, 1.0)])
def test_targets_may_follow_faster_than_the_algorithms(speed, share):
    """τ is 0.1; what is beyond 1 is a copy."""
    _, state, learn = learner("td3", speed=speed)
    after = jax.device_get(learn(state, cells.batch(), KEY, Update(True, True, True), 0.0)[0])
    own, before = after.strategy, jax.device_get(state)
    target = before.strategy.target
    followed = jax.tree.map(lambda new, old: share * new + (1 - share) * old, own.online, target)
    cells.assert_close(own.target, followed, 1e-6)
    algorithms = jax.tree.map(
        lambda new, old: 0.1 * new + 0.9 * old, after.critics, before.target_critics
    )
    cells.assert_close(after.target_critics, algorithms, 1e-6)


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_exactly(tmp_path):
    asked = {"algorithm": "td3", "strategy": "seek", "steps": 130}
    launch.train(runs_of(**asked), tmp_path / "whole")
    stop_at(85, runs_of(**asked), tmp_path / "stopped")
    launch.train(runs_of(**asked), tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
