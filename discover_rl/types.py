"""The words of the house as types: what algorithms, strategies and the loop say to each other.

A *strategy* touches a policy in three places only: in its parameters, at its input, on its output.
What it does there at one moment is a `Nudge`. An *algorithm* shows a strategy a `View` of itself
and nothing else. Both are NamedTuples of pure functions over a state; a variant replaces a
function, and "no exploration" is `Strategy()`, whose every function is the identity.

Actions are in units of the action box, −1 … 1 in every dimension, everywhere except in `envs.py`
and `policy.py`, which translate at the border.

Nothing here imports JAX: a saved policy must load with NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    def to_box(self, action: np.ndarray) -> np.ndarray:
        """(…, action) in −1 … 1 → (…, *action_shape) in the task's units, never out of bounds."""
        low, high, centre, half = self._border
        inside = np.minimum(np.maximum(centre + half * action, low), high)
        return inside.reshape(action.shape[:-1] + self.action_shape)

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


class Rollout(NamedTuple):
    """A horizon of steps of one run: T steps of n environments, as the networks see them."""

    obs: Array  # (T, n, observation)
    context: Array  # (T, n, context) what the strategy appended
    action: Array  # (T, n, action) the policy's own, not clipped
    reward: Array  # (T, n)
    terminated: Array  # (T, n)
    ended: Array  # (T, n) terminated or truncated
    next_obs: Array  # (T, n, observation) the true ones, also where an episode ended


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


class Form(NamedTuple):
    """How an actor's network becomes a mean action."""

    activation: str = "relu"
    squash: bool = True  # tanh after the head


class Blueprint(NamedTuple):
    """How an algorithm builds its actor's network, so that a strategy can own one just like it."""

    init: Callable[[Any, int], Net]  # (key, outputs) → parameters
    # (parameters, observations) → outputs before any squashing
    apply: Callable[[Net, Array], Array]
    outputs: int  # of the actor's own network
    density: bool = False  # whether the policy has one, so that `spread` means something
    # Where a direction of exploration enters: added to the action, or beside the observation.
    directs: Literal["action", "observation"] = "action"
    warmup: int = 0  # steps of uniform actions before the policy acts


def _not_here(*_: Any) -> Any:
    raise TypeError("this view belongs to acting: it has no error to ask for")


class View(NamedTuple):
    """All that an algorithm shows a strategy."""

    params: Actor  # the actor in question: online or target
    policy: Callable[[Nudge, Array], Array]  # (nudge, obs) → mean action, shifted, not clipped
    features: Callable[[Nudge, Array], Array]  # (nudge, obs) → inputs of the actor's last layer
    optimiser: Any  # the actor's, learning rate included; None where there is only acting
    error: Callable[[Nudge, Batch], Array] = _not_here  # → (n,) squared TD error, if nudged so
    student: Any = ()  # all that learning moves, as `turn` may save it and give it back


class Strategy(NamedTuple):
    """How an agent explores, as pure functions over a state of the strategy's own.

    Every default is the identity. The state is what a run learns; a memory is what an environment's
    episode leaves with the strategy, made by `begin` and carried along by `behave`.

    `behave` and `greedy` are written for NumPy and JAX alike and draw no random numbers: these come
    in as `noise`, made by `draw`. The other functions run under JAX only.
    """

    # (key, hyper, view) → state
    init: Callable[..., Any] = lambda key, hyper, view: ()
    # (key, hyper, net) → parameters that the actor's loss and optimiser train with the actor
    joint: Callable[..., Any] = lambda key, hyper, net: {}
    # (state, view, key) → memory; an episode starts: what is remembered for as long as it lasts
    begin: Callable[..., Any] = lambda state, view, key: ()
    # (key) → the random numbers that one call of behave takes
    draw: Callable[..., Any] = lambda key: ()
    # (state, memory, view, obs, noise, warmup) → (memory, nudge); acting, obs is (1, observation)
    behave: Callable[..., tuple[Any, Nudge]] = lambda state, memory, view, obs, noise, warmup: (
        memory,
        Nudge(view.params["net"]),
    )
    # (state, view, obs, key, role) → nudge; learning, obs is a batch; differentiable
    expect: Callable[..., Nudge] = lambda state, view, obs, key, role: Nudge(view.params["net"])
    # (state, params) → nudge; evaluating
    greedy: Callable[..., Nudge] = lambda state, params: Nudge(params["net"])
    # (state, view, batch, key) → (state, loss); the strategy's own step
    learn: Callable[..., tuple[Any, Any]] = lambda state, view, batch, key: (state, 0.0)
    # (state, follow) → state; follow(online, target) → target is the algorithm's own rule
    track: Callable[..., Any] = lambda state, follow: state
    # (state, view, batch) → {name: number} to be written beside evaluations
    report: Callable[..., dict[str, Any]] = lambda state, view, batch: {}
    # (state, memory, seen) → state; what the environment answered to the action that left `memory`
    hears: Callable[..., Any] | None = None
    # (step, due) → what to do once `step` steps have been made; due(step) are the updates that the
    # algorithm would do; runs on the host
    plan: Callable[..., tuple[Update | Turn, ...]] = lambda step, due: due(step)
    # (state, view, name) → (state, student); a Turn of its plan: it may put back another student
    turn: Callable[..., tuple[Any, Any]] = lambda state, view, name: (state, view.student)
    # (step) → whether episodes that are running after `step` steps are cut off; runs on the host
    cuts: Callable[[int], bool] = lambda step: False
    # When learn is called: after each step of the actor, or after each step of the critic.
    cadence: Literal["actor", "critic"] = "actor"
    # And of these steps, at every so many-th alone.
    every: int = 1
    # True: the strategy moves the target action itself, so the algorithm adds no smoothing noise.
    smooths: bool = False
    # How many numbers it appends to the observation.
    context_size: int = 0
    # Whether the actor's hidden layers are normalised before their nonlinearity.
    layer_norm: bool = False


class Algorithm(NamedTuple):
    """How an agent learns, as pure functions over one state, with a strategy wedded in.

    `act` is written for NumPy and JAX alike; its random numbers come from `draw`.
    """

    # (key, hyper, strategy's hyper) → state
    init: Callable[..., Any]
    # (state, key) → the strategy's memory; an episode starts
    begin: Callable[..., Any]
    # (key) → the random numbers that one call of act takes
    draw: Callable[..., Any]
    # (state, memory, obs, noise, step) → (state, memory, action); step counts the environment steps
    # made so far
    act: Callable[..., tuple[Any, Any, Action]]
    # (state, batch, key, update, progress) → (state, losses); one gradient update. `update` is
    # static; progress is the share of the run that lies behind, for what decays
    learn: Callable[..., tuple[Any, Losses]]
    # (state, batch, key) → {name: number}, for the record; changes nothing
    report: Callable[..., dict[str, Any]]
    # (state) → the network that evaluation uses
    greedy: Callable[..., Nudge]
    # (step) → the updates to do once `step` environment steps have been made; runs on the host
    due: Callable[[int], tuple[Update, ...]]
    form: Form
    # (state, name) → state; the strategy's turn
    turn: Callable[..., Any]
    # (state, memory, seen) → state; None: the strategy does not listen
    hears: Callable[..., Any] | None = None


class OnPolicy(NamedTuple):
    """An algorithm that learns from whole rollouts of its present policy, and then drops them.

    What `acting` gives runs on the host, in NumPy, while parameters stand still.
    """

    # (key, hyper, strategy's hyper) → state
    init: Callable[..., Any]
    # (state, key) → the strategy's memory; an episode starts
    begin: Callable[..., Any]
    # (key) → the random numbers that one call of act takes
    draw: Callable[..., Any]
    # (state) → (memory, obs, noise) → (memory, nudge, own action); obs is (1, observation)
    acting: Callable[..., Callable[..., tuple[Any, Nudge, Array]]]
    # (state, rollout, key, progress) → (state, losses, {name: number} for the record)
    learn: Callable[..., tuple[Any, Losses, dict[str, Any]]]
    # (state) → the network that evaluation uses
    greedy: Callable[..., Nudge]
    form: Form
