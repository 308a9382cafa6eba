"""What an algorithm is to the agent that runs it.

Both kinds are NamedTuples of pure functions over one state. The strategy is built in: its state is
part of the algorithm's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from discover_rl.core.types import (
    Action,
    Array,
    Batch,
    CriticHead,
    Key,
    Losses,
    Net,
    Nudge,
    PolicyHead,
    Rollout,
    Transition,
    Update,
)

State = Any
"""All that a run learns, the strategy's state included: a pytree of arrays."""
Memory = Any
"""What the strategy remembers of the running episode: a pytree of arrays."""


class Act(Protocol):
    """Chooses one action, off-policy."""

    def __call__(
        self, state: State, memory: Memory, obs: Array, noise: Any, step: Any, progress: Any = 0.0
    ) -> tuple[State, Memory, Action]:
        """Choose the action of one environment.

        Args:
            state: of the run.
            memory: of the running episode.
            obs: (observation,).
            noise: what `draw` drew.
            step: number of environment steps made so far.
            progress: their share of the run.
        """
        ...


class Diagnose(Protocol):
    """Computes something from a batch, off-policy; nothing is learned by it."""

    def __call__(self, state: State, batch: Batch, key: Key, progress: Any = 0.0) -> Any:
        """`key`: for targets that are sampled; `progress`: the share of the run behind."""
        ...


class Measure(Protocol):
    """Computes the metrics of a run while it trains, off-policy; nothing is learned by it."""

    def __call__(
        self, state: State, batch: Batch, recent: Batch, key: Key, progress: Any = 0.0
    ) -> dict[str, Array]:
        """Return numbers () by name.

        Args:
            state: of the run.
            batch: (n, …) what losses are computed on.
            recent: (m, …) of the newest transitions.
            key: for what is sampled.
            progress: the share of the run behind.
        """
        ...


class MeasureRollout(Protocol):
    """Computes the metrics of what was learned from a rollout, on-policy."""

    def __call__(
        self, before: State, after: State, belief: Any, rollout: Rollout, key: Key, progress: Any
    ) -> dict[str, Array]:
        """Return numbers () by name.

        Args:
            before: the state that the rollout was made with.
            after: what `learn` made of it.
            belief, rollout, key, progress: those that `learn` was given.
        """
        ...


class HostAct(Protocol):
    """Chooses actions on the host, in NumPy, on-policy."""

    def __call__(self, memory: Memory, obs: Array, noise: Any, /) -> tuple[Memory, Nudge, Array]:
        """Return the memory, the nudge and the policy's own action.

        `obs` is (1, observation). All arrays may have environments in front.
        """
        ...


class Acting(Protocol):
    """Makes the function that acts until the next rollout is learned from."""

    def __call__(self, state: State, progress: Any = 0.0) -> HostAct:
        """`progress`: the share of the run that lies behind."""
        ...


class OffPolicyAlgorithm(NamedTuple):
    """An algorithm that learns from a replay buffer, in updates after environment steps."""

    init: Callable[[Key, Any, Any], State]
    """(key, hyper, strategy's hyper) → the state of a run that starts."""
    begin: Callable[[State, Key], Memory]
    """(state, key) → the strategy's memory of an episode that starts."""
    draw: Callable[[Key], Any]
    """(key) → the random numbers that one call of `act` takes."""
    act: Act
    learn: Callable[[State, Batch, Key, Update, Any], tuple[State, Losses]]
    """(state, batch, key, update, progress) → (state, losses): one gradient update. `update` is
    static; `progress` is the share of the run that lies behind."""
    report: Diagnose
    """→ {name: number}, diagnostics."""
    measure: Measure
    """→ {name: number}, losses, learning rates and the like; what `report` has not."""
    errors: Diagnose
    """→ (n,) |y − Q(s, ã)|, mean over critics, y as they learn."""
    greedy: Callable[[State], Nudge]
    """(state) → the network that evaluation uses."""
    due: Callable[[int], tuple[Update, ...]]
    """(step) → the updates that follow the `step`-th environment step. Runs on the host."""
    head: PolicyHead
    critic: Callable[[State], Net]
    """(state) → the critics' network, to be applied by `networks.critic_value`."""
    critic_head: CriticHead
    on_event: Callable[[State, str], State]
    """(state, name) → state, after an event of the strategy's schedule."""
    on_transition: Callable[[State, Memory, Transition], State] | None = None
    """(state, memory, transition) → state; None unless the strategy has one."""
    on_reward: Callable[[State, Memory, Any], tuple[State, Memory]] | None = None
    """(state, memory, reward) → (state, memory), before an episode's end is acted upon; None: the
    size of rewards is not kept."""
    act_changes_state: bool = False
    """Whether `act` or `on_reward` returns another state than it was given."""


class OnPolicyAlgorithm(NamedTuple):
    """An algorithm that learns from whole rollouts of its present policy, and then drops them."""

    init: Callable[[Key, Any, Any], State]
    """(key, hyper, strategy's hyper) → the state of a run that starts."""
    begin: Callable[[State, Key], Memory]
    """(state, key) → the strategy's memory of an episode that starts."""
    draw: Callable[[Key], Any]
    """(key) → the random numbers of one action."""
    acting: Acting
    learn: Callable[[State, Any, Rollout, Key, Any], tuple[State, Any, Losses, dict[str, Array]]]
    """(state, belief, rollout, key, progress) → (state, belief, losses, diagnostics). `belief` is
    what the strategy's `Density.log_prob` knows of each environment's episode."""
    measure: MeasureRollout
    greedy: Callable[[State], Nudge]
    """(state) → the network that evaluation uses."""
    head: PolicyHead
    critic: Callable[[State], Net]
    """(state) → the critics' network, to be applied by `networks.critic_value`."""
    critic_head: CriticHead
