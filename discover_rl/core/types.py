"""Types that everything else is built on: spaces, transitions, batches, updates, nudges.

Actions are in units of the action box, −1 … 1 in every dimension, everywhere except in `envs` and
`storage.policies`, which convert to the task's units (`Spec.to_box`).

Nothing here imports JAX: a saved policy must load with NumPy alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import jax
    import optax

    Array = np.ndarray | jax.Array
    """An array of NumPy's or of JAX's."""
    Key = jax.Array
    """A key of JAX's random numbers."""
    Optimiser = optax.GradientTransformation
    """An optimiser of Optax's."""
else:
    Array = Key = Optimiser = Any

Net = Mapping[str, Mapping[str, Any]]
"""The parameters of one network: layer name → {"weight", "bias", …}."""
Actor = Mapping[str, Any]
"""What the actor's optimiser trains: "net", the network, and "joint", what a strategy adds."""
Role = Literal["target", "actor"]
"""Where in learning a policy is evaluated: in the critic's target, or in the actor's loss."""


LARGEST_SEED = 2**32 - 1001
"""The largest seed of a run. Evaluations use seeds above their run's, so some are left free."""


class UserError(Exception):
    """A mistake that the user can correct. The message is one sentence and says how."""


class Stopped(Exception):
    """Training was asked to stop and left a checkpoint at `step`."""

    def __init__(self, step: int):
        super().__init__(step)
        self.step = step


@dataclass(frozen=True)
class Spec:
    """The spaces of a task.

    >>> spec = Spec((3,), (1,), low=(-2.0,), high=(2.0,))
    >>> spec.observation_size, spec.action_size
    (3, 1)
    >>> spec.to_box(np.array([0.5], np.float32))
    array([1.], dtype=float32)
    """

    observation_shape: tuple[int, ...]
    action_shape: tuple[int, ...]
    low: tuple[float, ...]
    """Lower bounds of the action box, flat, one per dimension."""
    high: tuple[float, ...]
    """Upper bounds of the action box, flat, one per dimension."""
    time_limit: int | None = field(default=None, compare=False)
    """The largest number of steps of an episode; None if there is no limit."""

    @property
    def observation_size(self) -> int:
        """Numbers in an observation."""
        return math.prod(self.observation_shape)

    @property
    def action_size(self) -> int:
        """Numbers in an action."""
        return len(self.low)

    def to_box(self, action: Any) -> Any:
        """Convert actions in −1 … 1 to the task's units, clipped to its bounds.

        Args:
            action: (…, action), a NumPy or JAX array.

        Returns:
            (…, *action_shape), of the same kind of array.
        """
        low, high, centre, half = self._bounds
        return (
            (centre + half * action).clip(low, high).reshape(action.shape[:-1] + self.action_shape)
        )

    def from_box(self, action: Any) -> Any:
        """Convert actions in the task's units to −1 … 1, the inverse of `to_box`.

        Args:
            action: (…, *action_shape), a NumPy or JAX array.

        Returns:
            (…, action), of the same kind of array.

        >>> Spec((3,), (1,), low=(-2.0,), high=(2.0,)).from_box(np.array([1.0], np.float32))
        array([0.5], dtype=float32)
        """
        _, _, centre, half = self._bounds
        leading = action.shape[: action.ndim - len(self.action_shape)]
        return (action.reshape(*leading, self.action_size) - centre) / half

    @property
    def fits_single_precision(self) -> bool:
        """Whether the bounds are finite and distinct in single precision."""
        with np.errstate(over="ignore"):
            low, high, *middle = self._bounds
        return bool(np.isfinite([low, high, *middle]).all() and (low < high).all())

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        # A double-precision bound may lie between two single-precision numbers: take the one
        # inside the box.
        low = np.where(low < np.asarray(self.low), np.nextafter(low, np.float32(np.inf)), low)
        high = np.where(high > np.asarray(self.high), np.nextafter(high, np.float32(-np.inf)), high)
        return low, high, (high + low) / 2, (high - low) / 2


class Batch(NamedTuple):
    """n transitions sampled from the replay buffer."""

    obs: Array  # (n, observation)
    bare: Array  # (n, action) the policy's own action
    executed: Array  # (n, action) the action sent to the environment: shifted, then clipped
    reward: Array  # (n,)
    terminated: Array  # (n,) True masks the bootstrap; a truncation never does
    next_obs: Array  # (n, observation) the true one, also where an episode ended


class ReplayExport(NamedTuple):
    """All transitions that a finished run's replay buffer held, oldest first; n of them."""

    obs: np.ndarray  # (n, observation) as the task gave them
    executed: np.ndarray  # (n, action) in −1 … 1
    reward: np.ndarray  # (n,)
    terminated: np.ndarray  # (n,)
    ended: np.ndarray  # (n,) terminated or truncated
    error: np.ndarray  # (n,) |TD error| under the last critics


class Rollout(NamedTuple):
    """T steps of n environments of one run, as the networks see them."""

    obs: Array  # (T, n, observation)
    context: Array  # (T, n, context) what the strategy appended to the observation
    action: Array  # (T, n, action) the policy's own, not clipped
    reward: Array  # (T, n)
    terminated: Array  # (T, n)
    ended: Array  # (T, n) terminated or truncated
    next_obs: Array  # (T, n, observation) the true ones, also where an episode ended
    # The strategy's memory at each step, (T, n, …), if learning has to recall it; else (). When a
    # rollout is learned from, this is the distinct memories (k, …) and an index of them (T, n).
    memory: Any = ()


class Transition(NamedTuple):
    """An environment's answer to its last action."""

    reward: Array | float  # ()
    terminated: Array | bool  # ()
    ended: Array | bool  # () terminated or truncated
    next_obs: Array  # (observation,) the observation that the action led to
    obs: Array  # (observation,) where to act next: `next_obs`, or the first of a new episode


class Action(NamedTuple):
    """An action, before and after the strategy."""

    bare: Array  # (action,) the policy's own
    executed: Array  # (action,) what is sent to the environment


class Losses(NamedTuple):
    """The losses of one update; 0 for those that it did not compute."""

    critic: Array | float = 0.0
    actor: Array | float = 0.0
    strategy: Array | float = 0.0


class Update(NamedTuple):
    """One gradient update to do after an environment step."""

    actor: bool = True  # update the actor too, not only the critics
    targets: bool = True  # update the target networks
    strategy: bool = True  # let the strategy make its own step
    recent: int = 0  # sample the batch from this many newest transitions; 0: from all


class StrategyEvent(NamedTuple):
    """A strategy's own event before, between or after updates (`Schedule.on_event`)."""

    name: str


class Nudge(NamedTuple):
    """The change that a strategy makes to a policy at one moment.

    The default of every field but `net` changes nothing. A policy without noise of its own (DDPG,
    TD3) ignores `noise`, `std` and `spread`.
    """

    net: Net  # the actor's network, or a perturbed copy of it
    context: Array | None = None  # (n, context) appended to the observation
    shift: Array | float = 0.0  # (n, action) added to the action, after squashing
    mean_shift: Array | None = None  # (n, action) added to the policy's mean, before squashing
    noise: Array | None = None  # (n, action) in place of the policy's own standard normal numbers
    std: Array | None = None  # (n, action) in place of the policy's own standard deviation
    spread: Array | float = 0.0  # (n, action) added to that standard deviation in quadrature
    critic: Net | None = None  # on-policy, in place of the algorithm's own value network
    # (n, width) off-policy: the inputs of the last layer of `net`, if the strategy has computed
    # them. The algorithm does not compute them again, and gradients pass the other layers once.
    features: Array | None = None


class PolicyHead(NamedTuple):
    """How the outputs of an actor's network become a mean action."""

    activation: str = "relu"  # of the hidden layers
    squash: bool = True  # tanh after the last layer


class CriticHead(NamedTuple):
    """Which inputs a critic's network takes, and where."""

    activation: str = "relu"  # of the hidden layers
    action: str = "input"  # where the action enters: "input", "second layer", or "" for V(s)
