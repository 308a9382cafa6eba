"""Deep coherent exploration: the last layer's weights change slowly (Zhang and Van Hoof, 2021).

    process: w = μ + S z;  z ← ρ z + √(1 − ρ²) ξ,  ρ = 1 − β,  ξ ~ N(0, I);  z ~ N(0, I) at a start
    act:     with the last layer's weights w, biases among them
    evaluate: w = μ

z has variance 1 at every step, so β sets how long a deviation lasts and S how large it is.
Learning integrates w out, where the policy has a density; x are the last layer's inputs and 1.

Off-policy, one step at a time: the mean by μ, and Σᵢ Sᵢ² xᵢ² more variance. A policy without a
density learns with μ, and S stays, or else with a w of its own for every batch.

On-policy, given all of the episode so far. With u = S x, the actions of L steps in a row have, in
each dimension, the means μ xₜ + ρᵗ uₜ m and the covariances

    K_ts = ρ^|t−s| uₜ′ V_min(t,s) u_s + σ² [t = s],   V_k = (1 − ρ²ᵏ) I + ρ²ᵏ P

if z ~ N(m, P) was believed before the first of them: N(0, I) where an episode starts. The Cholesky
factor of K gives every action's density given those before it, and K the belief after the last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random
from jax.scipy.linalg import solve_triangular

from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Array, Key, Net, Nudge, Role, Spec, UserError
from discover_rl.strategies.interface import Acting, Blueprint, Density, Learning, Strategy, View

TINY = 1e-20
"""Added under roots and logarithms, so that 0 has a gradient."""
JITTER = 1e-6
"""Added to variances, so that rounding leaves covariances positive."""


@hyper
class Hyper:
    """Hyper-parameters of deep coherent exploration."""

    sigma: float = setting(0.017, "Where S starts; off-policy, 0.034 by preset.", low=0, high=100)
    beta: float = setting(
        0.01, "β: 0, one draw per episode; 1, a new one at every step.", low=0, high=1
    )
    learn_s: bool = setting(False, "Learn S even though the policy has no density.")
    piece: int = setting(
        64, "On-policy, steps whose likelihood is computed together, at most.", low=1, high=4_096
    )
    carry: bool = setting(
        True, "On-policy, go on from rollout to rollout (off: start anew at each)."
    )
    detach: bool = setting(False, "Keep what S adds to a density from moving hidden layers.")


class Belief(NamedTuple):
    """The distribution of z given the actions so far, for each action dimension."""

    mean: Array  # (q, p)
    covariance: Array  # (q, p, p)


def unknowing(outputs: int, inputs: int) -> Belief:
    """The belief about z when an episode starts: N(0, I)."""
    identity = jnp.broadcast_to(jnp.eye(inputs), (outputs, inputs, inputs))
    return Belief(jnp.zeros((outputs, inputs)), identity)


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Coherent exploration for the actor of this blueprint; β comes with the state."""
    if not (settings.carry or blueprint.on_policy):
        raise UserError("strategy.carry is for on-policy algorithms.")
    if settings.learn_s and blueprint.density:
        raise UserError("strategy.learn_s is for policies without a density; here S is learned.")
    whole = jax.eval_shape(lambda key: blueprint.init(key, blueprint.outputs), random.key(0))
    inputs, outputs = whole["head"]["weight"].shape[0], spec.action_size

    def joint(key: Key, hyper: Hyper, net: Net, critic: Net | None) -> dict[str, Array]:
        """log S of every weight of the last layer; the last row is that of the biases."""
        del key, net, critic
        return {"log_s": jnp.full((inputs + 1, outputs), jnp.log(jnp.maximum(hyper.sigma, TINY)))}

    def draw(key: Key) -> Array:
        return random.normal(key, (inputs + 1, outputs))

    def begin(state: Hyper, view: View, key: Key) -> Array:
        del state, view
        return draw(key)

    def behave(
        state: Hyper, memory: Array, view: View, obs: Array, noise: Array, warmup: Any
    ) -> tuple[Array, Nudge]:
        del obs, warmup
        rho = 1.0 - state.beta
        z = rho * memory + (1.0 - rho**2) ** 0.5 * noise
        return z, Nudge(moved_net(view, z))

    def moved_net(view: View, z: Array) -> Net:
        net, xp = view.net, networks.namespace(z)
        change = xp.exp(view.joint["log_s"]) * z
        # Only the first outputs of the head, which give the mean, are perturbed.
        rest = net["head"]["bias"].shape[-1] - outputs
        if rest:
            zeros = xp.zeros((*change.shape[:-1], rest), change.dtype)
            change = xp.concat([change, zeros], axis=-1)
        return networks.moved(
            net, {"head": {"weight": change[..., :-1, :], "bias": change[..., -1, :]}}
        )

    def expect(state: Hyper, view: View, obs: Array, key: Key, role: Role) -> Nudge:
        del state
        nudge = Nudge(view.net)
        if blueprint.density:
            return nudge._replace(spread=spread(view, obs))
        learns = settings.learn_s and role == "actor"
        return Nudge(moved_net(view, draw(key))) if learns else nudge

    def spread(view: View, obs: Array) -> Array:
        """√ Σᵢ Sᵢ² xᵢ² of each action, with a gradient even where it is 0."""
        square = jnp.exp(2.0 * view.joint["log_s"])
        return jnp.sqrt(inputs_of(view, obs) ** 2 @ square + TINY)

    def inputs_of(view: View, obs: Array) -> Array:
        """x: the inputs of the last layer, and 1 for its biases."""
        x = view.features(Nudge(view.net), obs)
        x = jnp.concatenate([x, jnp.ones((len(x), 1))], axis=1)
        return jax.lax.stop_gradient(x) if settings.detach else x

    def log_prob(state: Hyper, view: View, belief: Belief, piece: Any) -> tuple[Array, Belief]:
        """log π of each action, given those before it in its episode."""
        nudge = Nudge(view.net)
        x = inputs_of(view, piece.obs)
        u = jnp.exp(view.joint["log_s"]).T[:, None] * x[None]
        variance = jnp.exp(2.0 * view.net["log_std"]["value"])
        surprise = (piece.action - view.policy(nudge, piece.obs)).T
        return sequential(surprise, u, variance, 1.0 - state.beta, piece.ended, belief)

    def report(state: Hyper, view: View, batch: Any) -> dict[str, Array]:
        del state
        return {
            "sigma": jnp.exp(view.joint["log_s"]).mean(),
            "spread": spread(view, batch.obs).mean(),
        }

    return Strategy(
        acting=Acting(
            begin=begin,
            draw=draw,
            behave=behave,
            resample_on=("episode",) if settings.carry else ("episode", "rollout"),
        ),
        learning=Learning(joint=joint, expect=expect),
        density=Density(
            log_prob=log_prob if blueprint.on_policy else None,
            initial_belief=unknowing(outputs, inputs + 1) if blueprint.on_policy else (),
            max_piece=settings.piece,
        ),
        report=report,
    )


def sequential(
    deviation: Array, u: Array, variance: Array, rho: Any, ended: Array, belief: Belief
) -> tuple[Array, Belief]:
    """Compute the densities of L actions, each given those before it in its episode.

    Args:
        deviation: (q, L) of the actions from μ x, by dimension of the action.
        u: (q, L, p) S x, the scales of the weights times the last layer's inputs.
        variance: (q,) σ², of the part of the noise that is white.
        rho: () ρ.
        ended: (L,) whether an episode ended with each action.
        belief: about z, before the first of them.

    Returns:
        Log-probabilities, (L,), and the belief after the last action.
    """
    count = len(ended)
    t = jnp.arange(count)
    episode = jnp.cumsum(ended) - ended  # how many ended before t
    goes_on = 1.0 * (episode == 0)  # whether t is in the one that the belief is about
    decay = goes_on * rho**t
    lag = jnp.where(episode[:, None] == episode[None], rho ** jnp.abs(t[:, None] - t[None]), 0.0)
    # u′ V u = u′ u, but for what the belief knows better, which fades.
    known_better = u @ belief.covariance - u
    earlier = jnp.where(t[:, None] < t[None], decay[:, None], decay[None])
    known = (goes_on[:, None] * goes_on[None] * earlier**2)[None] * (known_better @ u.mT)
    covariance = lag[None] * (u @ u.mT + known)
    covariance += (variance + JITTER)[:, None, None] * jnp.eye(count)[None]
    factor = jnp.linalg.cholesky(covariance)
    expected = decay[None] * (u @ belief.mean[..., None])[..., 0]
    scores = solve_triangular(factor, (deviation - expected)[..., None], lower=True)
    spread = jnp.diagonal(factor, axis1=1, axis2=2)
    log_prob = -0.5 * scores[..., 0] ** 2 - jnp.log(spread) - 0.5 * jnp.log(2.0 * jnp.pi)

    # The covariance of z after the last step with each step's action.
    reach = jnp.where(episode == episode[-1], rho ** (count - t), 0.0)
    with_actions = reach[None, :, None] * (u + (decay**2)[None, :, None] * known_better)
    whitened = solve_triangular(factor, with_actions, lower=True).mT
    left = jnp.where(episode[-1] == 0, rho**count, 0.0)
    nothing = unknowing(*belief.mean.shape)
    prior = nothing.covariance + left**2 * (belief.covariance - nothing.covariance)
    after = Belief(
        mean=left * belief.mean + (whitened @ scores)[..., 0],
        covariance=prior - whitened @ whitened.mT,
    )
    after = jax.tree.map(lambda new, old: jnp.where(ended[-1], old, new), after, nothing)
    return log_prob.sum(axis=0), after
