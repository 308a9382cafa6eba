"""Advantage actor-critic (Mnih et al., 2016, made synchronous), with room for a strategy.

    policy:  ascend A log π(a|s), A = R̂ − V(s), R̂ the n-step return                     policy_loss
    value:   descend (V − R̂)²                                                            value_loss

One step on each rollout. What surrounds this is in onpolicy.py.
"""

from __future__ import annotations

import optax

from discover_rl.algorithms import onpolicy
from discover_rl.algorithms.onpolicy import Core, Sample, blueprint
from discover_rl.hyper import hyper
from discover_rl.interfaces import OnPolicy, Strategy
from discover_rl.types import Array, Optimiser, Spec

__all__ = ["Hyper", "blueprint", "make"]


@hyper
class Hyper(onpolicy.Hyper):
    actor_lr = 1.3e-3
    gae_lambda = 1.0
    horizon = 32
    minibatches = 1
    epochs = 1


def policy_loss(log_prob: Array, sample: Sample, hp: Hyper) -> Array:
    del hp
    return -(sample.advantage * log_prob).mean()


def value_loss(value: Array, sample: Sample, hp: Hyper) -> Array:
    del hp
    return ((value - sample.target) ** 2).mean()


def optimiser(hp: Hyper) -> Optimiser:
    return optax.rmsprop(hp.actor_lr, decay=0.99, eps=1e-5, eps_in_sqrt=False)


def make(spec: Spec, settings: Hyper, strategy: Strategy) -> OnPolicy:
    parts = Core(policy_loss, value_loss, optimiser, normalise_advantages=False)
    return onpolicy.make(spec, settings, strategy, parts)
