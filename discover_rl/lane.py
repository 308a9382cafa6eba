"""What an agent does in one lane, as pure functions: begin, act, take a transition in, learn."""

from __future__ import annotations

import functools
import importlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl import replay, sequels
from discover_rl.interfaces import Algorithm, Strategy
from discover_rl.keys import Stream, streams
from discover_rl.parcels import Reply
from discover_rl.sequels import Sequel
from discover_rl.types import Action, Array, Seen, Spec
from discover_rl.watch import bad_loss, first_bad

REPORT_BATCH = 1024


class State(NamedTuple):
    seed: Array  # ()
    learner: Any  # the algorithm's state, the strategy's inside
    memory: Any  # the strategy's, of the running episode
    replay: replay.Replay
    action: Action  # chosen, and not yet answered by the environment


class Lane:
    def __init__(
        self, spec: Spec, algorithm: Algorithm, batch_size: int, replay_size: int, steps: int
    ):
        self.spec, self.algorithm = spec, algorithm
        self.batch_size, self.capacity, self.steps = batch_size, min(replay_size, steps), steps

    def init(self, seed: Array, hyper: Any, strategy_hyper: Any) -> State:
        learner = self.algorithm.init(streams(seed, 0)[Stream.INIT], hyper, strategy_hyper)
        nothing = jnp.zeros(self.spec.action_size)
        memory = self.algorithm.begin(learner, streams(seed, 0)[Stream.BEGIN])
        buffer = replay.init(self.capacity, self.spec.observation_size, self.spec.action_size)
        return State(seed, learner, memory, buffer, Action(nothing, nothing))

    def enter(self, state: State, obs: Array, fresh: Array, step: Array) -> State:
        """Where `fresh`, an episode starts at `obs` and the next action is chosen there."""
        keys = streams(state.seed, step)
        memory = self._begin(state.learner, state.memory, fresh, keys)
        chosen = self._act(state.learner, memory, obs, keys, step)
        kept = state.learner, state.memory, state.action
        learner, memory, action = jax.tree.map(
            lambda new, old: jnp.where(fresh, new, old), chosen, kept
        )
        buffer = replay.enter(state.replay, obs, fresh)
        return State(state.seed, learner, memory, buffer, action)

    def learn(
        self,
        sequel: Sequel,
        learner: Any,
        buffer: replay.Replay,
        memory: Any,
        seed: Array,
        action: Action,
        seen: Seen,
        new: Array,
        step: Array,
    ) -> tuple[Any, replay.Replay, Array]:
        """Take a transition in, if it is `new`, and do what follows `step` environment steps."""
        buffer = replay.insert(buffer, action, seen, new)
        if self.algorithm.hears is not None:
            learner = self.algorithm.hears(learner, memory, seen)
        if not sequel:
            return learner, buffer, jnp.int32(-1)
        key, progress = streams(seed, step)[Stream.LEARN], step / self.steps
        learner, losses = sequels.play(
            self.algorithm, sequel, learner, buffer, key, progress, self.batch_size
        )
        return learner, buffer, bad_loss(losses)

    def meet(
        self,
        learner: Any,
        memory: Any,
        seed: Array,
        spoilt: Array,
        seen: Seen,
        step: Array,
        some_ended: Array,
    ) -> tuple[Any, Any, Action, Reply]:
        keys, before = streams(seed, step), memory
        if jax.tree.leaves(memory):
            # Of all lanes together, so that it is a branch, not a choice of what both made: a
            # strategy may draw as many numbers as the actor has parameters.
            begin = functools.partial(self._begin, learner, memory, seen.ended, keys)
            memory = jax.lax.cond(some_ended, begin, lambda: before)
        learner, memory, action = self._act(learner, memory, seen.obs, keys, step)
        bad = jnp.where(spoilt < 0, first_bad({"action": action.executed}), spoilt)
        observed = jnp.stack([seen.next_obs, seen.obs])
        bad = first_bad({"observation": observed, "reward": seen.reward}, bad)
        return learner, memory, action, Reply(action.executed, bad)

    def learn_all(self, sequel: Sequel) -> Any:
        """`learn` of many lanes, which share `new` and `step`."""
        return jax.vmap(functools.partial(self.learn, sequel), in_axes=(0,) * 6 + (None, None))

    @property
    def meet_all(self) -> Any:
        """`meet` of many lanes, which share `step` and `some_ended`."""
        return jax.vmap(self.meet, in_axes=(0,) * 5 + (None, None))

    def _begin(self, learner: Any, memory: Any, fresh: Array | bool, keys: Any) -> Any:
        """The strategy's memory, begun anew where an episode is."""
        begun = self.algorithm.begin(learner, keys[Stream.BEGIN])
        return jax.tree.map(lambda new, old: jnp.where(fresh, new, old), begun, memory)

    def _act(self, learner: Any, memory: Any, obs: Array, keys: Any, step: Array) -> Any:
        noise = self.algorithm.draw(keys[Stream.ACT])
        return self.algorithm.act(learner, memory, obs, noise, step)

    def report(self, state: State, step: Array) -> dict[str, Array]:
        """Diagnostics on a fresh batch; changes nothing, costs nothing while training."""
        sample_key, key = random.split(streams(state.seed, step)[Stream.REPORT])
        batch = replay.sample(state.replay, sample_key, REPORT_BATCH)
        return self.algorithm.report(state.learner, batch, key)


def wed(
    spec: Spec, algorithm: str, hyper: Any, strategy: str, strategy_hyper: Any
) -> tuple[Any, Strategy]:
    """An algorithm that explores by a strategy, and that strategy; both by their names."""
    module = importlib.import_module(f"discover_rl.algorithms.{algorithm}")
    tactics = importlib.import_module(f"discover_rl.strategies.{strategy}")
    made = tactics.make(spec, strategy_hyper, module.blueprint(spec, hyper))
    return module.make(spec, hyper, made), made
