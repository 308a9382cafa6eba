"""Equations by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl.core.equations import correlation, polyak, td_target


def test_td_target_by_hand():
    # r = 1, V = 10, γ = 0.9: 1 + 0.9 · 10 = 10 while the episode goes on or is cut, 1 at its end.
    reward, value = jnp.ones(2), 10 * jnp.ones(2)
    y = td_target(reward, jnp.asarray([False, True]), value, 0.9)
    np.testing.assert_allclose(y, [10.0, 1.0])


def test_polyak_by_hand():
    # 0.25 · 4 + 0.75 · 8 = 7
    followed = polyak({"a": jnp.asarray(4.0)}, {"a": jnp.asarray(8.0)}, 0.25)
    assert float(followed["a"]) == 7.0


def test_correlation_is_numpys():
    x, y = np.random.default_rng(0).normal(size=(2, 50)).astype(np.float32)
    y += x
    expected = np.corrcoef(x, y)[0, 1]
    assert correlation(jnp.asarray(x), jnp.asarray(y)) == pytest.approx(expected, rel=1e-5)
    assert correlation(jnp.zeros(5), jnp.arange(5.0)) == 0
