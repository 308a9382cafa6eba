"""SEE, line by line: errors as rewards, their values, the policy that seeks them, and who acts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl import config
from discover_rl.algorithms import sac, td3
from discover_rl.core.types import Nudge, Update
from discover_rl.strategies import see
from tests.helpers import cells
from tests.helpers.reference import forward, layers
from tests.helpers.slopes import first_gradient, slopes_agree

ALGORITHMS = {"td3": td3, "sac": sac}
HP = {
    "td3": td3.Hyper(**cells.SMALL, gamma=0.9, tau=0.1),
    "sac": sac.Hyper(**cells.SMALL, gamma=0.9, tau=0.1, reward_scale=2.0),
}
OWN = {"gamma": 0.8, "probes": 4, "temperature": 0.1}
KEY = random.key(3)


@functools.cache
def learner(algorithm: str, **settings):
    """An algorithm with SEE, a state whose targets are no copies, and its compiled update."""
    module, hp = ALGORITHMS[algorithm], HP[algorithm]
    hyper = see.Hyper(**{**OWN, **settings})
    strategy = see.make(cells.SPEC, hyper, module.blueprint(cells.SPEC, hp))
    learning = module.make(cells.SPEC, hp, strategy)
    init = jax.jit(learning.init)
    state, other = (init(random.key(i), hp, hyper) for i in range(2))
    raised = jax.tree.map(lambda leaf: leaf + 0.15, other.strategy.critics)  # above some errors
    own = state.strategy._replace(target_critics=raised)
    if algorithm == "td3":
        own = own._replace(target_policy=other.strategy.policy.net)
        state = state._replace(target_actor=other.actor)
    state = state._replace(target_critics=other.critics, strategy=own)
    return learning, state, jax.jit(learning.learn, static_argnums=3)


@functools.cache
def learned(algorithm: str, **settings):
    """The states before and after an update of everything but the targets; its losses."""
    _, state, learn = learner(algorithm, **settings)
    update = Update(actor=True, targets=False, strategy=True)
    return jax.device_get((state, *learn(state, cells.batch(), KEY, update, 0.0)))


# Once more in NumPy, from the equations.


class Numpy:
    """The losses of an update in float64, given the algorithm's networks after its own."""

    def __init__(self, algorithm: str, target: str = "max", conditioning: bool = True, **_):
        self.stochastic, self.target, self.conditioning = algorithm == "sac", target, conditioning
        before, after, self.losses = learned(algorithm, target=target, conditioning=conditioning)
        self.before, self.after = jax.tree.map(np.float64, (before, after))
        self.sought = (0, 1) if self.stochastic else (0,)
        batch = cells.batch()
        self.obs, self.next_obs = np.float64(batch.obs), np.float64(batch.next_obs)
        self.executed, self.terminated = np.float64(batch.executed), batch.terminated
        self.reward = (2.0 if self.stochastic else 1.0) * batch.reward
        own = random.split(random.split(KEY, 3)[2], 3)
        shape = batch.executed.shape
        self.noise = [np.float64(random.normal(key, shape)) for key in own]

    def q(self, i: int, obs, action):
        critic = jax.tree.map(lambda leaf: leaf[i], self.after.critics)
        return forward(layers(critic), np.hstack([obs, action]))[0][:, 0]

    def q_x(self, critics, j: int, i: int, obs, action):
        """Q_xⱼ(s, a | Qᵢ)"""
        parts = [obs, action]
        if self.conditioning:
            shown = self.q(i, critics.obs[j], critics.action[j])
            parts.append(np.tile(shown, (len(obs), 1)))
        net = jax.tree.map(lambda leaf: leaf[j], critics.net)
        return forward(layers(net), np.hstack(parts))[0][:, 0]

    def act(self, net, obs, noise):
        """An action and its log-probability."""
        outputs = forward(layers(net), obs)[0]
        if not self.stochastic:
            return np.tanh(outputs), 0.0
        mean, log_std = np.split(outputs, 2, axis=1)
        std = np.exp(np.clip(log_std, -20, 2))
        action = np.tanh(mean + std * noise)
        density = -0.5 * noise**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
        return action, (density - np.log(1 - action**2)).sum(1)

    def rewards(self):
        """r_xᵢ"""
        action, log_prob = self.act(self.after.actor["net"], self.next_obs, self.noise[0])
        alpha = np.exp(self.after.extra.log) if self.stochastic else 0.0
        rewards = []
        for i in self.sought:
            later = 0.9 * (self.q(i, self.next_obs, action) - alpha * log_prob)
            y = np.where(self.terminated, self.reward, self.reward + later)
            rewards.append(np.abs(y - self.q(i, self.obs, self.executed)))
        return rewards

    def targets(self):
        """y_xᵢ"""
        own, targets = self.before.strategy, []
        net = own.policy.net if self.stochastic else own.target_policy
        action, log_prob = self.act(net, self.next_obs, self.noise[1])
        alpha = np.exp(own.policy.log_alpha) if self.stochastic else 0.0
        if not self.stochastic:
            action = np.clip(action + np.clip(0.2 * self.noise[1], -0.5, 0.5), -1, 1)
        for i, reward in zip(self.sought, self.rewards(), strict=True):
            both = [self.q_x(own.target_critics, j, i, self.next_obs, action) for j in (0, 1)]
            later = 0.8 * (np.minimum(*both) - alpha * log_prob)
            y = np.maximum(reward, later) if self.target == "max" else reward + later
            targets.append(np.where(self.terminated, reward, y))
        return targets

    def critic_loss(self, critics):
        loss = 0.0
        for i, y in zip(self.sought, self.targets(), strict=True):
            for j in (0, 1):
                predicted = self.q_x(critics, j, i, self.obs, self.executed)
                loss += ((y - predicted) ** 2).mean()
        return loss

    def preference(self, critics, obs, seeking, own):
        """The probability of acting by π_x at T = 0.1, and Q_x of both candidates."""
        pairs = [(j, i) for j in (0, 1) for i in self.sought] if self.stochastic else [(0, 0)]
        errors, worth = (
            [np.min([value(*which, obs, it) for which in whose], axis=0) for it in (seeking, own)]
            for value, whose in (
                (functools.partial(self.q_x, critics), pairs),
                (self.q, [(i,) for i in self.sought]),
            )
        )
        explores, exploits = (errors[0] - errors[1]) / 0.1, (worth[1] - worth[0]) / 0.1
        return np.exp(explores) / (np.exp(explores) + np.exp(exploits)), errors

    def policy_loss(self, net):
        critics = self.after.strategy.critics
        action, log_prob = self.act(net, self.obs, self.noise[2])
        if not self.stochastic:
            return -self.q_x(critics, 0, 0, self.obs, action).mean()
        least = np.min(
            [self.q_x(critics, j, i, self.obs, action) for i in (0, 1) for j in (0, 1)], axis=0
        )
        alpha = np.exp(self.before.strategy.policy.log_alpha)
        return (alpha * log_prob - least).mean()


CASES = [
    ("td3", {}),
    ("sac", {}),
    pytest.param("td3", {"target": "sum"}, marks=pytest.mark.slow),
    pytest.param("sac", {"target": "sum"}, marks=pytest.mark.slow),
    pytest.param("td3", {"conditioning": False}, marks=pytest.mark.slow),
    pytest.param("sac", {"conditioning": False}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("algorithm", "settings"), CASES)
def test_an_update_equals_numpy(algorithm, settings):
    reference = Numpy(algorithm, **settings)
    own = reference.after.strategy
    critics, policy = reference.before.strategy.critics, reference.before.strategy.policy
    loss = reference.critic_loss(critics)
    assert float(reference.losses.strategy) == pytest.approx(loss, rel=1e-4)
    assert own.reward == pytest.approx(np.mean(reference.rewards()), rel=1e-5)
    predicted = reference.q_x(critics, 0, 0, reference.obs, reference.executed)
    observed = np.corrcoef(reference.rewards()[0], predicted)[0, 1]
    assert own.correlation == pytest.approx(observed, abs=1e-4)
    slopes_agree(reference.critic_loss, critics, first_gradient(own.critic_optimiser))
    gradient = first_gradient(own.policy_optimiser)
    slopes_agree(reference.policy_loss, policy.net, gradient.net)
    if algorithm == "sac":
        _, log_prob = reference.act(policy.net, reference.obs, reference.noise[2])
        assert gradient.log_alpha == pytest.approx(-(log_prob.mean() - 2.0), rel=1e-4)


def test_max_and_sum_are_other_targets():
    """By the largest error ahead and by all of them; the same where an episode ends."""
    largest, total = Numpy("td3"), Numpy("td3")
    total.target = "sum"
    ended = largest.terminated
    (one,), (other,) = largest.targets(), total.targets()
    np.testing.assert_array_equal(one[ended], other[ended])
    (reward,) = largest.rewards()
    np.testing.assert_array_equal(one[ended], reward[ended])
    assert {*(one > reward)[~ended]} == {True, False}
    assert np.abs(one - other)[~ended].min() > 1e-6


def test_probes_learn_and_only_they_connect_q_x_with_the_critic():
    before, after, _ = learned("td3")
    slopes = first_gradient(after.strategy.critic_optimiser)
    for part in ("obs", "action"):
        moved = getattr(after.strategy.critics, part) - getattr(before.strategy.critics, part)
        assert moved.shape[:2] == (2, 4)  # each critic has its own
        assert (np.abs(moved).max(axis=(1, 2)) > 0).all()
        assert np.isfinite(getattr(slopes, part)).all()
    _, off, _ = learner("td3", conditioning=False)
    assert off.strategy.critics.obs == off.strategy.critics.action == ()
    width = {c.strategy.critics.net["layer0"]["weight"].shape[1] for c in (before, off)}
    assert width == {5 + 4, 5}


@pytest.mark.parametrize("algorithm", ["td3", pytest.param("sac", marks=pytest.mark.slow)])
def test_what_the_algorithm_learns_is_what_it_learns_without(algorithm):
    module, hp = ALGORITHMS[algorithm], HP[algorithm]
    _, state, learn = learner(algorithm)
    cells.assert_learns_as_alone(module.make, hp, state, learn)


def test_the_policy_waits_for_the_actor_and_targets_for_targets():
    _, state, learn = learner("td3")
    own = jax.device_get(state.strategy)
    one, _ = learn(state, cells.batch(), KEY, Update(False, False, True), 0.0)
    one = jax.device_get(one.strategy)
    assert np.abs(one.critics.net["head"]["bias"] - own.critics.net["head"]["bias"]).min() > 0
    cells.assert_same(one.policy, own.policy)
    cells.assert_same(one.target_critics, own.target_critics)
    both = jax.device_get(learn(state, cells.batch(), KEY, Update(True, True, True), 0.0)[0])
    both = both.strategy
    assert np.abs(both.policy.net["head"]["bias"] - own.policy.net["head"]["bias"]).min() > 0
    followed = jax.tree.map(
        lambda new, old: 0.1 * new + 0.9 * old,
        (both.critics, both.policy.net),
        (own.target_critics, own.target_policy),
    )
    cells.assert_close((both.target_critics, both.target_policy), followed, 1e-6)


# Acting.

OBS = jnp.asarray([0.3, -1.0, 2.0])


def acted(algorithm: str, count: int, step: int = 100, **settings):
    """The bare and the executed actions of many draws in one state, and the noise of each."""
    learning, state, _ = learner(algorithm, **settings)

    def act(key):
        noise = learning.draw(key)
        memory = learning.begin(state, key)
        return learning.act(state, memory, OBS, noise, step)[2], noise.strategy

    return jax.device_get(jax.jit(jax.vmap(act))(random.split(random.key(5), count)))


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_candidates_are_chosen_by_a_softmax_of_advantages(algorithm):
    """Each draw's probability from the equations, against what was executed in 4,000 draws."""
    count = 4000
    action, (uniform, normal) = acted(algorithm, count)
    reference = Numpy(algorithm)
    state = jax.tree.map(np.float64, jax.device_get(learner(algorithm)[1]))
    reference.after = state  # the networks that acted
    obs = np.tile(np.float64(OBS), (count, 1))
    noise = normal[:, :, 0].swapaxes(0, 1) if algorithm == "sac" else (0.0, 0.0)
    seeking, _ = reference.act(state.strategy.policy.net, obs, noise[0])
    own, _ = reference.act(state.actor["net"], obs, noise[1])

    probability, _ = reference.preference(state.strategy.critics, obs, seeking, own)
    assert 0.05 < probability.mean() < 0.95
    np.testing.assert_allclose(action.bare, own, atol=2e-6)
    directed = np.abs(action.executed - action.bare).max(axis=1) > 0
    np.testing.assert_allclose(
        action.executed, np.where(directed[:, None], seeking, own), atol=2e-6
    )
    np.testing.assert_array_equal(directed, uniform[:, 0, 0] < probability)
    spread = np.sqrt((probability * (1 - probability)).mean() / count)
    assert abs(directed.mean() - probability.mean()) < 4 * spread


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_nothing_is_added_in_warm_up(algorithm):
    action, _ = acted(algorithm, 50, step=0)
    np.testing.assert_array_equal(action.executed, action.bare)


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_they_act_by_turns_if_told_to(algorithm):
    learning, state, _ = learner(algorithm, mixing="alternate")
    memory, directed = learning.begin(state, KEY), []
    act = jax.jit(learning.act)
    for step in range(6):
        noise = learning.draw(random.key(step))
        _, memory, action = act(state, memory, OBS, noise, 100 + step)
        directed.append(bool((action.executed != action.bare).any()))
    assert directed == [False, True] * 3


def test_means_are_the_candidates_where_sac_acts_by_its_mean():
    hp, hyper = sac.Hyper(**cells.SMALL, behaviour="mean"), see.Hyper(mixing="alternate")
    strategy = see.make(cells.SPEC, hyper, sac.blueprint(cells.SPEC, hp))
    learning = sac.make(cells.SPEC, hp, strategy)
    state = jax.jit(learning.init)(random.key(0), hp, hyper)
    memory, actions = learning.begin(state, KEY), []
    for step in range(2):
        noise = learning.draw(random.key(step))
        _, memory, action = learning.act(state, memory, OBS, noise, 100)
        actions.append(action.executed)
    for net, action in zip((state.actor["net"], state.strategy.policy.net), actions, strict=True):
        mean, _ = sac.distribution(Nudge(net), OBS[None])
        np.testing.assert_allclose(action, jnp.tanh(mean)[0], atol=1e-6)


def test_what_is_reported():
    learning, state, _ = learner("sac")
    batch = cells.batch()
    directed = np.arange(32)[:, None] % 4 == 0
    batch = batch._replace(executed=np.where(directed, 0.5, batch.bare).astype(np.float32))
    told = jax.jit(learning.report)(state, batch, KEY)
    assert told["directed"] == pytest.approx(0.25)
    assert told["exploration_temperature"] == pytest.approx(1.0)
    reference, own = Numpy("sac"), jax.tree.map(np.float64, jax.device_get(state))
    reference.after = own  # the networks that are reported on
    nets = own.strategy.policy.net, own.actor["net"]
    candidates = [reference.act(net, reference.obs, 0.0)[0] for net in nets]
    probability, errors = reference.preference(own.strategy.critics, reference.obs, *candidates)
    assert told["directed_probability"] == pytest.approx(probability.mean(), rel=1e-3)
    assert told["exploration_value_directed"] == pytest.approx(errors[0].mean(), rel=1e-3)
    assert told["exploration_value_own"] == pytest.approx(errors[1].mean(), rel=1e-3)


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_the_authors_numbers_are_a_preset(algorithm):
    stated = config.preset(algorithm, "HalfCheetah-v5", "see")
    assert stated["strategy.probes"] == 16
    (run,) = config.resolve(config.Request("HalfCheetah-v5", algorithm, "see", 1000, 1, {}))
    for name, value in stated.items():
        prefix, _, own = name.rpartition(".")
        if prefix:
            assert getattr(run.strategy_hyper, own) == value
