import jax.numpy as jnp
import numpy as np

from discover_rl.equations import polyak, td_target


def test_td_target_by_hand():
    # r = 1, V = 10, γ = 0.9: 1 + 0.9 · 10 = 10 while the episode goes on or is cut, 1 at its end.
    reward, value = jnp.ones(2), 10 * jnp.ones(2)
    y = td_target(reward, jnp.asarray([False, True]), value, 0.9)
    np.testing.assert_allclose(y, [10.0, 1.0])


def test_polyak_by_hand():
    # 0.25 · 4 + 0.75 · 8 = 7
    followed = polyak({"a": jnp.asarray(4.0)}, {"a": jnp.asarray(8.0)}, 0.25)
    assert float(followed["a"]) == 7.0
