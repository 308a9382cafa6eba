"""The building blocks of an on-policy algorithm: hyper-parameters, state, and `Parts`.

`Parts` are the functions in which A2C and PPO differ. `on_policy.make` turns them into an
algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

from discover_rl.algorithms.likelihood import HEAD, Sample, mean_of
from discover_rl.algorithms.shared_settings import (
    ACTIVATION,
    LAYER_NORM,
    LR_DECAY_SHARE,
    activation_entry,
)
from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Actor, Array, Net, Nudge, Optimiser, Spec
from discover_rl.strategies.interface import Blueprint


@hyper
class Hyper:
    """Hyper-parameters of every on-policy algorithm; a subclass may change their defaults."""

    on_policy: ClassVar[bool] = True

    gamma: float = setting(0.99, "Discount of future reward.", low=0, high=1)
    gae_lambda: float = setting(
        0.95, "λ of the advantage estimates; 1: n-step returns.", low=0, high=1
    )
    actor_lr: float = setting(
        3e-4, "Learning rate of policy, value and a strategy's networks.", low=0, high=1
    )
    lr_decay: float = setting(
        0.0, "Share of the learning rate that fades, linearly, over the run.", low=0, high=1
    )
    lr_decay_share: float = setting(1.0, **LR_DECAY_SHARE)
    value_weight: float = setting(0.5, "Weight of the value's loss.", low=0, high=1_000_000)
    entropy_weight: float = setting(0.0, "Weight of the entropy bonus.", low=0, high=1_000_000)
    max_grad_norm: float = setting(0.5, "Where the norm of gradients is cut.", above=0, high=10**9)
    initial_log_std: float = setting(0.0, "Where the logarithm of σ starts.", low=-20, high=20)
    head_gain: float = setting(
        1.0,
        "Scale of the policy's last layer at the start.",
        low=0,
        high=1_000,
        omit_default=True,
        static=True,
    )
    horizon: int = setting(2048, "Steps of each environment in a rollout.", low=1, high=10**9)
    minibatches: int = setting(
        32, "Parts of a rollout, a step of learning each.", low=1, high=10**9
    )
    epochs: int = setting(10, "How often a rollout is gone through.", low=1, high=10_000)
    normalise: bool = setting(True, "Standardise observations, scale rewards.")
    normalise_advantages: str = setting(
        "none",
        "Whether advantages are standardised, once per rollout or in each minibatch.",
        choices=("none", "rollout", "minibatch"),
        omit_default=True,
    )
    hidden: tuple[int, ...] = setting(
        (64, 64), "Widths of the hidden layers.", low=1, high=1_000_000
    )
    layer_norm: str = setting("none", **LAYER_NORM)
    activation: str = setting(HEAD.activation, **ACTIVATION)


def activation(hp: Hyper) -> str:
    """Return the nonlinearity as `networks.orthogonal` takes it: "" for the usual one."""
    return activation_entry(hp, HEAD.activation)


class State(NamedTuple):
    """All that a run learns."""

    hyper: Any
    actor: Actor  # its "net" has "log_std" beside the layers
    critic: Net
    optimiser: Any  # of both
    strategy: Any
    rollouts: Array  # () learned from so far


class Loss(Protocol):
    """A loss of one update, the mean over its samples."""

    def __call__(self, now: Array, sample: Sample, hp: Any, /) -> Array:
        """`now`: (n,) the log-probabilities of actions, or the values of states, at the parameters
        that are learned; `sample` has those of before. Return ()."""
        ...


class Measure(Protocol):
    """Computes metrics of what one rollout has changed."""

    def __call__(self, ratio: Array, hp: Any, /) -> dict[str, Array]:
        """`ratio`: (n,) the actions' probabilities under the new policy over those under the old
        one. Return numbers () by name."""
        ...


class Parts(NamedTuple):
    """The functions in which on-policy algorithms differ."""

    policy_loss: Loss
    """Of the log-probabilities."""
    value_loss: Loss
    """Of the values."""
    optimiser: Callable[[Any], Optimiser]
    """(hyper) → the optimiser, which is given clipped gradients."""
    measure: Measure = lambda ratio, hp: {}


def blueprint(spec: Spec, hp: Hyper) -> Blueprint:
    """The actor's architecture, for strategies that own a network like it."""
    return Blueprint(
        init=lambda key, outputs: networks.orthogonal(
            key, spec.observation_size, hp.hidden, outputs, activation=activation(hp)
        ),
        apply=lambda net, obs: networks.apply(net, obs, HEAD.activation),
        outputs=spec.action_size,
        hidden=hp.hidden,
        density=True,
        samples=True,
        on_policy=True,
    )


def policy(nudge: Nudge, obs: Array) -> Array:
    """The mean action with the nudge's shift, not clipped: (n, observation) → (n, action)."""
    return mean_of(nudge, obs) + nudge.shift


def distribution(nudge: Nudge, obs: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the policy's own action, two of (n, action)."""
    mean, std = mean_of(nudge, obs), nudge.std
    if std is None:
        log_std = nudge.net["log_std"]["value"][..., None, :]
        std = networks.namespace(mean).exp(log_std) + 0.0 * mean
    return mean, std


def features(nudge: Nudge, obs: Array) -> Array:
    """The inputs of the actor's last layer: (n, observation) → (n, width)."""
    inputs = networks.with_context(obs, nudge.context)
    return networks.features(nudge.net, inputs, HEAD.activation)
