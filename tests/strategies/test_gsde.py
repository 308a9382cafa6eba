"""State-dependent noise: its density, what it is a function of, and how its size is learned."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats
from scipy.stats import norm

from discover_rl.algorithms import a2c, ddpg, likelihood, ppo, sac, td3
from discover_rl.algorithms import off_policy_parts as off
from discover_rl.algorithms import on_policy_parts as on
from discover_rl.core.equations import squash
from discover_rl.core.pytrees import lane_of
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Nudge, UserError
from discover_rl.strategies import gsde
from discover_rl.strategies.interface import View
from tests.helpers import cells, rollouts
from tests.helpers.reference import forward, layers

OBS = np.float32([[0.3, -0.2, 0.9]])
SIZE = cells.SPEC.action_size


@functools.cache
def made(module, sizes=(), **settings):
    """The strategy with these settings, the module's algorithm with it, and a state."""
    small = cells.SHORT if module.Hyper.on_policy else cells.SMALL
    hp, own = module.Hyper(**{**small, **dict(sizes)}), gsde.Hyper(**settings)
    strategy = gsde.make(cells.SPEC, own, module.blueprint(cells.SPEC, hp))
    algorithm = module.make(cells.SPEC, hp, strategy)
    state = jax.jit(algorithm.init)(random.key(0), hp, own)
    if state.actor["joint"]:  # every feature and action has a σ of its own
        noise = 0.3 * random.normal(random.key(1), state.actor["joint"]["log_std"].shape)
        state.actor["joint"]["log_std"] += noise
    return strategy, algorithm, state


def parts(net, obs, tanh: bool) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the actor's network, and z, in NumPy."""
    bare = {name: it for name, it in net.items() if name != "log_std"}
    outputs, inputs = forward(layers(bare), np.float64(obs), tanh=tanh)
    return outputs, inputs[-1]


def std_of(z, log_std) -> np.ndarray:
    """As Stable-Baselines3 has it: √(z² σ² + 10⁻⁶)."""
    return np.sqrt(z**2 @ np.exp(np.float64(log_std)) ** 2 + 1e-6)


def shown(actor, module, **fields) -> View:
    """What the strategy sees of an actor."""
    of = on if module.Hyper.on_policy else off
    own = sac if module is sac else on
    return View(actor, own.policy, of.features, own.distribution, **fields)


# The density.


def by_hand(module, mean, z):
    """An actor with these features and this mean in every state; σ is 0.1, 0.2; 0.3, 0.4."""
    outputs = [*mean, 0.0, 0.0] if module is sac else mean
    bias = z if module is sac else np.arctanh(z)
    net = {
        "layer0": {"weight": jnp.zeros((3, 2)), "bias": jnp.asarray(bias, jnp.float32)},
        "head": {"weight": jnp.zeros((2, len(outputs))), "bias": jnp.asarray(outputs)},
        "log_std": {"value": jnp.full(2, 7.0)},  # of no account
    }
    return {"net": net, "joint": {"log_std": jnp.log(jnp.asarray([[0.1, 0.2], [0.3, 0.4]]))}}


def test_the_density_of_on_policy_actions_by_hand():
    """z = (0.5, −0.8): variances 0.25 · 0.01 + 0.64 · 0.09 = 0.0601 and 0.25 · 0.04 + 0.64 · 0.16 =
    0.1124; 0.3 and −0.4 from the mean, log π = −½ (0.09 / 0.0601 + 0.16 / 0.1124 + log 0.0601 +
    log 0.1124) − log 2π."""
    strategy, _, _ = made(ppo)
    view = shown(by_hand(ppo, [0.5, -0.1], [0.5, -0.8]), ppo)
    assert strategy.density.nudge
    nudge = strategy.density.nudge(gsde.Hyper(), view, OBS)
    np.testing.assert_allclose(nudge.std, np.sqrt([[0.060101, 0.112401]]), rtol=2e-5)
    action = np.float32([[0.8, -0.5]])
    found = likelihood.log_prob_of(nudge, OBS, action)
    assert found[0] == pytest.approx(-0.799655, abs=2e-5)
    # Stable-Baselines3 2.9.2, StateDependentNoiseDistribution with this z, σ, mean and action.
    assert found[0] == pytest.approx(-0.799649, abs=2e-5)
    mean, std = on.distribution(nudge, OBS)
    assert norm.entropy(mean, std).sum() == pytest.approx(0.339172, abs=2e-5)
    assert found[0] == pytest.approx(norm.logpdf(action, mean, std).sum(), abs=1e-5)


def test_the_density_of_sac_by_hand():
    """z = (1, 2): variances 0.01 + 4 · 0.09 = 0.37 and 0.04 + 4 · 0.16 = 0.68; the second mean, 3,
    is cut at 2. With standard normal numbers 1 and −1 before squashing."""
    strategy, _, _ = made(sac)
    view = shown(by_hand(sac, [0.5, 3.0], [1.0, 2.0]), sac)
    for role in ("target", "actor"):
        nudge = strategy.learning.expect(gsde.Hyper(), view, OBS, random.key(0), role)
        mean, std = sac.distribution(nudge, OBS)
        np.testing.assert_allclose(mean, [[0.5, 2.0]], rtol=1e-6)
        np.testing.assert_allclose(std, np.sqrt([[0.370001, 0.680001]]), rtol=1e-6)
        action, log_prob = squash(mean, std, jnp.asarray([[1.0, -1.0]]))
        raw = np.asarray([0.5 + 0.370001**0.5, 2.0 - 0.680001**0.5])
        np.testing.assert_allclose(action[0], np.tanh(raw), rtol=1e-5)
        normal = norm.logpdf(raw, [0.5, 2.0], np.sqrt([0.370001, 0.680001])).sum()
        corrected = normal - np.log(1 - np.tanh(raw) ** 2 + 1e-6).sum()
        assert log_prob[0] == pytest.approx(corrected, abs=1e-4)
        # Stable-Baselines3 2.9.2, with squash_output and the mean that its policy cuts at 2.
        assert log_prob[0] == pytest.approx(0.035734, abs=1e-4)


@pytest.mark.parametrize("module", [a2c, ppo, sac])
def test_the_density_is_that_of_what_is_done(module):
    """Of 20,000 draws of ε, at one state."""
    strategy, algorithm, state = made(module)
    count, obs = 20_000, jnp.asarray(OBS)
    keys = random.split(random.key(3), count)
    noise = algorithm.draw(random.key(4))

    def act(key):
        memory = algorithm.begin(state, key)
        if module is sac:
            return jnp.arctanh(algorithm.act(state, memory, obs[0], noise, 100)[2].bare)
        return algorithm.acting(state)(memory, obs, noise)[2][0]

    actions = np.asarray(jax.jit(jax.vmap(act))(keys))
    view = shown(state.actor, module)
    if module is sac:
        nudge = strategy.learning.expect(state.strategy, view, OBS, random.key(0), "actor")
        mean, std = sac.distribution(nudge, OBS)
    else:
        assert strategy.density.nudge
        mean, std = on.distribution(strategy.density.nudge(state.strategy, view, OBS), OBS)
    outputs, z = parts(state.actor["net"], OBS, tanh=module is not sac)
    np.testing.assert_allclose(std, std_of(z, state.actor["joint"]["log_std"]), rtol=1e-4)
    np.testing.assert_allclose(mean, outputs[:, :SIZE], rtol=1e-4, atol=1e-5)
    for i in range(SIZE):
        assert stats.kstest(actions[:, i], norm(mean[0, i], std[0, i]).cdf).pvalue > 1e-3
    across = np.corrcoef(actions.T)[0, 1]
    assert abs(across) < 5 * count**-0.5  # actions are independent of each other, over ε


# Noise as a function of the state.


def test_a_mean_that_is_cut_is_cut_while_acting_too():
    strategy, _, _ = made(sac)
    view = shown(by_hand(sac, [0.5, 3.0], [1.0, 2.0]), sac)
    memory = gsde.Memory(jnp.asarray([[1.0, 0.0], [0.0, 0.5]]), jnp.zeros((1, 1), jnp.int32))
    _, nudge = strategy.acting.behave(gsde.Hyper(), memory, view, OBS, (), False)
    mean, _ = sac.distribution(nudge, OBS)
    np.testing.assert_allclose(mean, [[0.5 + 0.1, 2.0 + 2 * 0.4 * 0.5]], rtol=1e-5)
    np.testing.assert_array_equal(nudge.noise, 0.0)
    narrow = dataclasses.replace(gsde.Hyper(), mean_limit=0.2)
    _, nudge = strategy.acting.behave(narrow, memory, view, OBS, (), False)
    np.testing.assert_allclose(sac.distribution(nudge, OBS)[0], [[0.3, 0.6]], rtol=1e-5)


@pytest.mark.parametrize("module", [td3, sac, ppo])
def test_between_draws_the_same_state_has_the_same_noise(module):
    _, algorithm, state = made(module, interval=3)
    act = algorithm.act if module is not ppo else None
    memory = algorithm.begin(state, random.key(0))
    done = {0: [], 1: []}
    one = jax.jit(act) if act else jax.jit(lambda *given: algorithm.acting(state)(*given))
    for step in range(9):
        which = step % 2
        obs = OBS * (1.0 - 2.0 * which)
        noise = algorithm.draw(random.key(step))
        if act:
            _, memory, action = one(state, memory, obs[0], noise, 100)
            done[which].append(np.asarray(action.executed))
        else:
            memory, _, action = one(memory, obs, noise)
            done[which].append(np.asarray(action[0]))
    # Steps 0, 2 | 4 | 6, 8 and 1 | 3, 5 | 7, in periods of three.
    for actions, same in ((done[0], [1, 0, 0, 1]), (done[1], [0, 1, 0])):
        for before, after, equal in zip(actions[:-1], actions[1:], same, strict=True):
            assert (np.abs(before - after).max() < 1e-6) == bool(equal)
    assert np.abs(done[0][0] - done[1][0]).max() > 1e-3


def test_without_an_interval_noise_lasts_an_episode_off_policy():
    rare = {"train_every": 64}  # a few steps learn nothing, and compile nothing
    agent, seeds = cells.build("td3", "gsde", **rare), [5, 6]
    state = cells.begin(agent, seeds, *cells.hypers("td3", "gsde", **rare))
    for step in range(1, 15):
        transition = cells.transition_at(seeds, step)
        before = jax.device_get(state.memory)
        state, _ = cells.tick(agent, state, transition, step)
        memory = jax.device_get(state.memory)
        for lane, ended in enumerate(transition.ended):
            assert np.array_equal(memory.noise[lane], before.noise[lane]) != ended
        assert np.abs(memory.noise[0] - memory.noise[1]).max() > 0.1


@pytest.mark.parametrize("lasts", ["auto", "episode"])
def test_on_policy_noise_lasts_a_rollout_and_the_ratio_is_1_at_the_first_epoch(lasts, monkeypatch):
    horizon, count = 12, 2
    agent, hypers = rollouts.agent_of("ppo", "gsde", count, horizon=horizon, strategy_lasts=lasts)
    state, vector = rollouts.begin(agent, hypers, [5, 1])
    first = state.memory.noise.copy()
    assert first.shape == (2, count, 16, SIZE)
    monkeypatch.setattr(agent, "_learn_lanes", lambda state, living, step: [])
    state, _ = rollouts.advance(agent, state, vector, horizon * count)
    if lasts == "auto":  # it was drawn when the rollout began
        first = state.memory.noise.copy()
    for lane in range(2):
        mine = lane_of(state, lane)
        actor, whole = mine.learner.actor, mine.rollout
        mean, z = parts(actor["net"], whole.obs, tanh=True)
        sigma, noise = np.exp(actor["joint"]["log_std"]), whole.action - mean
        assert whole.ended.any()
        for env in range(count):
            ended = np.flatnonzero(whole.ended[:, env])
            until = horizon if lasts == "auto" else ended[0] + 1
            expected = z[:, env] @ (sigma * first[lane, env])
            np.testing.assert_allclose(noise[:until, env], expected[:until], rtol=1e-3, atol=1e-4)
            assert (until == horizon) or np.abs((noise[:, env] - expected)[until:]).max() > 1e-3
        # As learning asks for it: exactly, and the same in the first epoch.
        likely = likelihood.make(agent.strategy, horizon, 1, 1)
        view = shown(actor, ppo, critic=mine.learner.critic)
        known = likely.rollout(mine.learner.strategy, view, whole, None, ())
        log_prob = norm.logpdf(whole.action, mean, std_of(z, actor["joint"]["log_std"])).sum(-1)
        np.testing.assert_allclose(known.log_prob, log_prob.ravel(), rtol=1e-4, atol=1e-4)
        flat, blank = likelihood.flat(whole), np.zeros(horizon * count, np.float32)
        sample = likelihood.Sample(
            *(flat.obs, flat.context, flat.action, known.log_prob, known.value, blank, blank)
        )
        now, _, _ = likely.sample(mine.learner.strategy, view, (), sample)
        np.testing.assert_array_equal(np.exp(now - known.log_prob), 1.0)
    state, _ = rollouts.advance(agent, state, vector, 2 * horizon * count, horizon * count)
    assert np.abs(state.memory.noise - first).max(axis=(-2, -1)).min() > 0.1  # another rollout


def test_policies_without_a_density_are_shifted_by_a_sigma_that_is_set():
    """By hand, and after its schedule; nothing in warm-up."""
    strategy, _, state = made(ddpg, sigma=Amplitude(0.5, 0.1, 0.5))
    assert state.actor["joint"] == {}
    memory = strategy.acting.begin(state.strategy, None, random.key(0))
    _, z = parts(state.actor["net"], OBS, tanh=False)
    for progress, sigma in ((0.0, 0.5), (0.25, 0.3), (0.75, 0.1)):
        view = shown(state.actor, ddpg, progress=progress)
        _, nudge = strategy.acting.behave(state.strategy, memory, view, OBS, (), False)
        np.testing.assert_allclose(nudge.shift, sigma * (z @ memory.noise), rtol=1e-4)
        assert nudge.noise is None
        _, nudge = strategy.acting.behave(state.strategy, memory, view, OBS, (), True)
        np.testing.assert_array_equal(nudge.shift, 0.0)
        logged = strategy.report(state.strategy, view, cells.batch()._replace(obs=OBS))
        assert logged["sigma"] == pytest.approx(sigma)
        assert logged["std"] == pytest.approx(sigma * np.linalg.norm(z), rel=1e-4)
        nudge = strategy.learning.expect(state.strategy, view, OBS, random.key(0), "target")
        cells.assert_same(nudge, Nudge(state.actor["net"]))


@pytest.mark.parametrize("module", [ddpg, td3, sac])
def test_a_rollout_is_nothing_that_off_policy_algorithms_have(module):
    with pytest.raises(UserError, match=r"strategy.lasts=rollout is for algorithms that learn"):
        made(module, lasts="rollout")


@pytest.mark.parametrize("module", [td3, sac, ppo])
def test_evaluation_is_without_noise(module):
    _, algorithm, state = made(module)
    nudge = algorithm.greedy(state)
    assert (nudge.shift, nudge.mean_shift, nudge.noise, nudge.std) == (0.0, None, None, None)
    expected = np.asarray(state.actor["net"]["head"]["weight"])[:, :SIZE]
    np.testing.assert_array_equal(nudge.net["head"]["weight"], expected)


def test_what_is_logged():
    strategy, _, state = made(sac)
    batch = cells.batch()
    logged = strategy.report(state.strategy, shown(state.actor, sac), batch)
    log_std = np.asarray(state.actor["joint"]["log_std"])
    _, z = parts(state.actor["net"], batch.obs, tanh=False)
    assert logged["sigma"] == pytest.approx(np.exp(log_std).mean(), rel=1e-5)
    assert logged["std"] == pytest.approx(std_of(z, log_std).mean(), rel=1e-4)
