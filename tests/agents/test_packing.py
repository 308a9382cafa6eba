"""Learners packed as on a GPU: nothing is lost, and a run comes out the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl.agents.off_policy import packing
from tests.helpers import cells

SEEDS = [5, 1]


@pytest.fixture
def few_are_large(monkeypatch):
    """Small agents have large arrays, too."""
    monkeypatch.setattr(packing, "LARGE", 100)


def test_packing_loses_nothing(few_are_large):
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
    assert packing.packed_like(tree, tree) is tree


def advanced(agent, hypers, chunk: int = 25, steps: int = 25):
    state = cells.begin(agent, SEEDS, *hypers)
    first = np.array(state.learner.critics["layer0"]["weight"])
    vector, step, alive = cells.Answers(SEEDS), 0, np.ones(2, bool)
    while step < steps:
        state, step, bad = agent.advance(state, vector, alive, step, min(steps, step + chunk))
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
def test_packed_the_run_is_the_same(few_are_large, algorithm, strategy):
    """Up to rounding; and to the bit, wherever `advance` returns on the way."""
    agent, packing_agent = (cells.build(algorithm, strategy) for _ in range(2))
    packing_agent.on_gpu = True
    hypers = cells.hypers(algorithm, strategy)
    packed = advanced(packing_agent, hypers)
    cells.assert_same(packed, advanced(packing_agent, hypers, chunk=7))
    cells.assert_close(advanced(agent, hypers), packed, 1e-4)
