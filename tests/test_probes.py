"""Known values: every probe is a lane of one cohort, and Q is asserted, not just reward."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl import networks
from discover_rl.agent import Agent
from discover_rl.algorithms import ddpg
from discover_rl.envs import Lanes
from discover_rl.equations import deviation
from discover_rl.types import Seen
from tests import cells
from tests.probes import KINDS

GAMMA = 0.5
STEPS = 1500


each_cell = pytest.mark.parametrize(
    "cell",
    [
        pytest.param(("td3", "none"), marks=pytest.mark.slow),
        ("td3", "discover"),
        pytest.param(("ddpg", "gaussian"), marks=pytest.mark.slow),
        pytest.param(("sac", "none"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
# What would move the values away from what they are: a penalty on weights, a bonus for entropy.
PURE = {"ddpg": {"weight_decay": 0.0}, "sac": {"temperature": 1e-3, "learn_temperature": False}}


@functools.cache
def trained(cell: tuple[str, str]):
    algorithm, strategy = cell
    settings = {"gamma": GAMMA, "tau": 0.05, "actor_lr": 3e-3, "critic_lr": 3e-3}
    settings |= {"hidden": (32,), "batch_size": 64, "warmup": 300, "replay_size": 2000}
    hyper, theirs = cells.hypers(algorithm, strategy, **settings, **PURE.get(algorithm, {}))
    lanes = [Lanes(f"Probe-{kind}-v0", [7]) for kind in KINDS]
    agent = Agent(lanes[0].spec, algorithm, hyper, strategy, theirs, STEPS)
    for lane in lanes:
        lane.begin(0)
    obs = np.concatenate([lane.obs for lane in lanes])
    state = cells.begin(agent, [7] * len(KINDS), hyper, theirs, obs)
    executed = np.asarray(state.action.executed)
    for step in range(1, STEPS + 1):
        parts = [lane.step(executed[i : i + 1], np.ones(1, bool)) for i, lane in enumerate(lanes)]
        seen = Seen(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        state, reply = cells.tick(agent, state, seen, step)
        executed = np.asarray(reply.executed)
    return jax.device_get(state.learner), agent.nets(state)


def q(cell: tuple[str, str], kind: str, obs: float, action: float) -> np.ndarray:
    lane = jax.tree.map(lambda leaf: leaf[KINDS.index(kind)], trained(cell)[0])
    value, seen = networks.q_value, jnp.full((1, 1), obs)
    if cell[0] == "ddpg":
        value = ddpg.q_value
        seen = networks.standardise(seen, lane.moments.mean, deviation(lane.moments))
    return np.asarray(value(lane.critics, seen, jnp.full((1, 1), action)))


def policy(cell: tuple[str, str], kind: str, obs: float) -> float:
    net = jax.tree.map(lambda leaf: leaf[KINDS.index(kind)], trained(cell)[1])
    return float(np.tanh(networks.apply(net, np.full((1, 1), obs, np.float32))[0, 0]))


@each_cell
@pytest.mark.parametrize(
    ("kind", "obs", "value"),
    [
        ("constant", 0.0, 1.0),
        ("observation", 1.0, 1.0),
        ("observation", -1.0, -1.0),
        ("delay", 1.0, 1.0),
        ("delay", 0.0, GAMMA),
        ("truncation", 0.0, 1 / (1 - GAMMA)),
    ],
)
def test_value(cell, kind, obs, value):
    """Whatever is done there, so for a typical action."""
    np.testing.assert_allclose(q(cell, kind, obs, 0.2), value, atol=0.1)


@each_cell
def test_the_best_action_is_found_and_its_value_known(cell):
    assert policy(cell, "action", 0.0) == pytest.approx(0.5, abs=0.15)
    np.testing.assert_allclose(q(cell, "action", 0.0, 0.5), 0.0, atol=0.1)
    np.testing.assert_allclose(q(cell, "action", 0.0, -0.5), -1.0, atol=0.2)
