"""OAC: the upper bound, its slope, how far it moves the policy, and that learning stays."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl import config
from discover_rl.algorithms import ddpg, off_policy_parts, sac, td3
from discover_rl.core import networks
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import UserError
from discover_rl.strategies import none, oac
from discover_rl.strategies.interface import View
from tests.helpers import cells
from tests.helpers.reference import forward, layers

ALGORITHMS = {"ddpg": ddpg, "td3": td3, "sac": sac}
each_algorithm = pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
OBS = cells.batch().obs
NORMAL = np.random.default_rng(1).normal(size=(len(OBS), cells.SPEC.action_size))
NORMAL = NORMAL.astype(np.float32)


@functools.cache
def networks_of(algorithm: str) -> tuple[Any, Any]:
    """Actor and critics, on the host. The critics disagree more than those of a new run."""
    module = ALGORITHMS[algorithm]
    state = cells.paired(module, none)[2]
    critics = jax.tree.map(lambda leaf: 3.0 * leaf, state.critics)
    return jax.device_get((state.actor, critics))


def moved(algorithm: str, noise: Any = 0.0, progress: float = 0.0, **settings: Any) -> np.ndarray:
    """By how much means are shifted at `OBS`."""
    module, (actor, critics) = ALGORITHMS[algorithm], networks_of(algorithm)
    parts = sac if algorithm == "sac" else off_policy_parts
    q = ddpg.q_value if algorithm == "ddpg" else networks.q_value
    view = View(
        params=actor,
        policy=parts.policy,
        features=off_policy_parts.features,
        distribution=parts.distribution,
        q=lambda obs, action: q(critics, obs, action),
        progress=progress,
    )
    hyper, hp = oac.Hyper(**settings), module.Hyper(**cells.SMALL)
    strategy = oac.make(cells.SPEC, hyper, module.blueprint(cells.SPEC, hp))
    _, nudge = strategy.acting.behave(hyper, (), view, jnp.asarray(OBS), noise, False)
    assert nudge.net is actor["net"]
    assert nudge.mean_shift is not None
    return np.float64(nudge.mean_shift)


# Once more in NumPy, from the equations.


def gaussian(algorithm: str, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """μ and √Σ at `OBS`."""
    outputs = forward(layers(networks_of(algorithm)[0]["net"]), np.float64(OBS))[0]
    if algorithm != "sac":
        return outputs, np.full_like(outputs, sigma)
    mean, log_std = np.split(outputs, 2, axis=1)
    return mean, np.exp(np.clip(log_std, -20, 2))


def values(algorithm: str, u: np.ndarray) -> list[np.ndarray]:
    """Qᵢ(s, tanh u) at `OBS`."""
    critics, action = networks_of(algorithm)[1], np.tanh(u)
    count = len(critics["head"]["bias"])
    each = [layers(jax.tree.map(lambda leaf, i=i: leaf[i], critics)) for i in range(count)]
    if algorithm == "ddpg":
        return [forward(net, np.float64(OBS), late=action)[0][:, 0] for net in each]
    return [forward(net, np.hstack([np.float64(OBS), action]))[0][:, 0] for net in each]


def bound(algorithm: str, u: np.ndarray, beta: float) -> np.ndarray:
    """Q_UB"""
    q = values(algorithm, u)
    return (q[0] + q[-1]) / 2 + beta * np.abs(q[0] - q[-1]) / 2


def slope(algorithm: str, u: np.ndarray, beta: float) -> np.ndarray:
    """∇ᵤ Q_UB by central differences."""
    columns = []
    for step in 1e-6 * np.eye(u.shape[1]):
        up, down = (bound(algorithm, u + sign * step, beta) for sign in (1, -1))
        columns.append((up - down) / 2e-6)
    return np.stack(columns, axis=1)


@each_algorithm
@pytest.mark.parametrize("delta", [0.5, 23.53])
def test_the_divergence_is_met_with_equality(algorithm, delta):
    """KL(N(μ + m, Σ) ‖ N(μ, Σ)) = ½ mᵀ Σ⁻¹ m."""
    by = moved(algorithm, delta=delta, sigma=0.3)
    _, std = gaussian(algorithm, 0.3)
    np.testing.assert_allclose(0.5 * ((by / std) ** 2).sum(axis=1), delta, rtol=5e-3)


@each_algorithm
@pytest.mark.parametrize("beta", [0.0, 4.66, -1.0])
def test_means_move_along_the_slope_of_the_upper_bound(algorithm, beta):
    by = moved(algorithm, beta=beta, delta=2.0, sigma=0.3)
    mean, std = gaussian(algorithm, 0.3)
    g = slope(algorithm, mean, beta)
    length = np.sqrt((g**2 * std**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(by, 2.0 * std**2 * g / length, rtol=5e-3, atol=1e-3)
    # No other Gaussian as far from the policy has a larger bound, to first order.
    other = std * np.random.default_rng(0).normal(size=by.shape)
    other *= 2.0 / np.sqrt(((other / std) ** 2).sum(axis=1, keepdims=True))
    assert ((g * by).sum(axis=1) >= (g * other).sum(axis=1) - 1e-3).all()


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_the_bound_rises_and_its_weight_matters(algorithm):
    mean, _ = gaussian(algorithm, 0.3)
    here = bound(algorithm, mean, 4.66)
    up = moved(algorithm, delta=1e-4, sigma=0.3)
    down = moved(algorithm, delta=1e-4, sigma=0.3, beta=-4.66)
    assert (bound(algorithm, mean + up, 4.66) > here).all()
    assert np.abs(up - down).max(axis=1).min() > 1e-4  # the critics disagree


def test_a_single_critic_is_its_own_bound():
    """With DDPG, whatever β is."""
    np.testing.assert_array_equal(moved("ddpg", beta=0.0), moved("ddpg", beta=50.0))


def test_where_the_bound_is_flat_nothing_moves():
    """As it is where a policy is saturated."""
    actor, critics = networks_of("td3")
    flat = jax.tree.map(np.zeros_like, critics)
    view = View(
        params=actor,
        policy=off_policy_parts.policy,
        features=off_policy_parts.features,
        distribution=off_policy_parts.distribution,
        q=lambda obs, action: networks.q_value(flat, obs, action),
    )
    hyper = oac.Hyper()
    strategy = oac.make(cells.SPEC, hyper, td3.blueprint(cells.SPEC, td3.Hyper()))
    _, nudge = strategy.acting.behave(hyper, (), view, OBS, 0.0, False)
    np.testing.assert_array_equal(nudge.mean_shift, 0.0)


@each_algorithm
def test_deltas_schedule_is_followed(algorithm):
    schedule = Amplitude(2.0, 0.5, 0.5)
    for progress, delta in ((0.0, 2.0), (0.25, 1.25), (0.75, 0.5)):
        expected = moved(algorithm, delta=delta)
        np.testing.assert_allclose(
            moved(algorithm, delta=schedule, progress=progress), expected, rtol=1e-5
        )


@pytest.mark.parametrize("algorithm", ["ddpg", "td3"])
def test_deterministic_policies_have_white_noise_before_squashing(algorithm):
    still = moved(algorithm, sigma=0.3)
    np.testing.assert_allclose(moved(algorithm, NORMAL, sigma=0.3) - still, 0.3 * NORMAL, atol=1e-5)
    alone = moved(algorithm, NORMAL, sigma=Amplitude(0.4, 0.0, 1.0), delta=0.0, progress=0.5)
    np.testing.assert_allclose(alone, 0.2 * NORMAL, atol=1e-6)


# What is executed, and what is learned.


@functools.cache
def compiled(algorithm: str, strategy: Any, **settings: Any) -> tuple[Any, Any]:
    """(key, step) → the action that is chosen in one state; and that state's networks."""
    _, learning, state = cells.paired(ALGORITHMS[algorithm], strategy, **settings)

    def act(key, step):
        noise = learning.draw(key)
        return learning.act(state, learning.begin(state, key), jnp.asarray(OBS[0]), noise, step)[2]

    return jax.jit(act), jax.device_get(state)


@each_algorithm
def test_without_divergence_and_noise_it_is_the_algorithm_by_itself(algorithm):
    (act, _), (plain, _) = (
        compiled(algorithm, oac, beta=0.0, delta=0.0, sigma=0.0),
        compiled(algorithm, none),
    )
    for step in (0, 100):  # in warm-up and after it
        cells.assert_close(act(random.key(step), step), plain(random.key(step), step), 1e-6)


@each_algorithm
def test_warm_up_is_uniform(algorithm):
    act, plain = compiled(algorithm, oac)[0], compiled(algorithm, none)[0]
    cells.assert_same(act(random.key(3), 0), plain(random.key(3), 0))
    apart = act(random.key(3), 100).executed - plain(random.key(3), 100).executed
    assert np.abs(apart).max() > 1e-3


def test_sacs_own_noise_is_that_of_the_moved_policy():
    """a = tanh(μ_E + √Σ ε), ε the numbers SAC would have used."""
    act, state = compiled("sac", oac, delta=0.5)
    _, learning, _ = cells.paired(sac, oac, delta=0.5)
    for seed in range(5):
        epsilon = np.float64(learning.draw(random.key(seed)).policy)
        found = act(random.key(seed), 100)
        outputs = forward(layers(state.actor["net"]), np.float64(OBS[:1]))[0]
        mean, std = outputs[:, :2], np.exp(outputs[:, 2:])
        raw = np.arctanh(np.float64(found.executed)) - std * epsilon - mean
        assert 0.5 * ((raw / std) ** 2).sum() == pytest.approx(0.5, rel=2e-2)
        np.testing.assert_array_equal(found.bare, found.executed)


def test_what_is_reported():
    """How far actions move, and half the distance of the critics."""
    _, learning, state = cells.paired(td3, oac, delta=1.0, sigma=0.3)
    actor, critics = networks_of("td3")
    state = state._replace(actor=actor, critics=critics)
    told = jax.jit(learning.report)(state, cells.batch(), random.key(0))
    mean, _ = gaussian("td3", 0.3)
    by = moved("td3", delta=1.0, sigma=0.3)
    expected = np.abs(np.tanh(mean + by) - np.tanh(mean)).mean()
    assert told["shift"] == pytest.approx(expected, rel=1e-4)
    q = values("td3", mean)
    assert told["disagreement"] == pytest.approx((np.abs(q[0] - q[1]) / 2).mean(), rel=1e-4)


def test_algorithms_without_a_critic_of_actions_do_not_have_it():
    with pytest.raises(UserError, match="oac"):
        config.resolve(config.Request("Pendulum-v1", "ppo", "oac", 100, 1, {}))


@pytest.mark.parametrize("task", ["Humanoid-v5", "Pendulum-v1"])
def test_the_authors_numbers_are_a_preset(task):
    stated = config.preset("sac", task, "oac")
    assert {name: value for name, value in stated.items() if "." in name} == {
        "strategy.beta": 4.66,
        "strategy.delta": 23.53,
    }
