"""gSDE, generalised state-dependent exploration: noise as a function of s (Raffin et al., 2021).

    noise:   n(s) = θᵀ z(s),  z the inputs of the policy's last layer;  θᵢⱼ = σᵢⱼ εᵢⱼ,  ε ~ N(0, 1)
    act:     a = μ(s) + n(s), before squashing;  ε anew every `interval` steps, or once for an
             episode or a rollout: in between, the same state has the same noise
    density: over θ, n(s) ~ N(0, diag(Σᵢ zᵢ² σᵢⱼ²)), so log π(a|s) is a Gaussian's, exactly
    evaluate: without noise

For SAC, A2C and PPO. n(s) replaces the policy's own noise, and log σ is learned by the algorithm's
own loss, with the policy. By default no gradient flows through z into the noise.

DDPG and TD3 have no density to learn σ by. There σ is one number that is set, the noise is added
after squashing, ã = clip(π(s) + n(s)), and nothing is added during warm-up. Targets are the
algorithm's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Net, Nudge, Role, Spec, UserError
from discover_rl.strategies.interface import Acting, Blueprint, Density, Learning, Strategy, View

EPSILON = 1e-6
"""Added to variances, so that they are positive where all features are 0."""


@hyper
class Hyper:
    """Hyper-parameters of generalised state-dependent exploration."""

    initial_log_std: float = setting(
        -2.0,
        "Where log σ starts, with a policy that has a density; SAC: -3 by preset.",
        low=-20,
        high=20,
        only="density",
    )
    sigma: Amplitude = setting(
        0.1,
        "σ with DDPG and TD3: the noise has σ times the length of z, in half-ranges.",
        low=0,
        high=100,
        unless="density",
    )
    interval: int = setting(
        0, "Steps after which ε is drawn anew; 0: only as `lasts` says.", low=0, high=10**9
    )
    lasts: str = setting(
        "auto",
        "How long ε is kept at most; auto: an episode off-policy, a rollout on-policy.",
        choices=("auto", "episode", "rollout"),
    )
    learn_features: bool = setting(
        False,
        "Let what σ is learned by move the features z too; SAC: true by preset.",
        only="density",
    )
    mean_limit: float = setting(
        2.0,
        "SAC: where the mean before squashing is cut while training.",
        above=0,
        high=1_000_000,
        only="density",
        unless="on_policy",
    )


class Memory(NamedTuple):
    """The noise in use."""

    noise: Array  # (features, action) ε
    age: Array  # (1, 1) steps since it was drawn; 0 if it is kept until its end


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """State-dependent noise for the actor of this blueprint; where σ starts is a value per lane."""
    lasts, interval = settings.lasts, settings.interval
    if lasts == "auto":
        lasts = "rollout" if blueprint.on_policy else "episode"
    if lasts == "rollout" and not blueprint.on_policy:
        raise UserError("strategy.lasts=rollout is for algorithms that learn from rollouts.")
    whole = jax.eval_shape(lambda key: blueprint.init(key, blueprint.outputs), random.key(0))
    shape = whole["head"]["weight"].shape[0], spec.action_size

    def joint(key: Key, hyper: Hyper, net: Net, critic: Net | None) -> dict[str, Array]:
        """log σ, of every feature and action."""
        del key, net, critic
        return {"log_std": jnp.full(shape, hyper.initial_log_std)} if blueprint.density else {}

    # Acting.

    def draw(key: Key) -> Array:
        return random.normal(key, shape)

    def begin(state: Hyper, view: View, key: Key) -> Memory:
        del state, view
        return Memory(draw(key), jnp.zeros((1, 1), jnp.int32))

    def drawn_anew(memory: Memory, noise: Array) -> Memory:
        """With other noise, every `interval` steps."""
        fresh = memory.age == 0
        kept = networks.namespace(noise).where(fresh, noise, memory.noise)
        return Memory(kept, (memory.age + 1) % interval)

    def behave(
        state: Hyper, memory: Memory, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Memory, Nudge]:
        if interval:
            memory = drawn_anew(memory, noise)
        xp, epsilon = networks.namespace(obs), memory.noise
        none = xp.zeros_like(obs[..., :1])  # in place of the policy's own noise
        if blueprint.on_policy:  # as part of the last layer: NumPy would compute z twice
            theta = xp.exp(view.joint["log_std"]) * epsilon
            return memory, Nudge(networks.moved(view.net, {"head": {"weight": theta}}), noise=none)
        z = view.features(Nudge(view.net), obs)
        nudge = Nudge(view.net, features=z)
        if blueprint.density:
            theta = xp.exp(view.joint["log_std"]) * epsilon
            by = cut(state, view, nudge, obs) + z @ theta
            return memory, nudge._replace(mean_shift=by, noise=none)
        added = state.sigma.at(view.progress) * (z @ epsilon)
        return memory, nudge._replace(shift=added * (1 - warmup))

    def cut(state: Hyper, view: View, nudge: Nudge, obs: Array) -> Array:
        """What is added to a mean that is too large: (n, observation) → (n, action)."""
        mean, _ = view.distribution(nudge, obs)
        limit = state.mean_limit
        return networks.namespace(mean).clip(mean, -limit, limit) - mean

    # Learning.

    def std(view: View, z: Array) -> Array:
        """√ Σᵢ zᵢ² σᵢⱼ² of each action, over θ: (n, features) → (n, action)."""
        if not settings.learn_features:
            z = jax.lax.stop_gradient(z)
        return jnp.sqrt(z**2 @ jnp.exp(2.0 * view.joint["log_std"]) + EPSILON)

    def expect(state: Hyper, view: View, obs: Array, key: Key, role: Role) -> Nudge:
        del key, role
        if blueprint.on_policy or not blueprint.density:
            return Nudge(view.net)
        z = view.features(Nudge(view.net), obs)
        nudge = Nudge(view.net, features=z)  # one z for both and the mean: one pass back, not three
        return nudge._replace(mean_shift=cut(state, view, nudge, obs), std=std(view, z))

    def density(state: Hyper, view: View, obs: Array) -> Nudge:
        del state
        return Nudge(view.net, std=std(view, view.features(Nudge(view.net), obs)))

    def report(state: Hyper, view: View, batch: Any) -> dict[str, Array]:
        z = view.features(Nudge(view.net), batch.obs)
        if blueprint.density:
            sigma, spread = jnp.exp(view.joint["log_std"]).mean(), std(view, z)
        else:
            sigma = state.sigma.at(view.progress)
            spread = sigma * jnp.linalg.norm(z, axis=-1)
        return {"sigma": sigma, "std": spread.mean()}

    return Strategy(
        acting=Acting(
            begin=begin,
            draw=draw if interval else (lambda key: ()),
            behave=behave,
            resample_on=(lasts,),
        ),
        learning=Learning(joint=joint, expect=expect),
        density=Density(nudge=density if blueprint.on_policy else None),
        report=report,
    )
