"""The building blocks of an off-policy algorithm: hyper-parameters, state, and `Parts`.

`Parts` are the functions in which DDPG, TD3 and SAC differ. `off_policy.make` turns them into an
algorithm. In their signatures `state` is the `State` of one run, without lanes, `nudge` the
strategy's, and `key` of the random numbers of that call alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import optax

from discover_rl.algorithms.shared_settings import (
    ACTIVATION,
    LAYER_NORM,
    LR_DECAY_SHARE,
    activation_entry,
)
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
from discover_rl.strategies.interface import Blueprint, Distribution, MeanAction

HEAD = PolicyHead(activation="relu", squash=True)
"""How an off-policy actor's outputs become a mean action."""


@hyper
class Hyper:
    """Hyper-parameters of every off-policy algorithm; a subclass may change their defaults.

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
    lr_decay_share: float = setting(1.0, **LR_DECAY_SHARE)
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
    layer_norm: str = setting("none", **LAYER_NORM)
    activation: str = setting(HEAD.activation, **ACTIVATION)
    normalise: bool = setting(
        False, "Standardise observations by their running statistics.", omit_default=True
    )
    normalise_rewards: bool = setting(
        False, "Divide rewards by the deviation of the discounted return.", omit_default=True
    )


def activation(hp: Hyper) -> str:
    """Return the nonlinearity as `networks.init` takes it: "" for the usual one."""
    return activation_entry(hp, HEAD.activation)


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
    return networks.tanh(distribution(nudge, obs)[0]) + nudge.shift


def distribution(nudge: Nudge, obs: Array) -> tuple[Array, None]:
    """The action of a deterministic policy before squashing, (n, action); it has no std."""
    mean = networks.output(nudge.net, features(nudge, obs))
    return (mean if nudge.mean_shift is None else mean + nudge.mean_shift), None


def _adam(hp: Any) -> Optimiser:
    return optax.adam(hp.critic_lr)


class Target(Protocol):
    """Computes y, what the critics learn."""

    def __call__(self, state: State, nudge: Nudge, batch: Batch, key: Key, /) -> Array:
        """`nudge`: the strategy's, at the batch's next observations. Return (n,)."""
        ...


class ActorLoss(Protocol):
    """Computes the actor's loss; differentiable in the nudge."""

    def __call__(self, state: State, nudge: Nudge, obs: Array, key: Key, /) -> tuple[Array, Any]:
        """`nudge`: the strategy's, at `obs`, (n, observation). Return the loss, (), and any value
        that `Parts.after_actor` and `Parts.measure` are to get."""
        ...


class AfterActor(Protocol):
    """Makes the next `State.extra`, after an update of the actor."""

    def __call__(self, state: State, hp: Any, result: Any, /) -> Any:
        """`hp`: with the learning rates of now; `result`: the second value of `actor_loss`."""
        ...


class QFunction(Protocol):
    """Computes the values of an ensemble of critics."""

    def __call__(self, critics: Net, obs: Array, action: Array, /) -> Array:
        """`obs`: (n, observation); `action`: (n, action). Return (critics, n)."""
        ...


class Sample(Protocol):
    """Samples an action of the policy's own."""

    def __call__(self, nudge: Nudge, obs: Array, noise: Any, /) -> Array:
        """`obs`: (n, observation); `noise`: what `Parts.draw` drew. Return (n, action)."""
        ...


class Draw(Protocol):
    """Draws the noise that `Sample` takes."""

    def __call__(self, key: Key, shape: tuple[int, ...], /) -> Any:
        """`shape`: of the actions."""
        ...


class Parts(NamedTuple):
    """The functions and numbers in which off-policy algorithms differ.

    The first three have to be given; the defaults are those of a deterministic policy.
    """

    critic: Callable[[Key], Net]
    """(key) → the parameters of one critic."""
    target: Target
    actor_loss: ActorLoss
    critics: int = 2
    q: QFunction = networks.q_value
    critic_head: CriticHead = CriticHead()
    """The inputs of a saved critic: `networks.critic_value` with this head computes `q`."""
    critic_optimiser: Callable[[Any], Optimiser] = _adam
    """(hyper) → the critics' optimiser."""
    outputs_per_action: int = 1
    """Outputs of the actor's network for each action dimension."""
    policy: MeanAction = policy
    distribution: Distribution = distribution
    sample: Sample | None = None
    """None if the policy's own action is its mean."""
    draw: Draw = lambda key, shape: ()
    mean_net: Callable[[Net], Net] = lambda net: net
    """(net) → the network that gives only the mean action."""
    init_extra: Callable[[Any], Any] = lambda hp: ()
    """(hyper) → `State.extra`."""
    after_actor: AfterActor = lambda state, hp, result: state.extra
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
    """The actor takes part in every `actor_every`-th update."""
    targets_every: int = 1
    """The targets move with every `targets_every`-th update."""


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
    if nudge.features is not None:
        return nudge.features
    return networks.features(nudge.net, networks.with_context(obs, nudge.context), HEAD.activation)


def clip(action: Array) -> Array:
    """The action, clipped to the box −1 … 1."""
    return networks.namespace(action).clip(action, -1.0, 1.0)


def squared_error(values: Array, y: Array) -> Array:
    """Σᵢ (y − Qᵢ)²; (critics, n), (n,) → (n,)."""
    return ((y[None] - values) ** 2).sum(axis=0)
