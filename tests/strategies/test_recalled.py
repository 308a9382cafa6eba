"""Noise on parameters on-policy: drawn again from its keys, it is the noise that acted."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.agents.on_policy.memories import Memories
from discover_rl.algorithms import likelihood, ppo
from discover_rl.algorithms.on_policy_parts import features, policy
from discover_rl.core import networks
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import UserError
from discover_rl.strategies import noisynet, psne
from discover_rl.strategies.interface import Density, Strategy, View
from tests.helpers import cells, rollouts

SEEDS = [5, 1]
HORIZON = 24
SHORT = {"horizon": HORIZON, "minibatches": 2, "epochs": 1, "hidden": (16, 16)}
CASES = [("noisynet", "rollout"), ("noisynet", "episode"), ("psne", "episode"), ("psne", "rollout")]


@functools.cache
def agent_of(strategy: str, count: int = 1, algorithm: str = "ppo", **settings) -> tuple:
    return rollouts.agent_of(algorithm, strategy, count, **{**SHORT, **settings})


def begun(strategy: str, count: int = 1, algorithm: str = "ppo", **settings):
    agent, hypers = agent_of(strategy, count, algorithm, **settings)
    return agent, *rollouts.begin(agent, hypers, SEEDS)


def likelihood_of(agent, mine):
    """How likely a lane's full rollout is, as learning would have it."""
    strategy = agent.strategy
    likely = likelihood.make(strategy, HORIZON, 2, 1)
    view = View(mine.learner.actor, policy, features, critic=mine.learner.critic)
    rollout = mine.rollout._replace(memory=agent._memories.distinct(mine.rollout.memory))
    own = mine.learner.strategy
    return likely, view, rollout, likely.rollout(own, view, rollout, None, mine.belief)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "lasts", "count"),
    [
        ("psne", "episode", 1),
        ("noisynet", "rollout", 2),
        ("psne", "rollout", 2),
        ("noisynet", "episode", 1),
    ],
)
def test_log_probabilities_are_those_of_the_noise_that_acted(strategy, lasts, count, monkeypatch):
    settings = {"strategy_sigma": 0.3, "strategy_lasts": lasts}
    agent, state, vector = begun(strategy, count, **settings)
    # To the end of the second rollout, without learning from it: parameters have moved by then.
    state, _ = rollouts.advance(agent, state, vector, HORIZON * count)
    monkeypatch.setattr(agent, "_learn_lanes", lambda state, living, step: [])
    state, _ = rollouts.advance(agent, state, vector, 2 * HORIZON * count, HORIZON * count)
    for lane in range(2):
        mine = lane_of(state, lane)
        likely, view, rollout, whole = likelihood_of(agent, mine)
        log_std = np.asarray(mine.learner.actor["net"]["log_std"]["value"])
        block = agent._noise.of(state.seed, HORIZON * count)
        noise = np.asarray([step[0][lane * count : (lane + 1) * count, 0] for step in block])
        expected = (-0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(-1)
        np.testing.assert_allclose(whole.log_prob, expected.ravel(), rtol=1e-3, atol=1e-4)
        # With noise drawn anew they would be others.
        fresh = jax.tree.map(lambda leaf: leaf + (leaf.dtype == np.uint32), rollout.memory[0])
        other = jax.vmap(agent.strategy.density.recall)(fresh)
        flat = likelihood.flat(rollout._replace(memory=()))
        zeros = np.zeros(flat.obs.shape[0], np.float32)
        sample = likelihood.Sample(
            *(flat.obs, flat.context, flat.action, zeros, zeros, zeros, zeros), which=whole.which
        )
        again, value, _ = likely.sample(mine.learner.strategy, view, whole.shared, sample)
        np.testing.assert_allclose(again, whole.log_prob, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(value, whole.value, rtol=1e-4, atol=1e-5)
        # V(s) and V(s′) are those of a network that is there, under the noise of that step.
        for t in (0, 9, 23 * count):
            held = lane_of(whole.shared, int(whole.which[t]))
            nudge = agent.strategy.acting.behave(
                mine.learner.strategy, held, view, None, (), False
            )[1]
            critic = view.critic if nudge.critic is None else nudge.critic
            for obs, got in ((flat.obs, whole.value), (flat.next_obs, whole.next_value)):
                there = networks.apply(critic, obs[t : t + 1], "tanh")[0, 0]
                np.testing.assert_allclose(got[t], there, rtol=1e-4, atol=1e-5)
            assert (nudge.critic is not None) == (strategy == "noisynet")
        redrawn, *_ = likely.sample(mine.learner.strategy, view, other, sample)
        assert np.abs(np.asarray(redrawn) - np.asarray(again)).max() > 0.05


@pytest.mark.parametrize(("strategy", "lasts"), CASES)
def test_memories_begin_when_they_should(strategy, lasts):
    settings = {"strategy_sigma": 0.3, "strategy_lasts": lasts}
    agent, state, vector = begun(strategy, **settings)
    tags, ended = [], []
    for number in range(2):
        first = number * HORIZON
        state, _ = rollouts.advance(agent, state, vector, first + HORIZON, first)
        kept = jax.tree.leaves(state.rollout.memory)[0][:, :, 0]  # (lanes, T, key)
        tags.append(kept.copy())
        ended.append(state.rollout.ended[:, :, 0].copy())
    tags, ended = np.concatenate(tags, axis=1), np.concatenate(ended, axis=1)
    changes = (tags[:, 1:] != tags[:, :-1]).any(-1)
    boundary = np.zeros_like(changes)
    boundary[:, HORIZON - 1] = True
    expected = {
        ("noisynet", "rollout"): boundary,
        ("noisynet", "episode"): ended[:, :-1],
        ("psne", "episode"): ended[:, :-1],
        ("psne", "rollout"): ended[:, :-1] | boundary,
    }[strategy, lasts]
    np.testing.assert_array_equal(changes, expected)
    assert (tags[0, 0] != tags[1, 0]).any()  # lanes have their own


def test_noise_that_lasts_as_long_as_the_other_family_keeps_it_is_refused():
    blueprint = ppo.blueprint(cells.SPEC, ppo.Hyper())
    with pytest.raises(UserError, match=r"a replay; here it is rollout or episode"):
        noisynet.make(cells.SPEC, noisynet.Hyper(lasts="step"), blueprint)
    from discover_rl.algorithms import td3

    blueprint = td3.blueprint(cells.SPEC, td3.Hyper())
    with pytest.raises(UserError, match=r"rollouts; here it is step or episode"):
        noisynet.make(cells.SPEC, noisynet.Hyper(lasts="rollout"), blueprint)
    with pytest.raises(UserError, match="is for on-policy algorithms"):
        psne.make(cells.SPEC, psne.Hyper(lasts="rollout"), blueprint)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["noisynet", "psne"])
def test_slopes_are_those_of_networks_that_are_there(strategy):
    """By automatic differentiation of copies of the networks, one for each memory."""
    module = {"noisynet": noisynet, "psne": psne}[strategy]
    hp, hyper = ppo.Hyper(**SHORT), module.Hyper(sigma=0.3)
    made = module.make(cells.SPEC, hyper, ppo.blueprint(cells.SPEC, hp))
    algorithm = ppo.make(cells.SPEC, hp, made)
    state = jax.jit(algorithm.init)(random.key(0), hp, hyper)
    memories = jax.vmap(
        lambda key: made.acting.begin(state.strategy, View(state.actor, None, None), key)
    )(random.split(random.key(1), 4))
    shared = jax.vmap(made.density.recall)(memories)
    g = np.random.default_rng(0)
    obs, action = (g.normal(size=(8, n)).astype(np.float32) for n in (3, 2))
    which = np.asarray([0, 1, 1, 3, 2, 2, 0, 3])
    zeros = np.zeros(8, np.float32)
    sample = likelihood.Sample(
        obs, np.zeros((8, 0), np.float32), action, zeros, zeros, zeros, zeros, which=which
    )
    likely = likelihood.make(made, HORIZON, 2, 1)

    def loss(params):
        view = View(params["actor"], policy, features, critic=params["critic"])
        log_prob, value, _ = likely.sample(state.strategy, view, shared, sample)
        return (log_prob * weights).sum() + (value**2).sum()

    weights = jnp.arange(8.0)
    params = {"actor": state.actor, "critic": state.critic}
    got = jax.jit(jax.grad(loss))(params)

    def copied(params):
        total = 0.0
        for i in range(8):
            held = jax.tree.map(lambda leaf, i=i: leaf[which[i]], shared)
            view = View(params["actor"], policy, features, critic=params["critic"])
            nudge = made.acting.behave(state.strategy, held, view, None, (), False)[1]
            mean = networks.apply(nudge.net, obs[i : i + 1], "tanh")
            std = jnp.exp(nudge.net["log_std"]["value"])[None]
            density = jax.scipy.stats.norm.logpdf(action[i : i + 1], mean, std).sum()
            critic = params["critic"] if nudge.critic is None else nudge.critic
            value = networks.apply(critic, obs[i : i + 1], "tanh")[0, 0]
            total += i * density + value**2
        return total

    expected = jax.grad(copied)(params)
    cells.assert_close(got, expected, 1e-3)
    if strategy == "psne":  # reparameterised: moving θ moves θ + σ ε by as much
        assert np.abs(got["actor"]["net"]["layer0"]["weight"]).max() > 0
    else:
        assert np.abs(got["actor"]["joint"]["critic"]["head"]["weight"]).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
@pytest.mark.parametrize("strategy", ["noisynet", "psne"])
def test_without_noise_it_is_the_bare_algorithm(strategy, algorithm):
    """Step for step; σ of NoisyNet leaves 0 as soon as it learns, so there one step of learning."""
    quiet = {"strategy_sigma": 0.0, "minibatches": 1, "max_grad_norm": 1e9}
    if strategy == "psne":
        quiet["strategy_layer_norm"] = False
    count = 1 if strategy == "noisynet" else 3
    outcomes = []
    for name in (strategy, "none"):
        mine = quiet if name != "none" else {k: v for k, v in quiet.items() if "strategy" not in k}
        agent, state, vector = begun(name, algorithm=algorithm, **mine)
        for number in range(count):
            first = number * HORIZON
            state, _ = rollouts.advance(agent, state, vector, first + HORIZON, first)
        outcomes.append((vector.actions, state.learner.actor["net"], state.learner.critic))
    cells.assert_close(*(list(outcome[0][0]) for outcome in outcomes), 2e-5)
    cells.assert_close(*(outcome[1:] for outcome in outcomes), 2e-5)


@pytest.mark.parametrize(
    ("algorithm", "interval", "apart"),
    [("ppo", 2, 1), pytest.param("a2c", 3, 3, marks=pytest.mark.slow)],
)
def test_sigma_adapts_once_a_rollout_but_no_sooner_than_its_interval(algorithm, interval, apart):
    settings = {"strategy_interval": interval, "strategy_threshold": 1e9}
    settings["minibatches"] = 2 if algorithm == "ppo" else 1
    agent, state, vector = begun("psne", algorithm=algorithm, **settings)
    sigmas = [state.learner.strategy.sigma[0]]
    for number in range(6):
        first = number * HORIZON
        state, _ = rollouts.advance(agent, state, vector, first + HORIZON, first)
        sigmas.append(state.learner.strategy.sigma[0])
    expected = [0.017 * 1.01 ** (number // apart) for number in range(7)]
    np.testing.assert_allclose(sigmas, expected, rtol=1e-5)


@pytest.mark.slow
def test_sigma_stays_with_the_episode_that_began_with_it():
    """It adapts after every rollout; an episode that goes on over several keeps its own."""
    settings = {"strategy_interval": 1, "strategy_factor": 1.5, "strategy_threshold": 1e9}
    agent, state, vector = begun("psne", horizon=4, minibatches=1, **settings)
    began = {}
    for number in range(6):
        learner = jax.tree.map(np.array, state.learner)
        state, _ = rollouts.advance(agent, state, vector, 4 * number + 4, 4 * number)
        kept, now = state.rollout.memory, learner.strategy.sigma
        for lane, t in np.ndindex(2, 4):
            key = lane, *kept.key[lane, t, 0].tolist()
            began.setdefault(key, kept.sigma[lane, t, 0])
            assert kept.sigma[lane, t, 0] == began[key]
            mine = lane_of(learner, lane)
            net = jax.device_get(
                networks.moved(
                    mine.actor["net"],
                    agent.strategy.density.recall(
                        psne.Memory(kept.key[lane, t, 0], kept.sigma[lane, t, 0])
                    ),
                )
            )
            noise = agent._noise.of(state.seed, 4 * number)[t][0][lane]
            mean = networks.apply(net, state.rollout.obs[lane, t], "tanh")
            std = np.exp(mine.actor["net"]["log_std"]["value"])
            np.testing.assert_allclose(
                state.rollout.action[lane, t], mean + std * noise, rtol=1e-4, atol=1e-4
            )
    assert now[0] == pytest.approx(0.017 * 1.5**5, rel=1e-5)
    assert len(set(began.values())) > 2


def test_memories_are_stored_once_if_they_are_equal():
    memories = Memories(Strategy(density=Density(recall=lambda memory: memory)))
    keys = np.asarray([[7, 1], [7, 1], [7, 2], [9, 1], [9, 1]], np.uint32)[:, None]
    sigma = np.asarray([1, 1, 1, 1, 2], np.float32)[:, None]
    (different, sigmas), which = memories.distinct((keys, sigma))
    assert len(different) == 4
    np.testing.assert_array_equal(different[which[:, 0]], keys[:, 0])
    np.testing.assert_array_equal(sigmas[which[:, 0]], sigma[:, 0])
    # Another one: as many programs as powers of four, not as numbers.
    sigma[1] = 5
    (different, _), which = memories.distinct((keys, sigma))
    assert len(different) == 16
    np.testing.assert_array_equal(different[which[:, 0]], keys[:, 0])
    assert Memories(Strategy()).distinct(()) == ()
