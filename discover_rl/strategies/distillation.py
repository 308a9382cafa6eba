"""Random network distillation: an input is new if one network predicts another badly there.

    f   a random network that stays as it is
    f̂   a network that learns to be like it, on the inputs it is given
    x   = clip((input − mean) / deviation, −5, 5), by running statistics of the inputs
    b   = mean over outputs of (f̂(x) − f(x))²

f̂ is good where it has been trained often, so b is large where inputs have been rare.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.core import networks
from discover_rl.core.equations import descend
from discover_rl.core.normalization import Moments, deviation, no_moments, observe_batch
from discover_rl.core.types import Array, Key, Net, Optimiser

LIMIT = 5.0
"""Standardised inputs are clipped to ± this before f and f̂ see them."""


class Distillation(NamedTuple):
    """The two networks, and what training the second one needs."""

    target: Net  # f, which stays as it is
    predictor: Net  # f̂
    optimiser: Any  # of f̂
    inputs: Moments  # of the inputs, (size,)


def init(
    key: Key, size: int, hidden: tuple[int, ...], outputs: int, optimiser: Optimiser
) -> Distillation:
    """Make f and f̂.

    Args:
        key: of the random numbers.
        size: of an input.
        hidden: widths of the hidden layers.
        outputs: of both networks.
        optimiser: what f̂ is going to be trained by.
    """
    target, predictor = (
        networks.orthogonal(own, size, hidden, outputs) for own in random.split(key)
    )
    return Distillation(target, predictor, optimiser.init(predictor), no_moments(size))


def errors(state: Distillation, inputs: Array, predictor: Net | None = None) -> Array:
    """Return b of each input, (n, size) → (n,).

    `predictor`, if it is given, is used in place of f̂. Before the first update there are no
    statistics, so inputs are clipped and not standardised.
    """
    unit = jnp.where(state.inputs.samples > 0, deviation(state.inputs), 1.0)
    x = networks.standardise(inputs, state.inputs.mean, unit, LIMIT)
    predicted = networks.apply(state.predictor if predictor is None else predictor, x)
    return ((predicted - networks.apply(state.target, x)) ** 2).mean(axis=-1)


def fit(state: Distillation, inputs: Array, optimiser: Optimiser) -> tuple[Distillation, Array]:
    """Train f̂ by one step on these inputs, and add the inputs to the statistics.

    Returns:
        The new state, and b of each input before the step, (n,).
    """

    def loss(predictor: Net) -> tuple[Array, Array]:
        each = errors(state, inputs, predictor)
        return each.mean(), each

    (_, each), gradients = jax.value_and_grad(loss, has_aux=True)(state.predictor)
    predictor, moments = descend(optimiser, gradients, state.optimiser, state.predictor)
    state = state._replace(
        predictor=predictor, optimiser=moments, inputs=observe_batch(state.inputs, inputs)
    )
    return state, each
