"""The interface between an algorithm and the agent that runs it.

Both kinds are NamedTuples of pure functions over one state. The strategy is built in: its state is
part of the algorithm's. In all signatures `state` is of one run, without lanes, `memory` the
strategy's memory of a running episode, and `key` of the random numbers of that call alone.
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
    Spec,
    Transition,
    Update,
)
from discover_rl.strategies.interface import Blueprint, Strategy

State = Any
"""Everything that a run learns, the strategy's state included: a pytree of arrays."""
Memory = Any
"""The strategy's memory of the running episode: a pytree of arrays."""


class Init(Protocol):
    """Makes the state of a run that starts."""

    def __call__(self, key: Key, hyper: Any, strategy_hyper: Any, /) -> State:
        """Both hyper-parameters are pytrees whose floats are arrays ()."""
        ...


class Begin(Protocol):
    """Makes the strategy's memory of an episode that starts."""

    def __call__(self, state: State, key: Key, /) -> Memory:
        """`key`: of this episode alone."""
        ...


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


class Learn(Protocol):
    """Makes one gradient update, off-policy."""

    def __call__(
        self, state: State, batch: Batch, key: Key, update: Update, progress: Any, /
    ) -> tuple[State, Losses]:
        """Return the new state and the losses.

        Args:
            state: of the run.
            batch: (n, …) transitions from the replay buffer.
            key: of the random numbers.
            update: what takes part; static.
            progress: the share of the run that is done.
        """
        ...


class LearnRollout(Protocol):
    """Makes all updates with one rollout, on-policy."""

    def __call__(
        self, state: State, belief: Any, rollout: Rollout, key: Key, progress: Any, /
    ) -> tuple[State, Any, Losses, dict[str, Array]]:
        """Return the new state and belief, the mean losses, and diagnostics by name.

        Args:
            state: of the run.
            belief: (environments, …) what the strategy's `Density.log_prob` knew of each
                environment's episode when the rollout began; it returns what is known at the end.
            rollout: (T, environments, …).
            key: of the random numbers.
            progress: the share of the run that was done when the rollout began.
        """
        ...


class OnEvent(Protocol):
    """Handles an event of the strategy's schedule."""

    def __call__(self, state: State, name: str, /) -> State:
        """`name`: of the `StrategyEvent`; static."""
        ...


class OnTransition(Protocol):
    """Shows the strategy a transition before the next action is chosen."""

    def __call__(self, state: State, memory: Memory, transition: Transition, /) -> State:
        """`transition`: of one environment, as the task gave it."""
        ...


class OnReward(Protocol):
    """Counts a reward in running statistics, before a new episode begins."""

    def __call__(self, state: State, memory: Memory, reward: Any, /) -> tuple[State, Memory]:
        """`reward`: (), as the task paid it."""
        ...


class Diagnose(Protocol):
    """Computes diagnostics from a batch, off-policy, and changes nothing."""

    def __call__(self, state: State, batch: Batch, key: Key, progress: Any = 0.0) -> Any:
        """`key`: for targets that are sampled; `progress`: the share of the run behind."""
        ...


class Measure(Protocol):
    """Computes metrics of a run while it trains, off-policy, and changes nothing."""

    def __call__(
        self, state: State, batch: Batch, recent: Batch, key: Key, progress: Any = 0.0
    ) -> dict[str, Array]:
        """Return numbers () by name.

        Args:
            state: of the run.
            batch: (n, …) the transitions that losses are computed on.
            recent: (m, …) a sample of the newest transitions.
            key: for sampled actions.
            progress: the share of the run behind.
        """
        ...


class MeasureRollout(Protocol):
    """Computes metrics of learning from one rollout, on-policy."""

    def __call__(
        self, before: State, after: State, belief: Any, rollout: Rollout, key: Key, progress: Any
    ) -> dict[str, Array]:
        """Return numbers () by name.

        Args:
            before: the state before `learn`, with which the rollout was made.
            after: the state that `learn` returned.
            belief: as `learn` takes it.
            rollout: as `learn` takes it.
            key: as `learn` takes it.
            progress: as `learn` takes it.
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
    """Makes the function that chooses actions until the agent learns again."""

    def __call__(self, state: State, progress: Any = 0.0) -> HostAct:
        """`progress`: the share of the run that is done."""
        ...


class OffPolicyAlgorithm(NamedTuple):
    """An algorithm that learns from a replay buffer, in updates after environment steps."""

    init: Init
    begin: Begin
    draw: Callable[[Key], Any]
    """(key) → the random numbers that one call of `act` takes."""
    act: Act
    learn: Learn
    report: Diagnose
    """→ {name: number}, diagnostics."""
    measure: Measure
    """→ {name: number}, losses, learning rates and other metrics that `report` does not have."""
    errors: Diagnose
    """→ (n,) |y − Q(s, ã)|, mean over critics; y is the target they learn from."""
    greedy: Callable[[State], Nudge]
    """(state) → the network that evaluation uses."""
    due: Callable[[int], tuple[Update, ...]]
    """(step) → the updates that follow the `step`-th environment step. Runs on the host."""
    head: PolicyHead
    critic: Callable[[State], Net]
    """(state) → the critics' network, to be applied by `networks.critic_value`."""
    critic_head: CriticHead
    on_event: OnEvent
    on_transition: OnTransition | None = None
    """None if the strategy does not use transitions."""
    on_reward: OnReward | None = None
    """None if the algorithm keeps no statistics of rewards."""
    act_changes_state: bool = False
    """Whether `act` or `on_reward` changes the state."""


class OnPolicyAlgorithm(NamedTuple):
    """An algorithm that learns from whole rollouts of its present policy, and then drops them."""

    init: Init
    begin: Begin
    draw: Callable[[Key], Any]
    """(key) → the random numbers of one action."""
    acting: Acting
    learn: LearnRollout
    measure: MeasureRollout
    greedy: Callable[[State], Nudge]
    """(state) → the network that evaluation uses."""
    head: PolicyHead
    critic: Callable[[State], Net]
    """(state) → the critics' network, to be applied by `networks.critic_value`."""
    critic_head: CriticHead


class AlgorithmModule(Protocol):
    """What an algorithm's file has, and any other object that is registered as an algorithm."""

    Hyper: Any
    """The class of its hyper-parameters, made by `core.hyperparameters.hyper` from that of its
    family. Its class variable `on_policy` says which family that is."""

    def blueprint(self, spec: Spec, hp: Any, /) -> Blueprint:
        """Return what a strategy may know of the algorithm when it is made.

        Args:
            spec: the spaces of the task.
            hp: the algorithm's hyper-parameters; only those that all runs of a cohort share.
        """
        ...

    def make(
        self, spec: Spec, settings: Any, strategy: Strategy, /
    ) -> OffPolicyAlgorithm | OnPolicyAlgorithm:
        """Build the algorithm, with a strategy in it, for the runs of a cohort.

        Args:
            spec: the spaces of their task.
            settings: the hyper-parameters of one of the runs. Only those that all runs share may
                be read here: floats come with the state, one value per run.
            strategy: how they explore.
        """
        ...
