"""Known values: every probe is a lane of one cohort, and Q or V is asserted, not just reward."""

import functools

import numpy as np
import pytest

from discover_rl.core import networks
from discover_rl.core.normalization import deviation
from tests.helpers import probes
from tests.helpers.probes import VALUES, of_kind, q_of, v_of

SLOW = pytest.mark.slow
train = functools.cache(probes.train)

# Off-policy: Q.

each_cell = pytest.mark.parametrize(
    "cell",
    [
        pytest.param(("td3", "none"), marks=SLOW),
        ("td3", "discover"),
        pytest.param(("ddpg", "gaussian"), marks=SLOW),
        pytest.param(("sac", "none"), marks=SLOW),
    ],
    ids="-".join,
)


def q(cell: tuple[str, str], kind: str, obs: float, action: float) -> np.ndarray:
    return q_of(cell[0], of_kind(train(*cell).state.learner, kind), obs, action)


@each_cell
@pytest.mark.parametrize(("kind", "obs", "value"), VALUES)
def test_q(cell, kind, obs, value):
    """Whatever is done there, so for a typical action."""
    np.testing.assert_allclose(q(cell, kind, obs, 0.2), value, atol=0.1)


@each_cell
def test_the_best_action_is_found_and_its_value_known(cell):
    net = of_kind(train(*cell).nets, "action")
    action = np.tanh(networks.apply(net, np.zeros((1, 1), np.float32))[0, 0])
    assert float(action) == pytest.approx(0.5, abs=0.15)
    np.testing.assert_allclose(q(cell, "action", 0.0, 0.5), 0.0, atol=0.1)
    np.testing.assert_allclose(q(cell, "action", 0.0, -0.5), -1.0, atol=0.2)


# On-policy: V.

each_algorithm = pytest.mark.parametrize("algorithm", ["ppo", pytest.param("a2c", marks=SLOW)])


@each_algorithm
@pytest.mark.parametrize(("kind", "obs", "value"), VALUES)
def test_v(algorithm, kind, obs, value):
    """Observations and rewards are as the task gives them, so V is in the task's units."""
    learner = of_kind(train(algorithm).state.learner, kind)
    assert v_of(learner, obs) == pytest.approx(value, abs=0.02)


@each_algorithm
def test_v_of_the_policy_that_finds_the_best_action(algorithm):
    """V is the mean reward of the policy's actions, which are clipped to the box."""
    learner = of_kind(train(algorithm).state.learner, "action")
    net = learner.actor["net"]
    mean = float(networks.apply(net, np.zeros((1, 1), np.float32), "tanh")[0, 0])
    std = float(np.exp(net["log_std"]["value"][0]))
    assert mean == pytest.approx(0.5, abs=0.1)
    assert std < np.exp(-1.0)  # where it started
    grid = np.linspace(-6, 6, 4001)
    weight = np.exp(-0.5 * grid**2)
    reward = -((np.clip(mean + std * grid, -1, 1) - 0.5) ** 2)
    expected = (weight * reward).sum() / weight.sum()
    assert v_of(learner, 0.0) == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "obs", "value"), [case for case in VALUES if case[0] in ("observation", "delay")]
)
def test_v_where_observations_are_standardised_and_rewards_scaled(kind, obs, value):
    """Then V is in standard deviations of the discounted return."""
    state = of_kind(train("ppo", normalise=True).state, kind)
    unit = deviation(state.return_stats)
    # Returns of −1 and 1, or of 0 and 1.
    assert unit == pytest.approx({"observation": 1.0, "delay": 0.5}[kind], abs=0.05)
    there = float(((obs - state.obs_stats.mean) / deviation(state.obs_stats))[0])
    assert unit * v_of(state.learner, there) == pytest.approx(value, abs=0.05)
