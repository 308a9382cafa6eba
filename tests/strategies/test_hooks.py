"""What a nudge can do to a policy's own sampling, proved by a small strategy.

    noise        coloured noise in place of the policy's own
    std          a standard deviation that depends on the state
    mean_shift   a shift of the mean, before squashing

Asserted are the action that is executed, its density, and the gradients of what is trained.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy.stats import norm

from discover_rl.agents.interface import AgentSetup
from discover_rl.algorithms import a2c, ddpg, likelihood, ppo, sac, td3
from discover_rl.algorithms.on_policy_parts import distribution, features, policy
from discover_rl.core import networks
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import Nudge
from discover_rl.strategies import none
from discover_rl.strategies.interface import Acting, Density, Learning, Strategy, View
from tests.algorithms.test_on_policy import rollout
from tests.helpers import cells, rollouts
from tests.helpers.probes import agent_with
from tests.helpers.reference import forward, layers, q, squashed
from tests.helpers.slopes import actor_gradient

SIZES = cells.SPEC.observation_size, cells.SPEC.action_size
RHO = 0.8
ALL = ("noise", "std", "mean_shift")
NO_STATISTICS = {ddpg: {"normalise": False}}


def exploring(*hooks: str) -> Strategy:
    """A strategy that gives these fields of a nudge.

    noise:       z ← ρ z + √(1 − ρ²) ε, 0 where an episode starts
    std:         exp(s W − 1)
    mean_shift:  s U
    W and U are trained with the actor.
    """

    def joint(key, hyper, net, critic):
        return {"W": 0.3 * random.normal(key, SIZES), "U": jnp.full(SIZES, 0.2)}

    def given(view, obs) -> Nudge:
        std = networks.namespace(obs).exp(obs @ view.joint["W"] - 1.0)
        fields = {"std": std, "mean_shift": obs @ view.joint["U"]}
        return Nudge(view.net, **{name: fields[name] for name in hooks if name in fields})

    def behave(state, memory, view, obs, noise, warmup):
        memory = RHO * memory + (1 - RHO**2) ** 0.5 * noise
        nudge = given(view, obs)
        return memory, nudge._replace(noise=memory) if "noise" in hooks else nudge

    return Strategy(
        acting=Acting(
            begin=lambda state, view, key: jnp.zeros((1, SIZES[1])),
            draw=lambda key: random.normal(key, (1, SIZES[1])),
            behave=behave,
        ),
        learning=Learning(joint=joint, expect=lambda state, view, obs, key, role: given(view, obs)),
        density=Density(nudge=lambda state, view, obs: given(view, obs)),
    )


@functools.cache
def build(module, strategy: Strategy, **settings):
    """The algorithm of a module, exploring by a strategy, and a state."""
    small = cells.SHORT if module.Hyper.on_policy else cells.SMALL
    hp = module.Hyper(**{**small, **settings})
    algorithm = module.make(cells.SPEC, hp, strategy)
    return algorithm, jax.jit(algorithm.init)(random.key(0), hp, none.Hyper())


def std_of(joint, obs) -> np.ndarray:
    return np.exp(obs @ np.asarray(joint["W"], np.float64) - 1.0)


def slopes(function, at: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """The gradient of a function of an array, by central differences."""
    found = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        step = np.zeros(at.shape)
        step[place] = h
        found[place] = (function(at + step) - function(at - step)) / (2 * h)
    return found


# Acting, off-policy.


@pytest.mark.parametrize(
    ("module", "hooks"),
    [
        (sac, ("noise",)),
        (sac, ALL),
        (td3, ("mean_shift",)),
        (ddpg, ALL),  # a policy without noise of its own ignores `noise` and `std`
    ],
)
def test_what_is_executed(module, hooks):
    algorithm, state = build(module, exploring(*hooks), **NO_STATISTICS.get(module, {}))
    net, joint = state.actor["net"], state.actor["joint"]
    act = jax.jit(algorithm.act)
    memory, z = algorithm.begin(state, random.key(0)), np.zeros((1, SIZES[1]))
    for number in range(5):
        obs = random.normal(random.key(number), SIZES[:1])
        noise = algorithm.draw(random.key(10 + number))
        z = RHO * z + (1 - RHO**2) ** 0.5 * noise.strategy
        _, memory, action = act(state, memory, obs, noise, 100)
        mean = networks.apply(net, obs[None])
        std = 0.0
        if module is sac:
            mean, std = sac.distribution(Nudge(net), obs[None])
        std = std_of(joint, obs[None]) if module is sac and "std" in hooks else std
        mean = mean + obs[None] @ joint["U"] if "mean_shift" in hooks else mean
        expected = np.tanh(mean + std * z)[0]
        np.testing.assert_allclose(action.executed, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(action.bare, action.executed)
    _, _, action = act(state, memory, obs, noise, 0)  # in warm-up it is uniform all the same
    np.testing.assert_array_equal(action.executed, noise.warmup[0])


# Acting and densities, on-policy.


@pytest.mark.parametrize("hooks", [("noise",), ("std",), ALL], ids="-".join)
def test_on_policy_actions_have_the_density_they_were_drawn_from(hooks, monkeypatch):
    """Log-probabilities are those of N(mean, std) at the noise that was given, so PPO's ratio is 1
    before the first update."""
    horizon, count = 12, 2
    strategy = exploring(*hooks)
    hyper, own = cells.hypers("ppo", "none", horizon=horizon, minibatches=1, epochs=1)
    agent = agent_with(strategy, AgentSetup(cells.SPEC, "ppo", hyper, "none", own, 1000, count))
    monkeypatch.setattr(agent, "_learn_lanes", lambda state, living, step: [])
    state, vector = rollouts.begin(agent, (hyper, own), [5, 1])
    state, _ = rollouts.advance(agent, state, vector, horizon * count)
    block = agent._noise.of(state.seed, 0)
    for lane in range(2):
        mine = lane_of(state, lane)
        obs, action = mine.rollout.obs.astype(float), mine.rollout.action
        mine_of = slice(lane * count, (lane + 1) * count)
        white, epsilon = (np.asarray([step[i][mine_of, 0] for step in block]) for i in (0, 1))
        if "noise" in hooks:
            z = np.zeros_like(epsilon[0])
            for t in range(horizon):
                z = RHO * z + (1 - RHO**2) ** 0.5 * epsilon[t]
                white[t] = z
                z = np.where(mine.rollout.ended[t][:, None], 0.0, z)
        net, joint = mine.learner.actor["net"], mine.learner.actor["joint"]
        mean = networks.apply(net, obs, "tanh")
        mean = mean + obs @ joint["U"] if "mean_shift" in hooks else mean
        std = std_of(joint, obs) if "std" in hooks else np.exp(net["log_std"]["value"]) + 0 * mean
        np.testing.assert_allclose(action, mean + std * white, rtol=1e-4, atol=1e-4)
        # As learning asks for it.
        likely = likelihood.make(strategy, horizon, 1, 1)
        view = View(mine.learner.actor, policy, features, distribution, critic=mine.learner.critic)
        whole = likely.rollout((), view, mine.rollout, None, ())
        expected = norm.logpdf(action, mean, std).sum(-1)
        np.testing.assert_allclose(whole.log_prob, expected.ravel(), rtol=1e-4, atol=1e-4)
        flat, none_yet = likelihood.flat(mine.rollout), np.zeros(horizon * count, np.float32)
        sample = likelihood.Sample(
            *(flat.obs, flat.context, flat.action, whole.log_prob, whole.value, none_yet, none_yet)
        )
        log_prob, _, log_std = likely.sample((), view, (), sample)
        np.testing.assert_array_equal(np.exp(log_prob - sample.log_prob), 1.0)
        shape = (horizon * count, SIZES[1]) if "std" in hooks else SIZES[1:]
        assert log_std.shape == shape


@pytest.mark.parametrize("module", [ppo, pytest.param(a2c, marks=pytest.mark.slow)])
def test_the_gradient_of_a_state_dependent_std(module):
    """Of W, in the policy's loss and the entropy, against differences in double precision."""
    weight = 0.1
    settings = {"horizon": 12, "minibatches": 1, "epochs": 1, "max_grad_norm": 1e9}
    algorithm, state = build(module, exploring("std"), entropy_weight=weight, **settings)
    over = np.ones((12, 1), bool)  # episodes of one step, so that the target is the reward
    data = rollout()._replace(terminated=over, ended=over)
    after = jax.jit(algorithm.learn)(state, (), data, random.key(0), 0.0)[0]

    obs, action = (np.float64(it[:, 0]) for it in (data.obs, data.action))
    net = {name: it for name, it in state.actor["net"].items() if name != "log_std"}
    mean = forward(layers(net), obs, tanh=True)[0]
    advantage = data.reward[:, 0] - forward(layers(state.critic), obs, tanh=True)[0][:, 0]
    if module is ppo:
        advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-5)
    start = np.asarray(state.actor["joint"]["W"], np.float64)

    def loss(w: np.ndarray) -> float:
        old, now = (norm(mean, std_of({"W": it}, obs)) for it in (start, w))
        log_prob, log_old = (it.logpdf(action).sum(1) for it in (now, old))
        gain = np.exp(log_prob - log_old) if module is ppo else log_prob
        return -(advantage * gain).mean() - entropy_term(w)

    def entropy_term(w: np.ndarray) -> float:
        return weight * norm(mean, std_of({"W": w}, obs)).entropy().sum(1).mean()

    assert np.abs(slopes(entropy_term, start)).max() > 0.01  # it counts
    given = actor_gradient(state, after, adam=module is ppo)
    np.testing.assert_allclose(given["joint"]["W"], slopes(loss, start), rtol=1e-3, atol=1e-5)
    assert not np.any(given["net"]["log_std"]["value"])  # it is replaced
    assert not np.any(given["joint"]["U"])  # it is not used


# Targets and losses of SAC.


def test_sac_learns_with_what_is_expected():
    """Target, actor's loss and its gradient in W and U, for a std and a mean of the strategy's."""
    rates = {"gamma": 0.9, "temperature": 0.4, "critic_lr": 0.0}
    algorithm, state = build(sac, exploring(*ALL), **rates)
    batch, key = cells.batch(), random.key(3)
    after, losses = cells.learner(algorithm)(state, batch, key, True)
    target_key, actor_key, _ = random.split(key, 3)
    noises = [
        np.asarray(random.normal(random.split(it)[1], batch.bare.shape), np.float64)
        for it in (target_key, actor_key)
    ]
    actor = layers(state.actor["net"])
    critics = [layers(jax.tree.map(lambda leaf, i=i: leaf[i], state.critics)) for i in range(2)]
    start = [np.asarray(state.actor["joint"][name], np.float64) for name in ("W", "U")]

    def sampled(obs, w, u, noise):
        obs = np.float64(obs)
        mean = forward(actor, obs)[0][:, : SIZES[1]] + obs @ u
        raw, log_prob = squashed(mean, obs @ w - 1.0, noise)
        action = np.tanh(raw)
        return np.minimum(*(q(critic, obs, action) for critic in critics)), log_prob

    value, log_prob = sampled(batch.next_obs, *start, noises[0])
    y = batch.reward + 0.9 * np.where(batch.terminated, 0.0, value - 0.4 * log_prob)
    errors = [q(critic, batch.obs, batch.executed) - y for critic in critics]
    assert float(losses.critic) == pytest.approx(sum((it**2).mean() for it in errors), rel=1e-4)

    def loss(w, u) -> float:
        value, log_prob = sampled(batch.obs, w, u, noises[1])
        return (0.4 * log_prob - value).mean()

    assert float(losses.actor) == pytest.approx(loss(*start), rel=1e-4)
    given = jax.tree.map(lambda leaf: leaf / 0.1, after.actor_optimiser[0].mu["joint"])
    expected = slopes(lambda w: loss(w, start[1]), start[0])
    np.testing.assert_allclose(given["W"], expected, rtol=1e-3, atol=1e-5)
    expected = slopes(lambda u: loss(start[0], u), start[1])
    np.testing.assert_allclose(given["U"], expected, rtol=1e-3, atol=1e-5)
