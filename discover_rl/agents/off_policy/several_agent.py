"""An off-policy agent whose lanes have several environments each.

All n environments of a lane step together, as one step of the vector: n environment steps of the
run. Meanwhile the updates that are due after each of these n steps are done, in order, each with
the random numbers and the progress of its own step. So there are as many updates per environment
step as with one environment, and the program of an update is compiled once, whatever n is. A
transition is stored when all environments have answered: at most n transitions of what could be
sampled are missing.

Arrays that come from the environments or go there are (lanes · n, …), a lane's environments one
after the other; a state's are (lanes, n, …). There is no fused loop of several environments.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl import strategies
from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.off_policy import transfer
from discover_rl.agents.off_policy.agent import OffPolicyAgent, StepByStep, all_finite
from discover_rl.agents.off_policy.lane import AgentState
from discover_rl.agents.off_policy.packing import packed_like, unpack
from discover_rl.agents.off_policy.schedule import Updates
from discover_rl.agents.off_policy.several_lane import SeveralLane
from discover_rl.agents.off_policy.step import Pending
from discover_rl.agents.off_policy.transfer import Inbox
from discover_rl.core.replay_buffer import Replay
from discover_rl.core.types import Array
from discover_rl.envs.vector import VectorEnv
from discover_rl.system.compilation import with_precision


class TogetherStepByStep(StepByStep):
    """The operations of a step of all environments of all lanes."""

    agent: SeveralAgent

    def learn(
        self, updates: Any, state: AgentState, pending: Pending | None, step: int, token: Any
    ) -> tuple[AgentState, Array]:
        """Store what is pending; start the programs of the steps that end with the `step`-th, of
        which `updates` has what is due after each."""
        del token
        state, bad = self.agent.store(state, pending), all_finite(len(state.seed))
        for number, due in enumerate(updates, step - len(updates) + 1):
            if due:
                state, bad = self.agent.learn(due, state, bad, number)
        return state, bad

    def receive(self, state: AgentState, step: int, token: Any, learned: Any) -> tuple[Any, Any]:
        """Send the actions to the environments and wait for their answers. Episodes are cut off
        if the strategy says so of any of these steps."""
        del state, learned
        count, lanes = self.agent.environments, len(self.alive)
        self.read_reply(step - count)
        truncate = self.agent.strategy.schedule.truncate
        executed = self._executed.reshape(lanes * count, -1)
        cut = any(truncate(it) for it in range(step - count + 1, step + 1))
        self.vector.send(executed, np.repeat(self.alive, count), cut)
        return token, self.agent.sent(transfer.plain(self.vector.receive(), step))


class SeveralAgent(OffPolicyAgent):
    """Acts and learns for a cohort whose lanes have several environments each."""

    lane_type = SeveralLane
    operations_type = TogetherStepByStep

    def __init__(self, setup: AgentSetup):
        super().__init__(setup)
        if self.waits:
            raise strategies.several_environments(setup.strategy, setup.environments)
        each = jax.vmap(self.lane.enter, in_axes=(0, 0, 0, None))

        def enter(state: AgentState, obs: Array, fresh: Array, step: Array) -> AgentState:
            return each(state, self._by_lane(obs), self._by_lane(fresh), step)

        self.enter = jax.jit(with_precision(enter, self.precision), donate_argnums=0)

    def fuses(self, vector: VectorEnv) -> bool:
        """Never: a fused loop has one environment per lane."""
        del vector
        return False

    def updates_of(self, step: int) -> tuple[Updates, ...]:
        """What is due after each of the steps that end with the `step`-th, one per environment."""
        return tuple(self.due(it) for it in range(step - self.environments + 1, step + 1))

    def learn(
        self, updates: Updates, state: AgentState, bad: Array, step: int
    ) -> tuple[AgentState, Array]:
        """Start the program that does the updates that follow `step` steps.

        Args:
            updates: what is due.
            state: of all lanes.
            bad: (lanes,) what was found not to be finite before.
            step: environment steps made.
        """
        given = state.learner, state.replay, state.seed, bad, np.int32(step)
        learner, bad = self._learn(updates)(*given)
        return state._replace(learner=learner), bad

    def _lower_learning(self, updates: Updates, state: AgentState, pending: Pending) -> Any:
        del pending
        bad = jax.ShapeDtypeStruct(state.seed.shape, jnp.int32)
        given = state.learner, state.replay, state.seed, bad, np.int32(0)
        return self._learn(updates).lower(*given)

    def _learn_program(self, updates: Updates) -> Any:
        each = jax.vmap(functools.partial(self.lane.update, updates), in_axes=(0, 0, 0, None))

        def learn(learner: Any, buffer: Replay, seed: Array, bad: Array, step: Array) -> Any:
            learned, found = each(unpack(learner), buffer, seed, step)
            return packed_like(learner, learned), jnp.where(bad < 0, found, bad)

        return jax.jit(with_precision(learn, self.precision), donate_argnums=0)

    def _received(self, inbox: Any) -> Inbox:
        transition, new, step = super()._received(inbox)
        return Inbox(jax.tree.map(self._by_lane, transition), new, step)

    def _by_lane(self, array: Array) -> Array:
        """(lanes · n, …) → (lanes, n, …)."""
        return array.reshape(-1, self.environments, *array.shape[1:])
