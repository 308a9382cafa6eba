"""Learners packed for a GPU, and the order in which programs are started: nothing depends on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl import agent as agents
from discover_rl import networks, packing
from tests import cells

SEEDS = [5, 1]


@pytest.fixture
def small_is_less(monkeypatch):
    """So that small agents have large arrays, too."""
    monkeypatch.setattr(packing, "LARGE", 100)


def test_packing_loses_nothing(small_is_less):
    tree = {
        "weight": jnp.arange(2 * 150.0).reshape(2, 10, 15),
        "count": jnp.asarray([3, -(2**31)], jnp.int32),
        "seed": jnp.asarray([7, 2**32 - 1], jnp.uint32),
        "odd": jnp.asarray([[jnp.nan, -0.0], [jnp.inf, 1e-40]]),
        "on": jnp.asarray([True, False]),
        "none": (),
    }
    packed = jax.jit(packing.pack)(tree)
    assert [leaf.shape for leaf in jax.tree.leaves(packed)] == [(2, 10, 15), (2, 5)]
    again = jax.jit(packing.unpack)(packed)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(tree), strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_what_is_not_packed_stays_as_it_is():
    tree = {"a": 1}
    assert packing.unpack(tree) is tree
    assert packing.as_before(tree, tree) is tree


def advanced(agent, hypers, steps: int = 25):
    state = cells.begin(agent, SEEDS, *hypers)
    first = np.array(state.learner.critics["layer0"]["weight"])
    lanes, step, alive = cells.Answers(SEEDS), 0, np.ones(2, bool)
    while step < steps:
        state, step, bad = agent.advance(state, lanes, alive, step, steps)
        assert not bad
    assert (first != state.learner.critics["layer0"]["weight"]).any()
    return jax.device_get(state)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy"),
    [
        ("td3", "discover"),
        ("ddpg", "meta"),
        ("ddpg", "psne"),
        ("td3", "noisynet"),
        ("sac", "coherent"),
    ],
)
def test_packed_early_or_late_the_run_is_the_same(small_is_less, monkeypatch, algorithm, strategy):
    agent, packing_agent = (cells.build(algorithm, strategy) for _ in range(2))
    packing_agent.packs = True
    hypers = cells.hypers(algorithm, strategy)
    plain = advanced(agent, hypers)
    late = advanced(packing_agent, hypers)
    monkeypatch.setattr(agents, "MANY", 0)
    early = advanced(packing_agent, hypers)
    cells.assert_same(late, early)
    cells.assert_close(plain, late, 1e-4)


def test_a_transition_is_learned_from_when_the_next_is_being_made():
    agent = cells.build("td3", "none", warmup=1, batch_size=4)
    state = cells.begin(agent, SEEDS, *cells.hypers("td3", "none", warmup=1, batch_size=4))
    state, _ = cells.tick(agent, state, cells.seen(SEEDS, 1), 1)
    learners = []
    for other in (0.0, 1.0):
        now = jax.tree.map(jnp.array, state)
        seen = cells.seen(SEEDS, 2)
        now, _ = cells.tick(agent, now, seen._replace(reward=seen.reward + other), 2)
        learners.append(jax.device_get(now.learner))
        now, _ = cells.tick(agent, now, cells.seen(SEEDS, 3), 3)
        learners.append(jax.device_get(now.learner))
    second, third, second_other, third_other = learners
    assert second.critic_optimiser[0].count.tolist() == [1, 1]
    cells.assert_same(second, second_other)
    different = third.critics["layer0"]["weight"] != third_other.critics["layer0"]["weight"]
    assert different.any(axis=(1, 2, 3)).all()


def test_every_action_is_the_newest_parameters():
    agent = cells.build("td3", "none", warmup=1)
    state = cells.begin(agent, SEEDS, *cells.hypers("td3", "none", warmup=1))
    for step in range(1, 6):
        seen = cells.seen(SEEDS, step)
        state, reply = cells.tick(agent, state, seen, step)
        expected = networks.mean_action(agent.algorithm.form, agent.nets(state), seen.obs[:, None])
        np.testing.assert_allclose(reply.executed, expected[:, 0], rtol=1e-5, atol=1e-6)
