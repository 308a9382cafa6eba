"""Gradients held against finite differences."""

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree


def slopes_agree(loss, at, gradient):
    """The gradient, leaf by leaf, against finite differences in a random direction."""
    leaves, tree = jax.tree.flatten(at)
    for i, (leaf, slope) in enumerate(zip(leaves, jax.tree.leaves(gradient), strict=True)):
        direction = np.random.default_rng(i).normal(size=leaf.shape)
        ends = []
        for step in (-1e-6, 1e-6):
            moved = [*leaves[:i], leaf + step * direction, *leaves[i + 1 :]]
            ends.append(loss(tree.unflatten(moved)))
        expected = (ends[1] - ends[0]) / 2e-6
        assert np.sum(slope * direction) == pytest.approx(expected, rel=2e-3, abs=2e-5)


def first_gradient(optimiser):
    """Adam's first moment after one step is a tenth of the gradient."""
    return jax.tree.map(lambda leaf: leaf / 0.1, optimiser[0].mu)


def actor_gradient(before, after, adam: bool):
    """The gradient that an on-policy optimiser was given for the actor in its first update.

    It follows from the optimiser's moments, which start at 0.

    Args:
        before: the algorithm's state before the update.
        after: the state after it.
        adam: whether the optimiser is PPO's Adam; else it is A2C's RMSProp.
    """
    params, unravel = ravel_pytree({"actor": before.actor, "critic": before.critic})
    moments = after.optimiser[1][0]
    if adam:
        return unravel(moments.mu / 0.1)["actor"]
    moved = ravel_pytree({"actor": after.actor, "critic": after.critic})[0] - params
    return unravel(-np.sign(moved) * np.sqrt(moments.nu / 0.01))["actor"]
