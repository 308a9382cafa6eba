"""What an off-policy agent does in one lane that has several environments.

With n environments, environment i (from 0 on) makes the steps i + 1, n + i + 1, 2 n + i + 1, … of
the run. When s steps have been made, its next action is chosen as that of a run with one
environment after s + i steps: so far the warm-up goes, so far the run has progressed, and the
random numbers are those of (seed, s + i).

Memory, replay and action of a lane's `AgentState` have environments in front, (n, …).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from discover_rl.agents.off_policy.lane import AgentState, Lane, Reply
from discover_rl.core import replay_rings
from discover_rl.core.prng import Stream, streams
from discover_rl.core.types import Action, Array, Transition


class SeveralLane(Lane):
    """The functions of one lane with several environments."""

    insert = staticmethod(replay_rings.insert)
    sample = staticmethod(replay_rings.sample)

    def init(self, seed: Array, hyper: Any, strategy_hyper: Any) -> AgentState:
        """The state of a run that starts."""
        learner = self.algorithm.init(streams(seed, 0)[Stream.INIT], hyper, strategy_hyper)
        _, keys = self._steps(seed, 0)
        memory = jax.vmap(self.algorithm.begin, in_axes=(None, 0))(learner, keys[:, Stream.BEGIN])
        sizes = self.spec.observation_size, self.spec.action_size
        buffer = replay_rings.init(self.environments, self.capacity, *sizes)
        nothing = jnp.zeros((self.environments, self.spec.action_size))
        return AgentState(seed, learner, memory, buffer, Action(nothing, nothing))

    def enter(self, state: AgentState, obs: Array, fresh: Array, step: Array) -> AgentState:
        """Start episodes at `obs`, (n, observation), in the environments `fresh`, (n,), and choose
        their first actions."""
        steps, keys = self._steps(state.seed, step)
        memory = self._begin_all(state.learner, state.memory, fresh, keys)
        learner, memory, action = self._choose_all(state.learner, memory, obs, keys, steps, fresh)
        memory, action = _where(fresh, (memory, action), (state.memory, state.action))
        buffer = replay_rings.enter(state.replay, obs, fresh)
        return AgentState(state.seed, learner, memory, buffer, action)

    def act(
        self,
        learner: Any,
        memory: Any,
        seed: Array,
        bad: Array,
        transition: Transition,
        step: Array,
        some_ended: Array,
    ) -> tuple[Any, Any, Action, Reply]:
        """Choose the next actions, given what the last ones led to: as `Lane.act`, with (n, …)."""
        steps, keys = self._steps(seed, step)
        if on_reward := self.algorithm.on_reward:
            given = memory, transition.reward
            learner, memory = jax.lax.scan(lambda it, xs: on_reward(it, *xs), learner, given)
        if jax.tree.leaves(memory):  # one condition for all lanes, as in `Lane.act`
            before = memory
            memory = jax.lax.cond(
                some_ended,
                lambda: self._begin_all(learner, before, transition.ended, keys),
                lambda: before,
            )
        everyone = jnp.ones(self.environments, bool)
        chosen = learner, memory, transition.obs, keys, steps, everyone
        learner, memory, action = self._choose_all(*chosen)
        bad = self._first_bad(bad, action, transition)
        return learner, memory, action, Reply(action.executed.ravel(), bad)

    def _steps(self, seed: Array, step: Array | int) -> tuple[Array, Any]:
        """How many steps come before the next one of each environment, (n,), and the keys of these
        moments, (n, streams)."""
        steps = step + jnp.arange(self.environments)
        return steps, jax.vmap(streams, in_axes=(None, 0))(seed, steps)

    def _begin_all(self, learner: Any, memory: Any, fresh: Array | bool, keys: Any) -> Any:
        """The strategy's memories, begun anew where `fresh`."""
        return jax.vmap(self._begin, in_axes=(None, 0, 0, 0))(learner, memory, fresh, keys)

    def _choose_all(
        self, learner: Any, memory: Any, obs: Array, keys: Any, steps: Array, who: Array
    ) -> tuple[Any, Any, Action]:
        """The next actions. Where acting changes what was learned – running statistics – the
        environments act one after the other, and only those in `who` change it."""
        given = memory, obs, keys, steps
        if not self.algorithm.act_changes_state:
            each = jax.vmap(lambda *it: self._choose(learner, *it)[1:])
            return learner, *each(*given)

        def choose(learner: Any, own: Any) -> tuple[Any, Any]:
            *moment, counts = own
            new, *chosen = self._choose(learner, *moment)
            return _where(counts, new, learner), chosen

        learner, (memory, action) = jax.lax.scan(choose, learner, (*given, who))
        return learner, memory, action


def _where(which: Array, one: Any, other: Any) -> Any:
    """`one` where `which`, (n,) or (), else `other`; of whole trees, whose leaves begin alike."""

    def choose(x: Array, y: Array) -> Array:
        return jnp.where(which.reshape(which.shape + (1,) * (x.ndim - which.ndim)), x, y)

    return jax.tree.map(choose, one, other)
