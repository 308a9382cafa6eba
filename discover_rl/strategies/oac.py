"""Optimistic actor-critic: act towards an upper bound of Q (Ciosek et al., 2019).

    bound:   Q_UB(s, a) = (Q₁ + Q₂) / 2 + β |Q₁ − Q₂| / 2
    slope:   g = ∇ᵤ Q_UB(s, tanh u) at u = μ(s), the policy's mean before squashing
    act:     a = tanh(u),  u ~ N(μ_E, Σ),  μ_E = μ + √(2δ) Σ g / √(gᵀ Σ g)

Among all Gaussians of covariance Σ that are no further than δ from the policy's, in the sense of
KL(N(μ_E, Σ) ‖ N(μ, Σ)) ≤ δ, this one has the largest Q_UB, linearised at μ. So the constraint holds
with equality. Learning is the algorithm's own: nothing else changes.

SAC has Σ, of its own policy. The policies of DDPG and TD3 have none: there Σ = σ² I, and σ is set.
DDPG has one critic, so its bound is Q itself.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Nudge, Spec
from discover_rl.strategies.interface import Acting, Blueprint, Strategy, View

TINY = 1e-5
"""Added to √(gᵀ Σ g), so that a slope of 0 moves nothing."""


@hyper
class Hyper:
    """Hyper-parameters of optimistic exploration."""

    beta: float = setting(
        4.66, "β: weight of the critics' disagreement in the upper bound.", low=-1_000, high=1_000
    )
    delta: Amplitude = setting(
        23.53, "δ: KL divergence of what acts from the policy, in nats.", low=0, high=1_000_000
    )
    sigma: Amplitude = setting(
        0.1,
        "σ with DDPG and TD3, before squashing; SAC has its own.",
        low=0,
        high=100,
        unless="density",
    )


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Optimism for policies of this blueprint whose critics are Q(s, a); it has no memory."""
    del settings

    def gaussian(state: Hyper, view: View, obs: Array) -> tuple[Array, Array]:
        """μ and √Σ before squashing, two of (n, action)."""
        mean, std = view.distribution(Nudge(view.net), obs)
        if std is None:
            std = jnp.broadcast_to(state.sigma.at(view.progress), mean.shape)
        return mean, std

    def bound(state: Hyper, view: View, obs: Array, u: Array) -> Array:
        """Q_UB(s, tanh u): (n, observation), (n, action) → (n,)."""
        q = view.q(obs, jnp.tanh(u))
        return q.mean(axis=0) + state.beta * disagreement(q)

    def move(state: Hyper, view: View, obs: Array) -> tuple[Array, Array, Array]:
        """μ, μ_E − μ and √Σ, three of (n, action)."""
        obs = jnp.asarray(obs)  # JAX, because it is differentiated
        mean, std = gaussian(state, view, obs)
        slope = jax.grad(lambda u: bound(state, view, obs, u).sum())(mean)
        length = jnp.linalg.norm(std * slope, axis=-1, keepdims=True) + TINY
        radius = jnp.sqrt(2.0 * state.delta.at(view.progress))
        return mean, radius * std**2 * slope / length, std

    def draw(key: Key) -> Any:
        return () if blueprint.density else random.normal(key, (1, spec.action_size))

    def behave(
        state: Hyper, memory: Any, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Any, Nudge]:
        del warmup  # actions are uniform then, whatever the policy's mean is
        _, by, std = move(state, view, obs)
        if not blueprint.density:  # SAC adds the noise itself
            by += std * noise
        return memory, Nudge(view.net, mean_shift=by)

    def report(state: Hyper, view: View, batch: Any) -> dict[str, Array]:
        mean, by, _ = move(state, view, batch.obs)
        moved = jnp.tanh(mean + by) - jnp.tanh(mean)
        q = view.q(batch.obs, jnp.tanh(mean))
        return {"shift": jnp.abs(moved).mean(), "disagreement": disagreement(q).mean()}

    return Strategy(acting=Acting(draw=draw, behave=behave), report=report)


def disagreement(q: Array) -> Array:
    """|Q₁ − Q₂| / 2, 0 for a single critic: (critics, n) → (n,)."""
    return jnp.abs(q[0] - q[-1]) / 2.0
