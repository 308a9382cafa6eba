"""The words of the house as types: what algorithms, strategies and the loop say to each other.

Actions are in units of the action box, −1 … 1 in every dimension, everywhere except in `envs.py`
and `policy.py`, which translate at the border.

Nothing here imports JAX: a saved policy must load with NumPy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import jax
    import optax

    Array = np.ndarray | jax.Array
    Optimiser = optax.GradientTransformation
else:
    Array = Optimiser = Any

Net = Mapping[str, Mapping[str, Any]]
"""The parameters of one network: layer name → {"weight", "bias", …}."""
Actor = Mapping[str, Any]
"""What the actor's optimiser trains: "net", the network, and "joint", what a strategy adds."""
Role = Literal["target", "actor"]
"""Where in learning a policy is evaluated: in the critic's target, or in the actor's loss."""


class UserError(Exception):
    """A mistake the user can mend. The message is one sentence and names the way out."""


class Stopped(Exception):
    """Training was asked to stop and left a checkpoint at this step."""

    def __init__(self, step: int):
        super().__init__(step)
        self.step = step


@dataclass(frozen=True)
class Spec:
    """The spaces of a task, and the border between the action box and −1 … 1."""

    observation_shape: tuple[int, ...]
    action_shape: tuple[int, ...]
    low: tuple[float, ...]  # action bounds, flat, one pair per dimension
    high: tuple[float, ...]

    @property
    def observation_size(self) -> int:
        return int(np.prod(self.observation_shape))

    @property
    def action_size(self) -> int:
        return len(self.low)

    def to_box(self, action: Any) -> Any:
        """(…, action) in −1 … 1 → (…, *action_shape) in the task's units, never out of bounds; for
        NumPy and JAX alike."""
        low, high, centre, half = self._border
        return (
            (centre + half * action).clip(low, high).reshape(action.shape[:-1] + self.action_shape)
        )

    @cached_property
    def _border(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        return low, high, (high + low) / 2, (high - low) / 2


class Batch(NamedTuple):
    """Transitions to learn from; n of them."""

    obs: Array  # (n, observation)
    bare: Array  # (n, action) what the policy did by itself
    executed: Array  # (n, action) what was done: with the strategy's shift, clipped
    reward: Array  # (n,)
    terminated: Array  # (n,) True masks the bootstrap; a truncation never does
    next_obs: Array  # (n, observation) the true one, also where an episode ended


class Visits(NamedTuple):
    """All transitions that a finished run still had, in order of time; n of them."""

    obs: np.ndarray  # (n, observation) as the task gave them
    executed: np.ndarray  # (n, action) in −1 … 1
    reward: np.ndarray  # (n,)
    terminated: np.ndarray  # (n,)
    ended: np.ndarray  # (n,) terminated or truncated
    error: np.ndarray  # (n,) |TD error| under the last critics


class Rollout(NamedTuple):
    """A horizon of steps of one run: T steps of n environments, as the networks see them."""

    obs: Array  # (T, n, observation)
    context: Array  # (T, n, context) what the strategy appended
    action: Array  # (T, n, action) the policy's own, not clipped
    reward: Array  # (T, n)
    terminated: Array  # (T, n)
    ended: Array  # (T, n) terminated or truncated
    next_obs: Array  # (T, n, observation) the true ones, also where an episode ended
    # What the strategy remembered at each, if that is to be recalled, else (): (T, n, …); once it
    # is learned from, the different ones (k, …) and which of them it was (T, n).
    memory: Any = ()


class Seen(NamedTuple):
    """What an environment answered to its last action."""

    reward: Array | float  # ()
    terminated: Array | bool  # ()
    ended: Array | bool  # () terminated or truncated
    next_obs: Array  # (observation,) what the action led to
    obs: Array  # (observation,) where to act next: `next_obs`, or the first of a new episode


class Action(NamedTuple):
    bare: Array  # (action,) the policy's own
    executed: Array  # (action,) what goes to the environment


class Losses(NamedTuple):
    """One number per loss that an update computed; 0 for those it did not."""

    critic: Array | float = 0.0
    actor: Array | float = 0.0
    strategy: Array | float = 0.0


class Update(NamedTuple):
    """One gradient update to do after an environment step."""

    actor: bool = True  # step the actor too, not only the critics
    targets: bool = True  # let the target networks follow
    strategy: bool = True  # let the strategy make its own step
    recent: int = 0  # draw the batch from this many newest transitions; 0: from all


class Turn(NamedTuple):
    """The strategy's own turn, before, between or after updates."""

    name: str  # what `Strategy.turn` is told


class Nudge(NamedTuple):
    """What a strategy does to a policy at one moment."""

    net: Net  # the actor's network, or a perturbed copy of it
    context: Array | None = None  # appended to the observation
    shift: Array | float = 0.0  # added to the action
    spread: Array | float = 0.0  # extra standard deviation, where the policy has one
    critic: Net | None = None  # on-policy, the value network in place of the algorithm's own


class Form(NamedTuple):
    """How an actor's network becomes a mean action."""

    activation: str = "relu"
    squash: bool = True  # tanh after the head
