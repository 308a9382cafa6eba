"""What an off-policy algorithm is made of: hyper-parameters, state, and `Parts`, what is its own.

`off_policy.make` turns `Parts` into an algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import optax

from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import (
    Actor,
    Array,
    Batch,
    CriticHead,
    Key,
    Net,
    Nudge,
    Optimiser,
    PolicyHead,
    Spec,
)
from discover_rl.strategies.interface import Blueprint

HEAD = PolicyHead(activation="relu", squash=True)
"""How an off-policy actor's outputs become a mean action."""


@hyper
class Hyper:
    """Hyper-parameters of every off-policy algorithm; each has defaults of its own.

    `lr_decay` acts on every field whose name ends in `_lr`.
    """

    on_policy: ClassVar[bool] = False

    gamma: float = setting(0.99, "Discount of future reward.", low=0, high=1)
    tau: float = setting(
        0.005, "Share of the online networks in each target update.", low=0, high=1
    )
    actor_lr: float = setting(
        3e-4, "Learning rate of the actor and of a strategy's nets.", low=0, high=1
    )
    critic_lr: float = setting(3e-4, "Learning rate of the critics.", low=0, high=1)
    lr_decay: float = setting(
        0.0, "Share of the learning rates that fades, linearly, over the run.", low=0, high=1
    )
    lr_decay_share: float = setting(
        1.0,
        "Share of the run over which lr_decay acts; afterwards learning rates stay.",
        above=0,
        high=1,
        omit_default=True,
        static=True,
    )
    batch_size: int = setting(256, "Transitions in a batch.", low=1, high=1_000_000)
    replay_size: int = setting(1_000_000, "Transitions kept for replay.", low=1, high=10**9)
    warmup: int = setting(
        1_000, "Steps of uniform actions before learning starts.", low=0, high=10**9
    )
    train_every: int = setting(1, "Environment steps between rounds of updates.", low=1, high=10**9)
    updates: int = setting(1, "Updates in a round.", low=1, high=100_000)
    hidden: tuple[int, ...] = setting(
        (256, 256), "Widths of the hidden layers.", low=1, high=1_000_000
    )
    layer_norm: str = setting(
        "none",
        "Networks whose hidden layers are normalised before their nonlinearity.",
        choices=("none", "actor", "critic", "both"),
        omit_default=True,
    )
    activation: str = setting(
        "relu",
        "Nonlinearity of the hidden layers.",
        choices=tuple(networks.ACTIVATIONS),
        omit_default=True,
    )
    normalise: bool = setting(
        False, "Standardise observations by their running statistics.", omit_default=True
    )
    normalise_rewards: bool = setting(
        False, "Divide rewards by the deviation of the discounted return.", omit_default=True
    )


def activation(hp: Hyper) -> str:
    """The nonlinearity as `networks.init` takes it: '' for the usual one."""
    return "" if hp.activation == HEAD.activation else hp.activation


class State(NamedTuple):
    """All that a run learns."""

    hyper: Any
    actor: Actor
    critics: Net  # an ensemble: every array has a leading axis, one entry per critic
    target_actor: Any  # () where the algorithm has none
    target_critics: Net
    actor_optimiser: Any
    critic_optimiser: Any
    strategy: Any
    moments: Any  # normalization.Moments of observations; () where they are not standardised
    extra: Any  # what only this algorithm keeps
    returns: Any = ()  # normalization.Moments of discounted returns, where rewards are scaled


LEARNED = (
    *("actor", "critics", "target_actor", "target_critics"),
    *("actor_optimiser", "critic_optimiser", "extra"),
)
"""Fields of the state that updates move, apart from the strategy's."""


class Noise(NamedTuple):
    """The random numbers of one action."""

    warmup: Array  # (1, action) uniform in −1 … 1
    policy: Any  # what `Parts.sample` takes
    strategy: Any  # what the strategy's `draw` drew


def policy(nudge: Nudge, obs: Array) -> Array:
    """π(s) + shift of a deterministic policy, not clipped: (n, observation) → (n, action)."""
    inputs = networks.with_context(obs, nudge.context)
    return networks.mean_action(HEAD, nudge.net, inputs, nudge.mean_shift) + nudge.shift


def distribution(nudge: Nudge, obs: Array) -> tuple[Array, None]:
    """The action of a deterministic policy before squashing, (n, action); it has no std."""
    mean = networks.apply(nudge.net, networks.with_context(obs, nudge.context), HEAD.activation)
    return (mean if nudge.mean_shift is None else mean + nudge.mean_shift), None


def _adam(hp: Any) -> Optimiser:
    return optax.adam(hp.critic_lr)


class Parts(NamedTuple):
    """What distinguishes one off-policy algorithm from another.

    The first three have to be given; the defaults are those of a deterministic policy.
    """

    critic: Callable[[Key], Net]
    """(key) → the parameters of one critic."""
    target: Callable[[State, Nudge, Batch, Key], Array]
    """(state, nudge, batch, key) → y (n,), given the strategy's nudge at s′."""
    actor_loss: Callable[[State, Nudge, Array, Key], tuple[Array, Any]]
    """(state, nudge, obs, key) → the loss, and what `after_actor` wants to know."""
    critics: int = 2
    q: Callable[[Net, Array, Array], Array] = networks.q_value
    """(critics, obs, action) → (critics, n)."""
    critic_head: CriticHead = CriticHead()
    """The same for a saved critic: what `networks.critic_value` does by it is `q`."""
    critic_optimiser: Callable[[Any], Optimiser] = _adam
    """(hyper) → the critics' optimiser."""
    outputs_per_action: int = 1
    """How many numbers per action dimension the actor's network gives."""
    policy: Callable[[Nudge, Array], Array] = policy
    """(nudge, obs) → (n, action), the mean action with the nudge's shift."""
    distribution: Callable[[Nudge, Array], tuple[Array, Array | None]] = distribution
    """(nudge, obs) → mean and standard deviation before squashing."""
    sample: Callable[[Nudge, Array, Any], Array] | None = None
    """(nudge, obs, noise) → (n, action), what the policy does by itself; None: its mean action."""
    draw: Callable[[Key, tuple[int, ...]], Any] = lambda key, shape: ()
    """(key, shape of actions) → the noise that `sample` takes."""
    mean_net: Callable[[Net], Net] = lambda net: net
    """(net) → the network of the mean action alone."""
    init_extra: Callable[[Any], Any] = lambda hp: ()
    """(hyper) → `State.extra`."""
    after_actor: Callable[[State, Any, Any], Any] = lambda state, hp, result: state.extra
    """(state, hyper, second result of `actor_loss`) → `State.extra`, after the actor's update."""
    report: Callable[[State], dict[str, Array]] = lambda state: {}
    """(state) → diagnostics by name."""
    measure: Callable[[Any], dict[str, Array]] = lambda result: {}
    """(second result of `actor_loss`) → metrics by name."""
    reward_scale: Callable[[Any], Any] = lambda hp: 1.0
    """(hyper) → the factor on rewards in `target`."""
    entropy_weight: Callable[[State], Any] = lambda state: 0.0
    """(state) → the weight of −log π in `target`."""
    has_target_actor: bool = True
    normalise: bool = False
    """Standardise observations by their running statistics."""
    actor_every: int = 1
    """Update the actor at every so many updates."""
    targets_every: int = 1
    """Update the targets at every so many updates."""


def blueprint(spec: Spec, hp: Hyper) -> Blueprint:
    """The actor's architecture, for strategies that own a network like it."""
    return Blueprint(
        init=lambda key, outputs: networks.init(
            key, spec.observation_size, hp.hidden, outputs, activation=activation(hp)
        ),
        apply=networks.apply,
        outputs=spec.action_size,
        hidden=hp.hidden,
        warmup=hp.warmup,
    )


def critic(spec: Spec, hp: Hyper) -> Callable[[Key], Net]:
    """(key) → a critic that takes observation and action together, as `networks.q_value` does."""
    inputs, normed = spec.observation_size + spec.action_size, hp.layer_norm in ("critic", "both")
    return lambda key: networks.init(key, inputs, hp.hidden, 1, normed, activation=activation(hp))


def features(nudge: Nudge, obs: Array) -> Array:
    """The inputs of the actor's last layer: (n, observation) → (n, width)."""
    return networks.features(nudge.net, networks.with_context(obs, nudge.context))


def clip(action: Array) -> Array:
    """The action, clipped to the box −1 … 1."""
    return networks.namespace(action).clip(action, -1.0, 1.0)


def squared_error(values: Array, y: Array) -> Array:
    """Σᵢ (y − Qᵢ)²; (critics, n), (n,) → (n,)."""
    return ((y[None] - values) ** 2).sum(axis=0)
