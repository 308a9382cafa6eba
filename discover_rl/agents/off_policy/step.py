"""One environment step of a cohort: the order of acting, learning and storing.

    send      the environments are sent the actions that were chosen
    learn     meanwhile, the last transition is stored and the updates that are due are done
    receive   the environments answer
    act       the next actions are chosen

So the newest parameters choose every action, and the environments do not wait for learning. The
price: a transition is stored one step later, so updates cannot sample the newest one yet. A
strategy with `Schedule.on_transition` may plan by transitions. For such a strategy learning waits:
it comes between receiving and acting.

This order is written only here. `agent.StepByStep` does the four operations by compiled programs
and the host's environments, `several_agent.TogetherStepByStep` likewise for lanes with several
environments, and `fused_loop.Traced` inside one program of many steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from discover_rl.agents.off_policy.lane import AgentState
from discover_rl.agents.off_policy.schedule import Updates
from discover_rl.core.types import Action


class Pending(NamedTuple):
    """A transition that is not in the replay buffer yet."""

    action: Action  # (lanes, action) that led to it
    inbox: Any  # the transition, where the device can read it


class Operations(Protocol):
    """The four operations, for all lanes.

    Arguments that several of them have:

        state    of all lanes
        step     number of this environment step, from 1 on
        token    orders operations inside a compiled program; None on the host
        pending  the transition of the step before, not stored yet (`Pending`)
        inbox    the transition of this step, where the device can read it (`transfer.Inbox`)
        bad      for each lane, the first loss that is not finite, as `finite` counts
    """

    waits: bool
    """Whether the strategy has `on_transition`, so that everything waits for transitions."""

    def send(self, state: AgentState, token: Any) -> Any:
        """Send `state.action` to the environments. Return the token of that."""
        ...

    def learn(
        self, updates: Updates, state: AgentState, pending: Any, step: Any, token: Any
    ) -> tuple[AgentState, Any]:
        """Store what is pending and do the updates that follow the `step`-th step.

        Return the new state and, for each lane, the first loss that is not finite.
        """
        ...

    def receive(self, state: AgentState, step: Any, token: Any, learned: Any) -> tuple[Any, Any]:
        """Wait for the environments, and for what was learned. Return token and transition."""
        ...

    def act(
        self, state: AgentState, inbox: Any, bad: Any, step: Any
    ) -> tuple[AgentState, Any, Any]:
        """Choose the next actions. Return the state, the pending transition and the reply."""
        ...


def environment_step(
    operations: Operations, updates: Updates, state: AgentState, pending: Any, step: Any, token: Any
) -> tuple[AgentState, Any, Any, Any]:
    """Make the `step`-th environment step of all lanes.

    Args:
        operations: how the four operations are done.
        updates: what is due; static.
        state: of all lanes.
        pending: the transition of the step before, or a placeholder if there is none.
        step: number of this step, from 1 on.
        token: of what has to come before.

    Returns:
        The new state, the transition that is pending now, the token and the reply of acting.
    """
    token = operations.send(state, token)
    if operations.waits:
        token, inbox = operations.receive(state, step, token, ())
        now = Pending(state.action, inbox)
        state, bad = operations.learn(updates, state, now, step, token)
        state, _, reply = operations.act(state, inbox, bad, step)
        return state, None, token, reply
    state, bad = operations.learn(updates, state, pending, step, token)
    token, inbox = operations.receive(state, step, token, (state, bad))
    state, pending, reply = operations.act(state, inbox, bad, step)
    return state, pending, token, reply
