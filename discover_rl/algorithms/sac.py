"""Soft actor-critic with learned temperature (Haarnoja et al., 2018), with room for a strategy.

    act:      a = tanh(u), u ~ N(mean(s), std(s)²)                                     sample
    critics:  a′ a sample at s′, log π its log-probability;  ã′ = clip(a′ + the strategy's shift)
              y = scale · r + γ (1 − d) (min over i of Q′ᵢ(s′, ã′) − α log π)          target
              descend Σᵢ (y − Qᵢ(s, ã))²
    actor:    descend α log π(a|s) − min over i of Qᵢ(s, a), a a new sample        actor_loss
    α:        descend −log α · (log π + target entropy)                     temperature_gradient
    targets:  those of critics and strategy follow

Actions, and so densities and entropies, are in units of the box. What surrounds this is in
off_policy.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jax import random

from discover_rl.algorithms import off_policy, off_policy_parts
from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.algorithms.off_policy_parts import Parts, State, clip, features
from discover_rl.core import networks
from discover_rl.core.equations import descend, squash, td_target
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Array, Batch, Key, Net, Nudge, Spec
from discover_rl.strategies.interface import Blueprint, Strategy

__all__ = ["Hyper", "blueprint", "make"]

LOG_STD = -20.0, 2.0
"""The logarithm of the policy's standard deviation is clipped to this range."""


@hyper
class Hyper(off_policy_parts.Hyper):
    """Hyper-parameters of SAC."""

    temperature: float = setting(
        1.0, "α: weight of the entropy; where it starts.", above=0, high=1_000_000
    )
    temperature_lr: float = setting(3e-4, "Learning rate of log α.", low=0, high=1)
    target_entropy: float = setting(
        -1.0, "Entropy that α aims at, per action dimension.", low=-1_000, high=1_000
    )
    reward_scale: float = setting(
        1.0, "Factor on rewards in the critics' target.", above=0, high=1_000_000
    )
    learn_temperature: bool = setting(True, "Adapt α to the target entropy (off: it stays).")
    target_period: int = setting(
        1, "Updates per update of the targets; with tau=1: hard.", low=1, high=10**9
    )
    behaviour: str = setting(
        "sample", "What it does by itself while training.", choices=("sample", "mean")
    )


def blueprint(spec: Spec, hp: Hyper) -> Blueprint:
    """The actor's architecture: means, then logarithms of standard deviations."""
    return off_policy_parts.blueprint(spec, hp)._replace(
        outputs=2 * spec.action_size, density=True, samples=hp.behaviour == "sample"
    )


class Temperature(NamedTuple):
    """The learned temperature."""

    log: Array  # () log α
    optimiser: Any


def distribution(nudge: Nudge, obs: Array) -> tuple[Array, Array]:
    """Mean and standard deviation before squashing; (n, observation) → two of (n, action)."""
    outputs = networks.output(nudge.net, features(nudge, obs))
    xp = networks.namespace(outputs)
    size = outputs.shape[-1] // 2
    std = xp.exp(xp.clip(outputs[..., size:], *LOG_STD)) if nudge.std is None else nudge.std
    mean, std = outputs[..., :size], xp.sqrt(std**2 + nudge.spread**2)
    return (mean if nudge.mean_shift is None else mean + nudge.mean_shift), std


def policy(nudge: Nudge, obs: Array) -> Array:
    """The mean action with the nudge's shift: (n, observation) → (n, action)."""
    return networks.tanh(distribution(nudge, obs)[0]) + nudge.shift


def sample(nudge: Nudge, obs: Array, noise: Array) -> Array:
    """An action of the policy's own: (n, observation), (n, action) → (n, action)."""
    mean, std = distribution(nudge, obs)
    return networks.tanh(mean + std * noise)


def mean_net(net: Net) -> Net:
    """The network without the part of its head that gives standard deviations."""
    size = net["head"]["bias"].shape[-1] // 2
    return {**net, "head": {name: part[..., :size] for name, part in net["head"].items()}}


def temperature(state: State) -> Array:
    """α, learned or fixed: ()."""
    if state.hyper.learn_temperature:
        return jnp.exp(state.extra.log)
    return state.hyper.temperature


def temperature_gradient(log_prob: Array, target_entropy: Any) -> Array:
    """Return the gradient of −log α · (log π + target entropy) in log α.

    It is negative if the entropy is below its target: then α grows.
    """
    return -(log_prob.mean() + target_entropy)


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> OffPolicyAlgorithm:
    """SAC on tasks with these spaces, exploring by this strategy."""
    by_sample = settings.behaviour == "sample"

    def target(state: State, nudge: Nudge, batch: Batch, key: Key) -> Array:
        hp = state.hyper
        noise = random.normal(key, batch.bare.shape)
        bare, log_prob = squash(*distribution(nudge, batch.next_obs), noise)
        action = clip(bare + nudge.shift)
        value = networks.q_value(state.target_critics, batch.next_obs, action).min(axis=0)
        value -= temperature(state) * log_prob
        return td_target(hp.reward_scale * batch.reward, batch.terminated, value, hp.gamma)

    def actor_loss(state: State, nudge: Nudge, obs: Array, key: Key) -> tuple[Array, Any]:
        noise = random.normal(key, (len(obs), spec.action_size))
        bare, log_prob = squash(*distribution(nudge, obs), noise)
        value = networks.q_value(state.critics, obs, bare + nudge.shift).min(axis=0)
        return (temperature(state) * log_prob - value).mean(), log_prob

    def extra(hp: Hyper) -> Any:
        if not settings.learn_temperature:
            return ()
        log = jnp.log(hp.temperature)
        return Temperature(log, optax.adam(hp.temperature_lr).init(log))

    def after(state: State, hp: Hyper, log_prob: Array) -> Any:
        if not settings.learn_temperature:
            return ()
        gradient = temperature_gradient(log_prob, hp.target_entropy * spec.action_size)
        optimiser = optax.adam(hp.temperature_lr)
        return Temperature(*descend(optimiser, gradient, state.extra.optimiser, state.extra.log))

    parts = Parts(
        critic=off_policy_parts.critic(spec, settings),
        target=target,
        actor_loss=actor_loss,
        normalise=settings.normalise,
        outputs_per_action=2,
        policy=policy,
        distribution=distribution,
        sample=sample if by_sample else None,
        draw=random.normal if by_sample else lambda key, shape: (),
        mean_net=mean_net,
        init_extra=extra,
        after_actor=after,
        report=lambda state: {"temperature": temperature(state)},
        measure=lambda log_prob: {"entropy": -log_prob.mean()},
        reward_scale=lambda hp: hp.reward_scale,
        entropy_weight=temperature,
        has_target_actor=False,
        targets_every=settings.target_period,
    )
    return off_policy.make(spec, settings, strategy, parts)
