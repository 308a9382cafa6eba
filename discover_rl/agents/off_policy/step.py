"""One environment step of a cohort: the order of acting, learning and storing.

    send      the environments are sent the actions that were chosen
    learn     meanwhile, the last transition is stored and the updates that are due are done
    receive   the environments answer
    act       the next actions are chosen

So every action is chosen by the newest parameters, and learning takes no time from the
environments. A transition is stored one step later than if everything waited: at most one
transition of what could be sampled is missing. A strategy with
`Schedule.on_transition` may plan by transitions; then everything waits and learning comes between
receiving and acting.

This order stands here once. `agent.StepByStep` does the four operations by compiled programs and
the host's environments, `fused_loop.FusedLoop` traces them into one program.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from discover_rl.agents.off_policy.lane import State
from discover_rl.agents.off_policy.schedule import Updates
from discover_rl.core.types import Action


class Pending(NamedTuple):
    """A transition that is not in the replay buffer yet."""

    action: Action  # (lanes, action) that led to it
    inbox: Any  # the transition, where the device can read it


class Operations(Protocol):
    """The four operations, for all lanes.

    A token orders operations inside a compiled program; on the host it is None.
    """

    waits: bool
    """Whether the strategy has `on_transition`, so that everything waits for transitions."""

    def send(self, state: State, token: Any) -> Any:
        """Send `state.action` to the environments. Return the token of that."""
        ...

    def learn(
        self, updates: Updates, state: State, pending: Any, step: Any, token: Any
    ) -> tuple[State, Any]:
        """Store what is pending and do the updates that follow the `step`-th step.

        Return the new state and, for each lane, the first loss that is not finite.
        """
        ...

    def receive(self, state: State, step: Any, token: Any, learned: Any) -> tuple[Any, Any]:
        """Wait for the environments, and for what was learned. Return token and transition."""
        ...

    def act(self, state: State, inbox: Any, bad: Any, step: Any) -> tuple[State, Any, Any]:
        """Choose the next actions. Return the state, the pending transition and the reply."""
        ...


def environment_step(
    operations: Operations, updates: Updates, state: State, pending: Any, step: Any, token: Any
) -> tuple[State, Any, Any, Any]:
    """Make the `step`-th environment step of all lanes.

    Args:
        operations: how the four operations are done.
        updates: what is due; static.
        state: of all lanes.
        pending: the transition of the step before, or what stands for none.
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
