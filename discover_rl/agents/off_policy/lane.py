"""What an off-policy agent does in one lane, as pure functions: start, act, store, learn."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.agents.off_policy.schedule import Updates, run_updates
from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.core import replay_buffer
from discover_rl.core.finite import bad_loss, first_bad
from discover_rl.core.half_precision import half_precision
from discover_rl.core.prng import Stream, streams
from discover_rl.core.types import Action, Array, Batch, Spec, Transition

REPORT_BATCH = 1024
"""Transitions that diagnostics are computed from."""
RECENT, RECENT_BATCH = 1000, 256
"""How many of the newest transitions the amplitude of noise is computed from, by a sample."""


class AgentState(NamedTuple):
    """All of a lane that training changes."""

    seed: Array  # ()
    learner: Any  # the algorithm's state, the strategy's inside
    memory: Any  # the strategy's, of the running episode
    replay: replay_buffer.Replay
    action: Action  # chosen, and not yet answered by the environment


class Reply(NamedTuple):
    """What acting returns to the host: the actions, and whether all is finite."""

    executed: Array  # (action,) to be sent to the environment
    bad: Array  # () the first quantity that is not finite, as `finite` counts; −1: none


class Lane:
    """The functions of one lane. `learn_all` and `act_all` are those of many."""

    insert = staticmethod(replay_buffer.insert)
    sample = staticmethod(replay_buffer.sample)

    def __init__(
        self,
        spec: Spec,
        algorithm: OffPolicyAlgorithm,
        *,
        batch_size: int,
        replay_size: int,
        steps: int,
        transitions: int = 0,
        environments: int = 1,
        precision: str = "float32",
    ):
        self.spec, self.algorithm, self.half = spec, algorithm, precision == "bf16"
        self.batch_size, self.steps, self.environments = batch_size, steps, environments
        self.capacity = replay_buffer.capacity_of(replay_size, steps + transitions, environments)

    def init(self, seed: Array, hyper: Any, strategy_hyper: Any) -> AgentState:
        """Return the state of a run that starts: nothing stored, and no episode begun."""
        learner = self.algorithm.init(streams(seed, 0)[Stream.INIT], hyper, strategy_hyper)
        nothing = jnp.zeros(self.spec.action_size)
        memory = self.algorithm.begin(learner, streams(seed, 0)[Stream.BEGIN])
        sizes = self.spec.observation_size, self.spec.action_size
        buffer = replay_buffer.init(self.capacity, *sizes)
        return AgentState(seed, learner, memory, buffer, Action(nothing, nothing))

    def enter(self, state: AgentState, obs: Array, fresh: Array, step: Array) -> AgentState:
        """If `fresh`, start an episode at `obs`, (observation,), and choose its first action."""
        keys = streams(state.seed, step)
        memory = self._begin(state.learner, state.memory, fresh, keys)
        chosen = self._choose(state.learner, memory, obs, keys, step)
        kept = state.learner, state.memory, state.action
        learner, memory, action = jax.tree.map(
            lambda new, old: jnp.where(fresh, new, old), chosen, kept
        )
        buffer = replay_buffer.enter(state.replay, obs, fresh)
        return AgentState(state.seed, learner, memory, buffer, action)

    def learn(
        self,
        updates: Updates,
        learner: Any,
        buffer: replay_buffer.Replay,
        memory: Any,
        seed: Array,
        action: Action,
        transition: Transition,
        new: Array,
        step: Array,
    ) -> tuple[Any, replay_buffer.Replay, Array]:
        """Store a transition and do the updates that follow it.

        Args:
            updates: what is due; static.
            learner: the algorithm's state.
            buffer: the replay buffer.
            memory: the strategy's, of the episode that the transition belongs to.
            seed: of the run.
            action: what led to the transition.
            transition: what is stored.
            new: whether there is one; else nothing is stored.
            step: environment steps made so far.

        Returns:
            The new learner and buffer, and the first loss that is not finite, as `finite` counts.
        """
        buffer = self.insert(buffer, action, transition, new)
        if self.algorithm.on_transition is not None:
            learner = self.algorithm.on_transition(learner, memory, transition)
        if not updates:
            return learner, buffer, jnp.int32(-1)
        learner, bad = self.update(updates, learner, buffer, seed, step)
        return learner, buffer, bad

    def update(
        self,
        updates: Updates,
        learner: Any,
        buffer: replay_buffer.Replay,
        seed: Array,
        step: Array,
    ) -> tuple[Any, Array]:
        """Do the updates that follow `step` environment steps; store nothing.

        The arguments are those of `learn`.

        Returns:
            The new learner, and the first loss that is not finite, as `finite` counts.
        """
        key, progress = streams(seed, step)[Stream.LEARN], step / self.steps

        def sample(key: Any, recent: int) -> Batch:
            return self.sample(buffer, key, self.batch_size, recent)

        with half_precision() if self.half else contextlib.nullcontext():
            learner, losses = run_updates(self.algorithm, updates, learner, sample, key, progress)
        return learner, bad_loss(losses)

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
        """Choose the next action, given what the last one led to.

        Args:
            learner: the algorithm's state.
            memory: the strategy's, of the episode that was running.
            seed: of the run.
            bad: what `learn` found not to be finite.
            transition: what the last action led to.
            step: environment steps made so far.
            some_ended: whether an episode ended in any lane.
        """
        if self.algorithm.on_reward is not None:
            learner, memory = self.algorithm.on_reward(learner, memory, transition.reward)
        keys, before = streams(seed, step), memory
        if jax.tree.leaves(memory):
            # One condition for all lanes, so that it is a branch, not a choice between two results:
            # a strategy may draw as many numbers as the actor has parameters.
            begin = functools.partial(self._begin, learner, memory, transition.ended, keys)
            memory = jax.lax.cond(some_ended, begin, lambda: before)
        learner, memory, action = self._choose(learner, memory, transition.obs, keys, step)
        bad = self._first_bad(bad, action, transition)
        return learner, memory, action, Reply(action.executed, bad)

    def learn_all(self, updates: Updates) -> Any:
        """`learn` of many lanes, which share `new` and `step`."""
        return jax.vmap(functools.partial(self.learn, updates), in_axes=(0,) * 6 + (None, None))

    @property
    def act_all(self) -> Any:
        """`act` of many lanes, which share `step` and `some_ended`."""
        return jax.vmap(self.act, in_axes=(0,) * 5 + (None, None))

    def report(self, state: AgentState, step: Array) -> dict[str, Array]:
        """Return diagnostics by name, (), computed on a fresh batch; change nothing."""
        sample_key, key = random.split(streams(state.seed, step)[Stream.REPORT])
        batch = self.sample(state.replay, sample_key, REPORT_BATCH)
        return self.algorithm.report(state.learner, batch, key, step / self.steps)

    def measure(self, state: AgentState, step: Array) -> dict[str, Array]:
        """Return metrics by name, (), computed on the batch that `report` has; change nothing."""
        sample_key, key = random.split(streams(state.seed, step)[Stream.REPORT])
        batch = self.sample(state.replay, sample_key, REPORT_BATCH)
        recent = self.sample(state.replay, sample_key, RECENT_BATCH, RECENT)
        return self.algorithm.measure(state.learner, batch, recent, key, step / self.steps)

    @staticmethod
    def _first_bad(bad: Array, action: Action, transition: Transition) -> Array:
        """What is not finite, as `finite` counts: what the environment answered comes first, then
        `bad`, which learning has found, then the action."""
        bad = jnp.where(bad < 0, first_bad({"action": action.executed}), bad)
        observed = jnp.stack([transition.next_obs, transition.obs])
        return first_bad({"observation": observed, "reward": transition.reward}, bad)

    def _begin(self, learner: Any, memory: Any, fresh: Array | bool, keys: Any) -> Any:
        """The strategy's memory, begun anew if an episode starts."""
        begun = self.algorithm.begin(learner, keys[Stream.BEGIN])
        return jax.tree.map(lambda new, old: jnp.where(fresh, new, old), begun, memory)

    def _choose(self, learner: Any, memory: Any, obs: Array, keys: Any, step: Array) -> Any:
        noise = self.algorithm.draw(keys[Stream.ACT])
        return self.algorithm.act(learner, memory, obs, noise, step, step / self.steps)
