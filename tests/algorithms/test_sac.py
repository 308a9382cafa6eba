"""SAC: its density by integration and by differences, its temperature, and updates in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.algorithms import sac
from discover_rl.core import networks
from discover_rl.core.equations import squash
from discover_rl.core.types import Nudge, Update
from discover_rl.strategies import discover, gaussian, none
from discover_rl.strategies.interface import Strategy
from tests.helpers import cells
from tests.helpers.reference import (
    Adam,
    backward,
    forward,
    layers,
    q,
    q_slopes,
    squashed,
    tanh_slopes,
)

RATES = {"gamma": 0.9, "tau": 0.1, "actor_lr": 1e-2, "critic_lr": 2e-2, "temperature_lr": 3e-2}


def learner(strategy: Strategy | None = None, hyper=None, seed: int = 0, **settings):
    hp = sac.Hyper(**{**cells.SMALL, **settings})
    algorithm = sac.make(cells.SPEC, hp, strategy or Strategy())
    return algorithm, jax.jit(algorithm.init)(random.key(seed), hp, hyper or none.Hyper())


def log_density(raw, mean, deviation):
    """log π at the action tanh(raw), one dimension."""
    raw = jnp.atleast_1d(jnp.asarray(raw, jnp.float32))[:, None]
    column = jnp.ones_like(raw)
    noise = (raw - mean) / deviation
    return np.asarray(squash(mean * column, deviation * column, noise)[1], np.float64)


@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.0, 1.0), (1.5, 0.3), (-0.7, 2.0), (0.2, 0.02), (4.0, 1.0)]
)
def test_the_density_integrates_to_one(mean, deviation):
    """∫ π(a) da over the box, on a grid in u where the density has all of its mass."""
    raw = np.linspace(mean - 9 * deviation, mean + 9 * deviation, 40_001)
    stretch = 4.0 / (np.exp(raw) + np.exp(-raw)) ** 2  # da/du = 1 − tanh² u, without cancellation
    density = np.exp(log_density(raw, mean, deviation)) * stretch
    assert np.trapezoid(density, raw) == pytest.approx(1.0, abs=1e-4)


def test_the_density_is_the_slope_of_the_distribution_function():
    """π(a) = d/da P(A ≤ a), the right-hand side by central differences in double precision."""
    from scipy.stats import norm

    mean, deviation, h = 0.4, 0.8, 1e-5
    actions = np.linspace(-0.99, 0.99, 41)
    above, below = (norm.cdf((np.arctanh(actions + d) - mean) / deviation) for d in (h, -h))
    expected = np.log((above - below) / (2 * h))
    np.testing.assert_allclose(
        log_density(np.arctanh(actions), mean, deviation), expected, rtol=1e-4, atol=1e-4
    )


def test_it_stays_exact_where_tanh_has_rounded_to_one():
    raw = np.asarray([-40.0, -12.0, 12.0, 40.0])
    assert (np.abs(np.tanh(raw.astype(np.float32))) == 1.0).all()
    # log(1 − tanh² u) = log 4 − 2|u| − 2 log(1 + e^(−2|u|))
    stretch = np.log(4.0) - 2 * np.abs(raw) - 2 * np.log1p(np.exp(-2 * np.abs(raw)))
    normal = -0.5 * (raw / 5.0) ** 2 - np.log(5.0) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(log_density(raw, 0.0, 5.0), normal - stretch, rtol=1e-6)


def test_its_gradient_equals_finite_differences():
    noise = np.asarray([[0.3, -1.2], [2.0, 0.1]])

    def by_hand(mean, log_std):
        return squashed(mean, log_std, noise)[1].sum()

    def ours(mean, log_std):
        return squash(mean, jnp.exp(log_std), jnp.asarray(noise, jnp.float32))[1].sum()

    point = np.asarray([[0.2, -0.5], [1.0, 0.4]]), np.asarray([[-0.3, 0.2], [0.1, -1.0]])
    gradients = jax.grad(ours, (0, 1))(*(jnp.asarray(p, jnp.float32) for p in point))
    for which in range(2):
        for at in np.ndindex(2, 2):
            sides = []
            for h in (1e-6, -1e-6):
                moved = [p.copy() for p in point]
                moved[which][at] += h
                sides.append(by_hand(*moved))
            slope = (sides[0] - sides[1]) / 2e-6
            assert float(gradients[which][at]) == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_samples_have_the_density_they_are_given():
    """Mean log-probability of samples is minus the entropy, which integration knows too."""
    mean, deviation = 0.5, 0.7
    noise = random.normal(random.key(0), (200_000, 1))
    _, log_prob = squash(jnp.full_like(noise, mean), jnp.full_like(noise, deviation), noise)
    raw = np.linspace(mean - 9 * deviation, mean + 9 * deviation, 40_001)
    weight = np.exp(-0.5 * ((raw - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
    expected = np.trapezoid(weight * log_density(raw, mean, deviation), raw)
    assert float(log_prob.mean()) == pytest.approx(expected, abs=0.01)


def test_the_standard_deviation_is_cut_and_widened():
    net = networks.init(random.key(0), 3, (4,), 4)
    zero = jax.tree.map(lambda leaf: 0 * leaf, net)
    for outputs, expected in (([-50, 50], np.exp([-20, 2])), ([0, 1], np.exp([0, 1]))):
        head = {**zero["head"], "bias": jnp.asarray([0.1, 0.2, *outputs], jnp.float32)}
        mean, deviation = sac.distribution(Nudge({**zero, "head": head}), jnp.ones((1, 3)))
        np.testing.assert_allclose(mean, [[0.1, 0.2]])
        np.testing.assert_allclose(deviation, [expected], rtol=1e-6)
        wide = Nudge({**zero, "head": head}, spread=0.5)
        _, widened = sac.distribution(wide, jnp.ones((1, 3)))
        np.testing.assert_allclose(widened, [np.hypot(expected, 0.5)], rtol=1e-6)


def test_temperature_rises_where_entropy_is_short_and_falls_where_it_is_not():
    assert sac.temperature_gradient(jnp.asarray([3.0, 1.0]), -1.0) == -1.0  # log π 2: entropy −2
    assert sac.temperature_gradient(jnp.asarray([0.0, -2.0]), -1.0) == 2.0  # log π −1: entropy 1
    for bias, risen in ((-4.0, True), (1.0, False)):  # a narrow policy; a wide one
        algorithm, state = learner(temperature=0.2, target_entropy=-1.0)
        head = {**state.actor["net"]["head"]}
        head = {"weight": 0 * head["weight"], "bias": jnp.asarray([0.0, 0.0, bias, bias])}
        state = state._replace(actor={"net": {**state.actor["net"], "head": head}, "joint": {}})
        after, _ = cells.learner(algorithm)(state, cells.batch(), random.key(0), True)
        assert (float(sac.temperature(after)) > 0.2) is risen


@pytest.mark.slow
def test_a_fixed_temperature_stays():
    algorithm, state = learner(temperature=0.3, learn_temperature=False)
    after, _ = cells.learner(algorithm)(state, cells.batch(), random.key(0), True)
    assert float(sac.temperature(after)) == pytest.approx(0.3)
    report = algorithm.report(after, jax.tree.map(jnp.asarray, cells.batch()), random.key(0))
    assert float(report["temperature"]) == pytest.approx(0.3)


@pytest.mark.parametrize("lam", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
def test_updates_equal_numpy(lam):
    """Ordinary SAC, and with DISCOVER: shift on a′, entropy of the bare sample."""
    hyper = discover.Hyper(lam=lam)
    settings = {**RATES, "reward_scale": 5.0, "temperature": 0.4, "target_entropy": -0.5}
    hp = sac.Hyper(**{**cells.SMALL, **settings})
    strategy = discover.make(cells.SPEC, hyper, sac.blueprint(cells.SPEC, hp))
    algorithm, state = learner(strategy, hyper, **settings)
    learn = cells.learner(algorithm)
    size = cells.SPEC.action_size

    def parts(net, obs):
        outputs, inputs = forward(net, obs)
        return outputs[:, :size], outputs[:, size:], inputs

    def pair(nets):
        return [layers(jax.tree.map(lambda leaf, i=i: leaf[i], nets)) for i in range(2)]

    actor, critics = layers(state.actor["net"]), pair(state.critics)
    explorer = layers(state.strategy.explorer)
    old_critics, old_explorer = list(critics), explorer
    log_alpha, adam_alpha = [(np.log(0.4),)], Adam(RATES["temperature_lr"])
    adams = [Adam(RATES["critic_lr"]), Adam(RATES["critic_lr"])]
    adam_actor, adam_explorer = Adam(RATES["actor_lr"]), Adam(RATES["actor_lr"])
    for i in range(4):
        batch, key = cells.batch(seed=i), random.key(i)
        n, alpha = len(batch.obs), np.exp(log_alpha[0][0])
        target_key, actor_key, _ = random.split(key, 3)
        noises = [
            np.asarray(random.normal(random.split(k)[1], batch.bare.shape), np.float64)
            for k in (target_key, actor_key)
        ]

        mean, log_std, _ = parts(actor, batch.next_obs)
        raw, log_prob = squashed(mean, log_std, noises[0])
        shift = lam * np.tanh(forward(old_explorer, batch.next_obs)[0])
        action = np.clip(np.tanh(raw) + shift, -1, 1)
        value = np.minimum(*(q(critic, batch.next_obs, action) for critic in old_critics))
        value = np.where(batch.terminated, 0.0, value - alpha * log_prob)
        y = 5.0 * batch.reward + RATES["gamma"] * value

        expected = {"critic": 0.0}
        for j in range(2):
            error = q(critics[j], batch.obs, batch.executed) - y
            expected["critic"] += (error**2).mean()
            slopes, _ = q_slopes(critics[j], batch.obs, batch.executed, 2 * error / n)
            critics[j] = adams[j].step(critics[j], slopes)

        mean, log_std, inputs = parts(actor, batch.obs)
        raw, log_prob = squashed(mean, log_std, noises[1])
        action = np.tanh(raw)
        values = np.asarray([q(critic, batch.obs, action) for critic in critics])
        expected["actor"] = (alpha * log_prob - values.min(0)).mean()
        slope_a = 0.0
        for j in range(2):
            least = np.where(values.argmin(0) == j, -1 / n, 0.0)
            slope_a = slope_a + q_slopes(critics[j], batch.obs, action, least)[1]
        # dlog π/du = 2 tanh u, from −log(1 − tanh² u); dlog π/dlog σ has −1 besides.
        slope_u = alpha * 2 * action / n + slope_a * (1 - action**2)
        slope_log_std = slope_u * np.exp(log_std) * noises[1] - alpha / n
        slopes, _ = backward(actor, inputs, np.hstack([slope_u, slope_log_std]))
        actor = adam_actor.step(actor, slopes)
        short = -(log_prob.mean() + -0.5 * size)
        log_alpha = [tuple(adam_alpha.step([(log_alpha[0][0], 0.0)], [(short, 0.0)])[0])]

        directed = batch.bare + lam * np.tanh(forward(explorer, batch.obs)[0])
        slope = 0.0
        expected["strategy"] = 0.0
        for critic in critics:
            error = y - q(critic, batch.obs, directed)
            expected["strategy"] -= (error**2).mean()
            slope = slope + q_slopes(critic, batch.obs, directed, 2 * error / n)[1]
        slopes = tanh_slopes(explorer, batch.obs, lam * slope)
        explorer = adam_explorer.step(explorer, slopes)
        old_critics = [follow(*both) for both in zip(critics, old_critics, strict=True)]
        old_explorer = follow(explorer, old_explorer)

        state, losses = learn(state, batch, key, True)
        for name, loss in expected.items():
            assert float(getattr(losses, name)) == pytest.approx(loss, rel=2e-4, abs=1e-6)
    assert float(state.extra.log) == pytest.approx(log_alpha[0][0], rel=1e-4)
    got = [layers(state.actor["net"]), pair(state.critics), pair(state.target_critics)]
    got += [layers(state.strategy.explorer), layers(state.strategy.target)]
    cells.assert_close(got, [actor, critics, old_critics, explorer, old_explorer], 5e-4)


def follow(online, target, tau=RATES["tau"]):
    return [
        tuple(tau * a + (1 - tau) * b for a, b in zip(*both, strict=True))
        for both in zip(online, target, strict=True)
    ]


@pytest.mark.slow
def test_hard_targets_follow_every_so_many_updates():
    settings = {"tau": 1.0, "target_period": 3, "updates": 2, "warmup": 0}
    algorithm, state = learner(**settings)
    due = [update for step in (1, 2, 3) for update in algorithm.due(step)]
    assert [update.targets for update in due] == [False, False, True, False, False, True]
    assert all(update.actor for update in due)
    learn = jax.jit(algorithm.learn, static_argnums=3)
    before = state.target_critics
    for i, update in enumerate(due[:3]):
        cells.assert_same(state.target_critics, before)
        state, _ = learn(state, cells.batch(seed=i), random.key(i), update, 0.0)
    cells.assert_same(state.target_critics, state.critics)


def test_updates_come_in_rounds():
    algorithm, _ = learner(warmup=10, train_every=4, updates=5)
    counts = [len(algorithm.due(step)) for step in range(20)]
    assert counts == [5 if step in (14, 18) else 0 for step in range(20)]
    assert algorithm.due(14) == (Update(),) * 5


def draws(algorithm, state, step, count=20_000):
    act = jax.jit(
        jax.vmap(lambda key: algorithm.act(state, (), jnp.ones(3), algorithm.draw(key), step)[2])
    )
    return jax.device_get(act(random.split(random.key(1), count)))


def test_by_itself_it_does_a_sample_or_the_mean():
    algorithm, state = learner()
    mean, deviation = (
        np.asarray(p[0]) for p in sac.distribution(Nudge(state.actor["net"]), jnp.ones((1, 3)))
    )
    raw = np.arctanh(draws(algorithm, state, 100).bare)
    np.testing.assert_allclose(raw.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(raw.std(0), deviation, rtol=0.03)
    algorithm, state = learner(behaviour="mean")
    still = draws(algorithm, state, 100, 50)
    np.testing.assert_allclose(still.executed, np.tanh(mean)[None].repeat(50, 0), rtol=1e-5)


def test_gaussian_noise_comes_on_top_of_the_sample():
    hyper = gaussian.Hyper(sigma=0.1)
    algorithm, state = learner(gaussian.make(cells.SPEC, hyper, None), hyper)
    # A narrow policy, away from the bounds, so that nothing is clipped.
    head = {"weight": 0 * state.actor["net"]["head"]["weight"]}
    head["bias"] = jnp.asarray([0.1, -0.1, -2.0, -2.0])
    state = state._replace(actor={"net": {**state.actor["net"], "head": head}, "joint": {}})
    action = draws(algorithm, state, 100)
    np.testing.assert_allclose((action.executed - action.bare).std(0), 0.1, rtol=0.03)
    np.testing.assert_allclose(action.executed.var(0), action.bare.var(0) + 0.01, rtol=0.05)


def test_evaluation_is_the_mean():
    algorithm, state = learner()
    net = jax.device_get(algorithm.greedy(state).net)
    obs = np.ones((1, 3), np.float32)
    mean, _ = sac.distribution(Nudge(state.actor["net"]), jnp.asarray(obs))
    action = networks.mean_action(algorithm.head, net, obs)
    assert action.shape == (1, cells.SPEC.action_size)
    np.testing.assert_allclose(action, np.tanh(mean), rtol=1e-5)


def test_learning_rates_fade_over_the_run():
    """With decay 1, an update half-way through is one at half the learning rates."""
    settings = {"actor_lr": 1e-2, "critic_lr": 2e-2, "temperature_lr": 3e-2}
    algorithm, state = learner(lr_decay=1.0, **settings)
    halves = {name: rate / 2 for name, rate in settings.items()}
    other, same = learner(**halves)
    batch, key = cells.batch(), random.key(0)
    fading, _ = jax.jit(algorithm.learn, static_argnums=3)(state, batch, key, Update(), 0.5)
    halved, _ = jax.jit(other.learn, static_argnums=3)(same, batch, key, Update(), 0.5)
    for name in ("actor", "critics", "extra"):
        cells.assert_close(getattr(fading, name), getattr(halved, name), 1e-6)
    stopped, _ = jax.jit(algorithm.learn, static_argnums=3)(state, batch, key, Update(), 1.0)
    cells.assert_same(stopped.actor, state.actor)
