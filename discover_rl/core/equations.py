"""The equations that algorithms and strategies share."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax

from discover_rl.core import networks
from discover_rl.core.types import Array, Optimiser


def td_target(reward: Array, terminated: Array, next_value: Array, gamma: Any) -> Array:
    """y = r + γ (1 − d) V(s′), where d is termination only: after a truncation V(s′) counts.

    All are (n,) but for the number `gamma`, γ, and so is the result. `terminated` is d, and
    `next_value` V(s′).
    """
    return reward + gamma * (1.0 - terminated) * next_value


def polyak(online: Any, target: Any, tau: Any) -> Any:
    """Return τ θ + (1 − τ) θ′, the new target: `online` is θ and `target` θ′, pytrees of the same
    structure, and `tau` the number τ."""
    return jax.tree.map(lambda new, old: tau * new + (1.0 - tau) * old, online, target)


def squash(mean: Array, std: Array, noise: Array) -> tuple[Array, Array]:
    """Sample a tanh-squashed Gaussian.

    a = tanh(u), u = mean + std · noise, for noise ~ N(0, I), and
    log π(a) = Σ [log N(u; mean, std) − log(1 − tanh² u)]. The last term is written as
    2 (log 2 − u − softplus(−2u)), which is exact where 1 − tanh² u has long been rounded to 0.

    Args:
        mean: (n, action).
        std: (n, action).
        noise: (n, action).

    Returns:
        The actions (n, action) and their log-probabilities (n,).
    """
    raw = mean + std * noise
    density = -0.5 * noise**2 - jnp.log(std) - 0.5 * math.log(2 * math.pi)
    stretch = 2.0 * (math.log(2.0) - raw - jax.nn.softplus(-2.0 * raw))
    return jnp.tanh(raw), (density - stretch).sum(axis=-1)


def gaussian_log_prob(action: Array, mean: Array, log_std: Array) -> Array:
    """log N(a; mean, exp(log_std)²), summed over the last axis: all (…, action) → (…)."""
    noise = (action - mean) * jnp.exp(-log_std)
    return (-0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(axis=-1)


def gaussian_entropy(log_std: Array) -> Array:
    """The entropy of a Gaussian with independent dimensions: (…, action) → (…)."""
    return (log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum(axis=-1)


def advantages(
    reward: Array,
    terminated: Array,
    ended: Array,
    value: Array,
    next_value: Array,
    gamma: Any,
    gae_lambda: Any,
) -> Array:
    """Generalised advantage estimates of a rollout.

    δ = r + γ (1 − d) V(s′) − V(s);  A ← δ + γ λ (1 − e) A of the next step. d is termination, e the
    end of an episode for whatever reason; `next_value` is of the true next observation, so that a
    truncation is bootstrapped from where it was cut. λ = 1 gives n-step returns minus V.

    All arrays are (steps, environments), and so is the result; `gamma` and `gae_lambda`, γ and λ,
    are numbers.
    """
    delta = td_target(reward, terminated, next_value, gamma) - value
    carry = gamma * gae_lambda * (1.0 - ended)

    def backward(later: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        now = here[0] + here[1] * later
        return now, now

    return jax.lax.scan(backward, jnp.zeros_like(delta[0]), (delta, carry), reverse=True)[1]


def least(q: Array) -> Array:
    """Return the least value of an ensemble, (members, n) → (n,).

    The gradient flows to the member that has it. The gradient of `min` can be 0/0: a compiler may
    compute the values again on the backward pass and round them differently, and then none of them
    equals the minimum.
    """
    return _of_member(q, q.argmin(axis=0))


def largest(q: Array) -> Array:
    """Return the largest value of an ensemble, (members, n) → (n,), in the same way as `least`."""
    return _of_member(q, q.argmax(axis=0))


def _of_member(q: Array, member: Array) -> Array:
    return networks.namespace(q).take_along_axis(q, member[None], axis=0)[0]


def correlation(x: Array, y: Array) -> Array:
    """Return the correlation of two (n,), between −1 and 1; 0 if one of them is constant."""
    x, y = x - x.mean(), y - y.mean()
    return (x * y).mean() / jnp.maximum(jnp.sqrt((x**2).mean() * (y**2).mean()), 1e-12)


def descend(optimiser: Optimiser, gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
    """Make one step of an optimiser.

    Args:
        optimiser: of Optax.
        gradients: of the loss, with the structure of `params`.
        state: of the optimiser.
        params: what is optimised, a pytree.

    Returns:
        The new parameters, and the optimiser's new state.
    """
    updates, state = optimiser.update(gradients, state, params)
    return optax.apply_updates(params, updates), state


def decayed(hyper: Any, progress: Any) -> Any:
    """Return the hyper-parameters with the learning rates of this point of the run.

    Learning rates are the fields whose names end in `_lr`. Each falls linearly with `progress`, the
    share of the run that is done, until `lr_decay_share` of the run is done. By then it has lost
    the share `lr_decay`; after that it stays.
    """
    if hyper.lr_decay_share < 1.0:  # static, so that the usual program does not compute it
        progress = jnp.minimum(progress / hyper.lr_decay_share, 1.0)
    left = 1.0 - hyper.lr_decay * progress
    rates = learning_rates(hyper)
    return dataclasses.replace(hyper, **{name: left * rate for name, rate in rates.items()})


def learning_rates(hyper: Any) -> dict[str, Any]:
    """The learning rates among hyper-parameters, by name: every field ending in `_lr`."""
    names = [field.name for field in dataclasses.fields(hyper)]
    return {name: getattr(hyper, name) for name in names if name.endswith("_lr")}
