"""What an off-policy algorithm is made of: the settings and the state of all of them, and `Core`.

offpolicy.py makes an algorithm of a core.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import optax

from discover_rl import networks
from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Blueprint
from discover_rl.types import Actor, Array, Form, Net, Nudge, Optimiser, Spec

FORM = Form(activation="relu", squash=True)


@hyper
class Hyper:
    """What every off-policy algorithm can be told; each has defaults of its own.

    `lr_decay` acts on every field whose name ends in `_lr`.
    """

    gamma: float = setting(0.99, "Discount of future reward.", low=0, high=1)
    tau: float = setting(
        0.005, "Share of the online networks in each target update.", low=0, high=1
    )
    actor_lr: float = setting(3e-4, "Learning rate of the actor and of a strategy's nets.", low=0)
    critic_lr: float = setting(3e-4, "Learning rate of the critics.", low=0)
    lr_decay: float = setting(
        0.0, "Share of the learning rates that fades, linearly, over the run.", low=0, high=1
    )
    batch_size: int = setting(256, "Transitions in a batch.", low=1)
    replay_size: int = setting(1_000_000, "Transitions kept for replay.", low=1)
    warmup: int = setting(1_000, "Steps of uniform actions before learning starts.", low=0)
    train_every: int = setting(1, "Environment steps between rounds of updates.", low=1)
    updates: int = setting(1, "Updates in a round.", low=1)
    hidden: tuple[int, ...] = setting((256, 256), "Widths of the hidden layers.", low=1)


class State(NamedTuple):
    hyper: Any
    actor: Actor
    critics: Net  # an ensemble: every array has a leading axis, one entry per critic
    target_actor: Any  # () where the algorithm has none
    target_critics: Net
    actor_optimiser: Any
    critic_optimiser: Any
    strategy: Any
    moments: Any  # equations.Moments of observations; () where they are not normalised
    extra: Any  # what only this algorithm keeps


LEARNED = (
    *("actor", "critics", "target_actor", "target_critics"),
    *("actor_optimiser", "critic_optimiser", "extra"),
)
"""Fields of the state that updates move, apart from the strategy's."""


class Noise(NamedTuple):
    warmup: Array  # (1, action) uniform in −1 … 1
    policy: Any  # what Core.sample takes
    strategy: Any


def policy(nudge: Nudge, obs: Array) -> Array:
    """π(s) + shift, the sum not clipped, of a policy that is deterministic."""
    seen = networks.with_context(obs, nudge.context)
    return networks.mean_action(FORM, nudge.net, seen) + nudge.shift


def _adam(hp: Any) -> Optimiser:
    return optax.adam(hp.critic_lr)


class Core(NamedTuple):
    """What makes an off-policy algorithm itself. The defaults are a deterministic policy's."""

    # (key) → one critic
    critic: Callable[[Any], Net]
    # (state, nudge, batch, key) → y; the nudge is the strategy's at s′
    target: Callable[..., Array]
    # (state, nudge, obs, key) → (loss, what `after` wants to know)
    actor_loss: Callable[..., tuple[Array, Any]]
    critics: int = 2
    # (critics, obs, action) → (critics, n)
    q: Callable[[Net, Array, Array], Array] = networks.q_value
    critic_optimiser: Callable[[Any], Optimiser] = _adam
    # How many numbers per action the actor's network gives.
    outputs: int = 1
    # (nudge, obs) → mean action, shifted
    policy: Callable[[Nudge, Array], Array] = policy
    # (nudge, obs, noise) → what the policy does by itself; None: its mean action
    sample: Callable[[Nudge, Array, Any], Array] | None = None
    # (key, shape of actions) → noise
    draw: Callable[[Any, tuple[int, ...]], Any] = lambda key, shape: ()
    # (net) → the network of the mean action
    mean: Callable[[Net], Net] = lambda net: net
    # (hyper) → State.extra
    extra: Callable[[Any], Any] = lambda hp: ()
    # (state, hyper, what actor_loss said) → State.extra; after the actor's step
    after: Callable[..., Any] = lambda state, hp, said: state.extra
    # (state) → {name: number}, for the record
    report: Callable[[State], dict[str, Array]] = lambda state: {}
    has_target_actor: bool = True
    normalise: bool = False
    actor_every: int = 1  # updates per step of the actor
    targets_every: int = 1  # updates per step of the targets


def blueprint(spec: Spec, hp: Hyper) -> Blueprint:
    """The actor's architecture, for strategies that own a network like it."""
    return Blueprint(
        init=lambda key, outputs: networks.init(key, spec.observation_size, hp.hidden, outputs),
        apply=networks.apply,
        outputs=spec.action_size,
        warmup=hp.warmup,
    )


def critic(spec: Spec, hp: Hyper) -> Callable[[Any], Net]:
    """(key) → a critic that takes observation and action together, as `networks.q_value` does."""
    inputs = spec.observation_size + spec.action_size
    return lambda key: networks.init(key, inputs, hp.hidden, 1)


def features(nudge: Nudge, obs: Array) -> Array:
    return networks.features(nudge.net, networks.with_context(obs, nudge.context))


def clip(action: Array) -> Array:
    return networks.namespace(action).clip(action, -1.0, 1.0)


def squared_error(values: Array, y: Array) -> Array:
    """Σᵢ (y − Qᵢ)²; (critics, n), (n,) → (n,)."""
    return ((y[None] - values) ** 2).sum(axis=0)


def descend(optimiser: Optimiser, gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
    updates, state = optimiser.update(gradients, state, params)
    return optax.apply_updates(params, updates), state


def faded(hp: Any, progress: Any) -> Any:
    """The hyper-parameters with the learning rates they have at this point of the run."""
    left = 1.0 - hp.lr_decay * progress
    rates = [field.name for field in dataclasses.fields(hp) if field.name.endswith("_lr")]
    return dataclasses.replace(hp, **{name: left * getattr(hp, name) for name in rates})
