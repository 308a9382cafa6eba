"""Advantage actor-critic (Mnih et al., 2016, made synchronous), with room for a strategy.

    policy:  ascend A log π(a|s), A = R̂ − V(s), R̂ the n-step return                     policy_loss
    value:   descend (V − R̂)²                                                            value_loss

One step on each rollout. What surrounds this is in on_policy.py.
"""

from __future__ import annotations

import optax

from discover_rl.algorithms import on_policy, on_policy_parts
from discover_rl.algorithms.interface import OnPolicyAlgorithm
from discover_rl.algorithms.likelihood import Sample
from discover_rl.algorithms.on_policy_parts import Parts, blueprint
from discover_rl.core.hyperparameters import hyper
from discover_rl.core.types import Array, Optimiser, Spec
from discover_rl.strategies.interface import Strategy

__all__ = ["Hyper", "blueprint", "make"]


@hyper
class Hyper(on_policy_parts.Hyper):
    """Hyper-parameters of A2C."""

    actor_lr = 1.3e-3
    gae_lambda = 1.0
    horizon = 32
    minibatches = 1
    epochs = 1


def policy_loss(log_prob: Array, sample: Sample, hp: Hyper) -> Array:
    """−A log π(a|s), mean over the samples."""
    del hp
    return -(sample.advantage * log_prob).mean()


def value_loss(value: Array, sample: Sample, hp: Hyper) -> Array:
    """(V − R̂)², mean over the samples."""
    del hp
    return ((value - sample.target) ** 2).mean()


def optimiser(hp: Hyper) -> Optimiser:
    """RMSprop, with ε added to the root as in PyTorch."""
    return optax.rmsprop(hp.actor_lr, decay=0.99, eps=1e-5, eps_in_sqrt=False)


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> OnPolicyAlgorithm:
    """A2C on tasks with these spaces, exploring by this strategy."""
    parts = Parts(policy_loss=policy_loss, value_loss=value_loss, optimiser=optimiser)
    return on_policy.make(spec, settings, strategy, parts)
