"""What an algorithm is to the agent that runs it.

Both kinds are NamedTuples of pure functions over one state. The strategy is built in: its state is
part of the algorithm's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from discover_rl.core.types import (
    Action,
    Array,
    Batch,
    Key,
    Losses,
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


class OffPolicyAlgorithm(NamedTuple):
    """An algorithm that learns from a replay buffer, in updates after environment steps."""

    init: Callable[[Key, Any, Any], State]
    """(key, hyper, strategy's hyper) → the state of a run that starts."""
    begin: Callable[[State, Key], Memory]
    """(state, key) → the strategy's memory of an episode that starts."""
    draw: Callable[[Key], Any]
    """(key) → the random numbers that one call of `act` takes."""
    act: Callable[..., tuple[State, Memory, Action]]
    """(state, memory, obs (observation,), noise, step, progress=0) → (state, memory, action).
    `step` counts the environment steps made so far, `progress` is their share of the run."""
    learn: Callable[[State, Batch, Key, Update, Any], tuple[State, Losses]]
    """(state, batch, key, update, progress) → (state, losses): one gradient update. `update` is
    static; `progress` is the share of the run that lies behind."""
    report: Callable[..., dict[str, Array]]
    """(state, batch, key, progress=0) → diagnostics by name."""
    errors: Callable[..., Array]
    """(state, batch, key, progress=0) → (n,) |y − Q(s, ã)|, mean over critics, y as they learn."""
    greedy: Callable[[State], Nudge]
    """(state) → the network that evaluation uses."""
    due: Callable[[int], tuple[Update, ...]]
    """(step) → the updates that follow the `step`-th environment step. Runs on the host."""
    head: PolicyHead
    on_event: Callable[[State, str], State]
    """(state, name) → state, after an event of the strategy's schedule."""
    on_transition: Callable[[State, Memory, Transition], State] | None = None
    """(state, memory, transition) → state; None unless the strategy has one."""
    act_changes_state: bool = False
    """Whether `act` returns another state than it was given."""


class OnPolicyAlgorithm(NamedTuple):
    """An algorithm that learns from whole rollouts of its present policy, and then drops them."""

    init: Callable[[Key, Any, Any], State]
    """(key, hyper, strategy's hyper) → the state of a run that starts."""
    begin: Callable[[State, Key], Memory]
    """(state, key) → the strategy's memory of an episode that starts."""
    draw: Callable[[Key], Any]
    """(key) → the random numbers of one action."""
    acting: Callable[..., Callable[[Memory, Array, Any], tuple[Memory, Nudge, Array]]]
    """(state, progress=0) → act: (memory, obs (1, observation), noise) → (memory, nudge, own
    action). Runs on the host, in NumPy. All arrays may have environments in front."""
    learn: Callable[[State, Any, Rollout, Key, Any], tuple[State, Any, Losses, dict[str, Array]]]
    """(state, belief, rollout, key, progress) → (state, belief, losses, diagnostics). `belief` is
    what the strategy's `Density.log_prob` knows of each environment's episode."""
    greedy: Callable[[State], Nudge]
    """(state) → the network that evaluation uses."""
    head: PolicyHead
