"""The functions that a strategy consists of: what each takes and returns.

`interface.py` groups them by the moment at which they are called. Arguments that most of them have:

    state    the strategy's state, which is returned if it changes
    memory   the strategy's memory of a running episode
    view     what the algorithm shows (`interface.View`)
    key      of random numbers for this call alone
    hyper    the strategy's hyper-parameters; floats are arrays ()

All are of one run, without lanes, unless a function says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from discover_rl.core.types import (
    Actor,
    Array,
    Key,
    Net,
    Nudge,
    Role,
    StrategyEvent,
    Transition,
    Update,
)

if TYPE_CHECKING:
    from discover_rl.strategies.interface import View

State = Any
"""A strategy's state: any pytree of arrays. Floats of its hyper-parameters belong in it."""
Memory = Any
"""A strategy's memory of a running episode: any pytree of arrays, () if it has none."""


class Init(Protocol):
    """Makes the state of a run that starts."""

    def __call__(self, key: Key, hyper: Any, view: View, /) -> State:
        """`view`: of the algorithm before its first step. Return any pytree."""
        ...


class Inherit(Protocol):
    """Chooses what a run that starts from another one takes over from its strategy's state."""

    def __call__(self, fresh: State, old: State, /) -> State:
        """`fresh`: the state as `init` made it; `old`: the other run's, with the same shapes."""
        ...


class Begin(Protocol):
    """Makes the memory of an episode that starts."""

    def __call__(self, state: State, view: View, key: Key, /) -> Memory:
        """`key`: of this episode alone. Return arrays for one environment, without lanes."""
        ...


class Draw(Protocol):
    """Draws the random numbers that one call of `Behave` takes."""

    def __call__(self, key: Key, /) -> Any:
        """Return any pytree of arrays, those of actions (1, action)."""
        ...


class Behave(Protocol):
    """Nudges the policy while it acts. Draws nothing itself.

    Written for NumPy and JAX alike: A2C and PPO give it NumPy arrays and want such back, DDPG, TD3
    and SAC act inside a compiled program (`core.networks.namespace` tells which it is).
    """

    def __call__(
        self, state: State, memory: Memory, view: View, obs: Array, noise: Any, warmup: Any, /
    ) -> tuple[Memory, Nudge]:
        """Choose the nudge of one action.

        Args:
            state: of the strategy; not to be changed here.
            memory: of the running episode.
            view: of the algorithm.
            obs: (1, observation), as the networks see it.
            noise: what `Draw` drew.
            warmup: whether the action is going to be uniform; may be traced.

        On-policy, all environments act together: every array has them in front, (…, 1, size), and
        numbers of the state are (…, 1, 1). So count axes from the end.
        """
        ...


class Greedy(Protocol):
    """Chooses the network that is evaluated and saved."""

    def __call__(self, state: State, params: Actor, /) -> Nudge:
        """`params`: the online actor. Only the nudge's `net` counts."""
        ...


class Joint(Protocol):
    """Makes parameters that the actor's loss and optimiser train together with the actor."""

    def __call__(self, key: Key, hyper: Any, net: Net, critic: Net | None, /) -> Any:
        """`net`: the actor's network; `critic`: on-policy, the value network."""
        ...


class Expect(Protocol):
    """Nudges the policy inside the critics' target and the actor's loss. Differentiable."""

    def __call__(self, state: State, view: View, obs: Array, key: Key, role: Role, /) -> Nudge:
        """`obs`: (n, observation); `role`: "target" or "actor".

        On-policy there is no "actor": `role` is "target", `obs` are next observations, and only the
        nudge's `context` counts.
        """
        ...


class Step(Protocol):
    """The strategy's own update."""

    def __call__(
        self, state: State, view: View, batch: Any, key: Key, /
    ) -> tuple[State, Array | float]:
        """Return the new state and a loss to be reported.

        `batch` is a `Batch` off-policy and an `algorithms.likelihood.Sample` on-policy.
        """
        ...


class Follow(Protocol):
    """Moves target parameters towards the online ones, by the algorithm's own rule."""

    def __call__(self, online: Any, target: Any, /) -> Any:
        """Return the new target. Both are pytrees of the same structure."""
        ...


class UpdateTargets(Protocol):
    """Moves the strategy's target networks, whenever the algorithm moves its own; off-policy."""

    def __call__(self, state: State, follow: Follow, /) -> State:
        """`follow`: to be applied to each pair of online and target parameters."""
        ...


class Bonus(Protocol):
    """The strategy's own reward, added to the task's wherever the critics learn from it."""

    def __call__(self, state: State, view: View, batch: Any, /) -> Array:
        """Return (n,), already weighted and scaled. `batch` has `obs`, `executed`, `next_obs` and
        `reward`, all (n, …); on-policy `executed` is the policy's own action, not clipped."""
        ...


class Recall(Protocol):
    """On-policy: makes of a stored memory what `Behave` gets as its memory, with () as noise."""

    def __call__(self, memory: Memory, /) -> Any:
        """`memory`: of one environment, as it was when the episode or rollout began."""
        ...


class DensityNudge(Protocol):
    """On-policy: the nudge under which the policy acted at `obs`, at the present parameters."""

    def __call__(self, state: State, view: View, obs: Array, /) -> Nudge:
        """`obs`: (n, observation). The nudge's `context` is replaced by the one that was stored."""
        ...


class SequenceLogProb(Protocol):
    """On-policy: how likely actions were, each given those before it in its episode."""

    def __call__(self, state: State, view: View, belief: Any, piece: Any, /) -> tuple[Array, Any]:
        """Return (L,) log-probabilities and the belief after the last action.

        `piece` is an `algorithms.likelihood.Piece`: L consecutive steps of one environment.
        `belief` is what is known before the first of them.
        """
        ...


class Updates(Protocol):
    """Chooses the updates and events that follow an environment step."""

    def __call__(
        self, step: int, due: Callable[[int], tuple[Update, ...]], /
    ) -> tuple[Update | StrategyEvent, ...]:
        """`step`: how many steps were made; `due(step)`: the algorithm's own updates."""
        ...


class Truncate(Protocol):
    """Says whether running episodes are cut off, which counts as a truncation."""

    def __call__(self, step: int, /) -> bool:
        """`step`: the number, from 1 on, of the environment step after which they would end."""
        ...


class OnEvent(Protocol):
    """Handles a `StrategyEvent` of the strategy's own schedule."""

    def __call__(self, state: State, view: View, name: str, /) -> tuple[State, Any]:
        """Return the strategy's state, and the learned parameters to continue with: `view.learned`,
        or an earlier value of it."""
        ...


class OnTransition(Protocol):
    """Updates the strategy's state with each transition, before the next action is chosen."""

    def __call__(self, state: State, memory: Memory, transition: Transition, /) -> State:
        """Return the new state.

        Args:
            state: of the strategy.
            memory: of the episode that the transition belongs to, as `Behave` left it.
            transition: of one environment, with observations as the task gives them.
        """
        ...


class Report(Protocol):
    """Diagnostics of the strategy, written beside evaluations."""

    def __call__(self, state: State, view: View, batch: Any, /) -> dict[str, Array]:
        """Return numbers () by name; `view` and `batch` are those of `Step`."""
        ...
