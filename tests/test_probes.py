"""Known values: every probe is a lane of one cohort, and Q is asserted, not just reward."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl import networks
from discover_rl.agent import Agent
from discover_rl.envs import Lanes
from discover_rl.types import Seen
from tests import cells
from tests.probes import KINDS

GAMMA = 0.5
STEPS = 1500


@functools.cache
def trained(strategy: str):
    settings = {"gamma": GAMMA, "tau": 0.05, "actor_lr": 3e-3, "critic_lr": 3e-3}
    hyper, theirs = cells.hypers(
        "td3", strategy, hidden=(32,), batch_size=64, warmup=300, replay_size=2000, **settings
    )
    lanes = [Lanes(f"Probe-{kind}-v0", [7]) for kind in KINDS]
    agent = Agent(lanes[0].spec, "td3", hyper, strategy, theirs, STEPS)
    for lane in lanes:
        lane.begin(0)
    obs = np.concatenate([lane.obs for lane in lanes])
    state = cells.begin(agent, [7] * len(KINDS), hyper, theirs, obs)
    executed = np.asarray(state.action.executed)
    for step in range(1, STEPS + 1):
        parts = [lane.step(executed[i : i + 1], np.ones(1, bool)) for i, lane in enumerate(lanes)]
        seen = Seen(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        state, reply = agent.tick(state, seen, step)
        executed = np.asarray(reply.executed)
    return jax.device_get(state.learner)


def q(strategy: str, kind: str, obs: float, action: float) -> np.ndarray:
    critics = jax.tree.map(lambda leaf: leaf[KINDS.index(kind)], trained(strategy).critics)
    return np.asarray(networks.q_value(critics, jnp.full((1, 1), obs), jnp.full((1, 1), action)))


def policy(strategy: str, kind: str, obs: float) -> float:
    net = jax.tree.map(lambda leaf: leaf[KINDS.index(kind)], trained(strategy).actor["net"])
    return float(np.tanh(networks.apply(net, np.full((1, 1), obs, np.float32))[0, 0]))


@pytest.mark.parametrize("strategy", ["none", "discover"])
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
def test_value(strategy, kind, obs, value):
    """Whatever is done there, so for a typical action."""
    np.testing.assert_allclose(q(strategy, kind, obs, 0.2), value, atol=0.1)


@pytest.mark.parametrize("strategy", ["none", "discover"])
def test_the_best_action_is_found_and_its_value_known(strategy):
    assert policy(strategy, "action", 0.0) == pytest.approx(0.5, abs=0.15)
    np.testing.assert_allclose(q(strategy, "action", 0.0, 0.5), 0.0, atol=0.1)
    np.testing.assert_allclose(q(strategy, "action", 0.0, -0.5), -1.0, atol=0.2)
