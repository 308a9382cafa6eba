"""Seek, line by line: its rewards, their optimistic value, the explorer, and when it acts."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import ddpg, sac, td3
from discover_rl.core.types import Update
from discover_rl.strategies import none, seek
from discover_rl.training import launch
from tests.helpers import cells
from tests.helpers.reference import forward, layers
from tests.helpers.slopes import first_gradient, slopes_agree
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

ALGORITHMS = {"ddpg": ddpg, "td3": td3, "sac": sac}
OWN = {"gamma": 0.8, "cap": 1.5, "penalty": 0.1, "lam": 0.7, "prior": 0.6}
KEY = random.key(3)


@functools.cache
def learner(algorithm: str, **settings):
    """An algorithm with seek, a state whose targets are no copies, and its compiled update."""
    module = ALGORITHMS[algorithm]
    hp, hyper = module.Hyper(**cells.SMALL, gamma=0.9, tau=0.1), seek.Hyper(**{**OWN, **settings})
    strategy = seek.make(cells.SPEC, hyper, module.blueprint(cells.SPEC, hp))
    learning = module.make(cells.SPEC, hp, strategy)
    init = jax.jit(learning.init)
    state, other = (init(random.key(i), hp, hyper) for i in range(2))
    state = state._replace(
        target_critics=other.critics,
        strategy=state.strategy._replace(target=other.strategy.online),
    )
    return learning, state, jax.jit(learning.learn, static_argnums=3)


@functools.cache
def learned(algorithm: str, **settings):
    """The states before and after an update of everything but the targets; its losses."""
    _, state, learn = learner(algorithm, **settings)
    return jax.device_get((state, *learn(state, cells.batch(), KEY, Update(True, False, True), 0)))


def members(nets, x) -> np.ndarray:
    """What both networks of an ensemble say: (2, n)"""
    each = [jax.tree.map(operator.itemgetter(j), nets) for j in range(2)]
    return np.stack([forward(layers(net), x)[0][:, 0] for net in each])


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
        both = [np.minimum(it / it.mean(), 1.5) for it in (self.errors(), self.novelty())]
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
        z = forward(layers(net), self.obs)[0]
        q = self.q_x(self.after.strategy.online.critics, self.obs, self.moved(self.obs, z))
        best = q.max(axis=0) if self.settings["optimism"] == "prior" else q.min(axis=0)
        return (0.1 * (z**2).sum(axis=1) - best).mean()


CASES = [
    {},
    pytest.param({"target": "sum", "novelty_weight": 0.0}, marks=pytest.mark.slow),
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
    alone = module.make(cells.SPEC, hp, none.make(cells.SPEC, none.Hyper(), None))
    plain, learn_plain = state._replace(strategy=none.Hyper()), cells.learner(alone)
    for i in range(4):
        batch, key, actor = cells.batch(seed=i), random.key(i), i % 2 == 1
        state, _ = learn(state, batch, key, Update(actor, actor, True), 0.0)
        plain, _ = learn_plain(plain, batch, key, actor)
    cells.assert_close(state._replace(strategy=()), plain._replace(strategy=()), 1e-6)


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


# Acting.

OBS = jnp.asarray([0.3, -1.0, 2.0])


def shifts(algorithm: str, steps: int, episodes: int = 1, first: int = 100, **settings):
    """What is added to the bare action, (episodes, steps, action), before clipping, and where the
    explorer points, (action,)."""
    learning, state, _ = learner(algorithm, **settings)
    state = state._replace(actor=jax.tree.map(jnp.zeros_like, state.actor))

    def episode(key):
        def act(memory, inputs):
            step, key = inputs
            _, memory, action = learning.act(state, memory, OBS, learning.draw(key), step)
            return memory, action.executed - action.bare

        start, rest = random.split(key)
        memory = learning.begin(state, start)
        return jax.lax.scan(act, memory, (first + jnp.arange(steps), random.split(rest, steps)))[1]

    found = jax.jit(jax.vmap(episode))(random.split(random.key(1), episodes))
    z = forward(layers(jax.device_get(state.strategy.online.explorer)), np.asarray(OBS)[None])[0]
    return np.asarray(found), 0.7 * np.tanh(z[0])


def test_it_is_directed_in_stretches():
    """Half of all steps, in stretches that change with probability ½ · 1/5 at each step."""
    found, points = shifts("td3", 200, episodes=50, sigma=0.0, length=5.0)
    directed = (found != 0).any(axis=-1)
    np.testing.assert_allclose(found[directed], np.tile(points, (directed.sum(), 1)), rtol=1e-5)
    assert directed.mean() == pytest.approx(0.5, abs=0.05)
    changes = np.diff(directed.astype(int), axis=1) != 0
    assert changes.mean() == pytest.approx(0.1, abs=0.015)


def test_white_noise_is_on_top_only_where_the_policy_has_none():
    found, _ = shifts("td3", 200, episodes=20, share=0.0, sigma=0.1)
    assert found.std() == pytest.approx(0.1, rel=0.1)
    found, _ = shifts("sac", 3, episodes=20, share=0.0)
    assert not found.any()


def test_nothing_is_added_in_warm_up():
    found, _ = shifts("td3", 4, first=0)
    assert not found.any()


@pytest.mark.parametrize("weight", [1, -1])
def test_the_better_advantage_acts(weight):
    """With a low temperature the direction acts if Q_x gains more by it than Q loses."""
    learning, state, _ = learner("td3", mixing="advantage", temperature=1e-6, sigma=0.0)
    own = state.strategy
    critics = jax.tree.map(jnp.zeros_like, state.critics)
    online = own.online._replace(critics=jax.tree.map(lambda it: weight * it, own.online.critics))
    state = state._replace(critics=critics, strategy=own._replace(online=online))
    _, _, action = learning.act(state, (), OBS, learning.draw(KEY), 100)
    x = np.asarray(OBS)[None]
    z = forward(layers(jax.device_get(online.explorer)), x)[0]
    bare = np.asarray(action.bare)[None]
    sought = np.clip(bare + 0.7 * np.tanh(z), -1, 1)

    def q_x(action):
        return members(jax.device_get(online.critics), np.hstack([x, action])).min()

    directed = q_x(sought) > q_x(bare)
    assert (action.executed != action.bare).any() == directed


def test_what_is_reported():
    learning, state, _ = learner("td3", sigma=0.05)
    batch = cells.batch()
    directed = np.arange(32)[:, None] % 4 == 0
    batch = batch._replace(bare=np.clip(batch.bare, -0.5, 0.5).astype(np.float32))
    batch = batch._replace(executed=np.where(directed, 0.9, batch.bare).astype(np.float32))
    told = jax.jit(learning.report)(state, batch, KEY)
    assert told["directed"] == pytest.approx(0.25)
    assert told["directed_error"] != told["bare_error"]
    assert 0 <= told["saturation"] <= 1


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_exactly(tmp_path):
    asked = {"algorithm": "td3", "strategy": "seek", "steps": 130}
    launch.train(runs_of(**asked), tmp_path / "whole")
    stop_at(85, runs_of(**asked), tmp_path / "stopped")
    launch.train(runs_of(**asked), tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
