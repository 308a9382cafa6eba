"""The fused loop: many environment steps in one program, with no Python between them.

It makes the same steps in the same order (`step.py`), with the same random numbers, as stepping one
by one. But starting two programs for every step takes longer than a GPU needs to compute them.
Where an episode ends the program calls the host, which begins the next one. What the host has to
know afterwards is written into a log. Actions are repeated and rewards delayed in the program, too.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from discover_rl.agents.off_policy.lane import AgentState, Lane, Reply
from discover_rl.agents.off_policy.schedule import Updates
from discover_rl.agents.off_policy.step import Pending, environment_step
from discover_rl.agents.off_policy.transfer import Inbox
from discover_rl.core import replay_buffer
from discover_rl.core.finite import QUANTITIES, Divergence
from discover_rl.core.types import Array, Transition
from discover_rl.envs.envpool_vector import EnvPoolVector
from discover_rl.envs.envpool_xla import (
    Answer,
    EnvPoolXla,
    after,
    doubles,
    first_token,
    repeated,
)
from discover_rl.envs.vector import StepLog
from discover_rl.system.compilation import not_cached, with_precision


class Carry(NamedTuple):
    """What the loop carries from step to step."""

    state: AgentState
    pending: Pending  # the last transition, not in the replay buffer yet
    step: Array  # () environment steps made
    token: Array
    owed: Any  # `Owed` where rewards are delayed, else ()
    bad: Array  # (2, lanes) the first quantity that was not finite, as `finite` counts, and when
    log: jax.Array  # (steps, lanes, …) as bits


class Owed(NamedTuple):
    """Rewards that are delayed: what is owed, and when it is due."""

    sums: Array  # (lanes, 2) as the bits of doubles
    steps: Array  # (lanes,) of the running episodes

    def paid(self, reward: Array, ended: Array, delay: int) -> tuple[Array, Owed]:
        """Return what is paid after a step, and what is owed then.

        Args:
            reward: (lanes,) the task's own, in double precision.
            ended: (lanes,) whose episodes ended.
            delay: steps over which rewards are summed.
        """
        steps = self.steps + 1
        with jax.enable_x64(True):
            sums = jax.lax.bitcast_convert_type(self.sums, jnp.float64) + reward
            due = ended | (steps % delay == 0)
            left = jax.lax.bitcast_convert_type(jnp.where(due, 0.0, sums), jnp.uint32)
            now = jnp.where(due, sums, 0.0).astype(jnp.float32)
        return now, Owed(left, jnp.where(ended, 0, steps))


class FusedLoop:
    """A program that goes round a cycle of updates, one environment step for each of its members.

    Called, it returns what `Agent.advance` does.
    """

    def __init__(
        self,
        lane: Lane,
        vector: EnvPoolVector,
        cycle: tuple[Updates, ...],
        longest: int,
        precision: str,
    ):
        """Prepare the program.

        Args:
            lane: what is done in one lane.
            vector: the environments of all lanes; they must have `xla`.
            cycle: the updates that follow the first step, the second, …, the first again.
            longest: steps of one call at most.
            precision: of matrix products.
        """
        self.lane, self.vector, self.cycle, self.longest = lane, vector, cycle, longest
        self.xla = _xla_of(vector)
        self.program = jax.jit(with_precision(self._loop, precision), donate_argnums=0)

    def __call__(self, state: AgentState, alive: np.ndarray, step: int, rounds: int) -> Any:
        """Go round the cycle `rounds` times; return the state, the step reached and divergences."""
        with not_cached():  # the environments' address is part of the program
            owed = Owed(*self.vector.owed()) if self.vector.reward_delay > 1 else ()
            state, obs, bad, log = self.program(
                state, alive, np.int32(step), np.int32(rounds), owed
            )
        steps = rounds * len(self.cycle)
        self.vector.record_steps(self._read_log(np.asarray(log)[:steps]), np.array(obs), alive)
        what, when = np.asarray(bad)
        lost = np.flatnonzero(alive & (what >= 0)).tolist()
        found = [Divergence(i, QUANTITIES[what[i]], int(when[i])) for i in lost]
        return state, step + steps, sorted(found, key=lambda it: it.step)

    def lower(self, state: AgentState) -> Any:
        """Lower the program, to be compiled for a state of these shapes."""
        number = jax.ShapeDtypeStruct((), jnp.int32)
        alive = jax.ShapeDtypeStruct((self.xla.environments,), bool)
        owed = jax.eval_shape(lambda: Owed(*self.vector.owed()))
        owed = owed if self.vector.reward_delay > 1 else ()
        return self.program.lower(state, alive, number, number, owed)

    @property
    def _reward_words(self) -> int:
        """Words of a reward in the log: a sum is a double."""
        return 2 if self.xla.repeat > 1 else 1

    def _loop(self, state: AgentState, alive: Array, step: Array, rounds: Array, owed: Any) -> Any:
        lanes, size = self.xla.environments, self.xla.spec.observation_size
        width = 2 * size + self.xla.spec.action_size + self._reward_words + 1
        nothing, none = jnp.zeros((lanes, size)), jnp.zeros(lanes, bool)
        empty = Transition(jnp.zeros(lanes), none, none, nothing, nothing)
        carry = Carry(
            state=state,
            pending=Pending(state.action, Inbox(empty, jnp.bool(False), step)),
            step=step,
            token=first_token(),
            owed=owed,
            bad=jnp.full((2, lanes), -1, jnp.int32),
            log=jnp.zeros((self.longest, lanes, width), jnp.uint32),
        )

        def once_round(_: Array, carry: Carry) -> Carry:
            for updates in self.cycle:
                carry = self._step(updates, carry, alive, step)
            return carry

        carry = jax.lax.fori_loop(0, rounds, once_round, carry)
        action, (transition, new, _) = carry.pending
        buffer = jax.vmap(replay_buffer.insert, in_axes=(0, 0, 0, None))(
            carry.state.replay, action, transition, new
        )
        return carry.state._replace(replay=buffer), transition.obs, carry.bad, carry.log

    def _step(self, updates: Updates, carry: Carry, alive: Array, start: Array) -> Carry:
        step = carry.step + 1
        operations = Traced(self.lane, self.vector, alive, carry.owed)
        state, pending, token, reply = environment_step(
            operations, updates, carry.state, carry.pending, step, carry.token
        )
        transition, answer = pending.inbox.transition, operations.answer
        first = (carry.bad[0] < 0) & (reply.bad >= 0)
        now = jnp.stack([reply.bad, jnp.full_like(reply.bad, step)])
        bits = functools.partial(jax.lax.bitcast_convert_type, new_dtype=jnp.uint32)
        line = [
            answer.bits.reshape(len(transition.obs), -1),
            bits(carry.state.action.executed),
            bits(answer.reward)[:, None] if answer.sums is None else answer.sums,
            transition.ended[:, None].astype(jnp.uint32),
        ]
        return Carry(
            state=state,
            pending=pending,
            step=step,
            token=after(token, transition.obs),  # nothing is sent before episodes have begun
            owed=operations.owed,
            bad=jnp.where(first[None], now, carry.bad),
            log=carry.log.at[carry.step - start].set(jnp.concatenate(line, axis=1)),
        )

    def _read_log(self, log: np.ndarray) -> StepLog:
        size, words = self.xla.spec.observation_size, self._reward_words
        reward = np.ascontiguousarray(log[..., -1 - words : -1])
        return StepLog(
            executed=np.ascontiguousarray(log[..., 2 * size : -1 - words]).view(np.float32),
            obs=doubles(log[..., : 2 * size].reshape(*log.shape[:2], size, 2)),
            reward=reward.view(np.float32 if words == 1 else np.float64)[..., 0],
            ended=log[..., -1] > 0,
        )


class Traced:
    """The operations of a step (`step.Operations`), to be traced into a program."""

    waits = False

    def __init__(self, lane: Lane, vector: EnvPoolVector, alive: Array, owed: Any):
        self.lane, self.vector, self.alive, self.owed = lane, vector, alive, owed
        self.xla = _xla_of(vector)
        self.answer: Answer  # what was received, for the log

    def send(self, state: AgentState, token: Array) -> Array:
        """Send the actions to the environments."""
        return self.xla.send(token, state.action.executed)

    def learn(
        self, updates: Updates, state: AgentState, pending: Pending, step: Array, token: Array
    ) -> tuple[AgentState, Array]:
        """Store what is pending and learn, after the actions were sent."""
        # Learning comes after sending: XLA would store the action before, and have to copy the
        # replay buffer for that. All of learning needs a batch from the buffer, so the learner is
        # not tied to the token: XLA fuses fewer operations on what is.
        buffer, memory, seed, step = after((state.replay, state.memory, state.seed, step), token)
        transition, new, _ = pending.inbox
        learner, buffer, bad = self.lane.learn_all(updates)(
            state.learner, buffer, memory, seed, pending.action, transition, new, step
        )
        return AgentState(seed, learner, memory, buffer, state.action), bad

    def receive(
        self, state: AgentState, step: Array, token: Array, learned: Any
    ) -> tuple[Array, Inbox]:
        """Wait for the environments, after learning; begin new episodes where some ended."""
        token, answer = self.xla.receive(after(token, learned))
        if self.xla.repeat > 1:
            finish = self.vector.finish_repeating
            token, answer = repeated(
                self.xla, token, answer, state.action.executed, self.alive, finish
            )
        self.answer, reward = answer, answer.reward
        ended = answer.done | answer.limit
        terminated = self.vector.is_termination(answer.done, answer.limit)
        if self.vector.reward_delay > 1:
            reward, self.owed = self.owed.paid(answer.whole, ended, self.vector.reward_delay)
        obs = self._begin_ended(ended & self.alive, answer.obs)
        transition = Transition(reward, terminated, ended, answer.obs, obs)
        return token, Inbox(transition, jnp.bool(True), step)

    def act(
        self, state: AgentState, inbox: Inbox, bad: Array, step: Array
    ) -> tuple[AgentState, Pending, Reply]:
        """Choose the next actions."""
        transition, some_ended = inbox.transition, jnp.any(inbox.transition.ended)
        given = state.learner, state.memory, state.seed, bad, transition
        learner, memory, action, reply = self.lane.act_all(*given, step, some_ended)
        pending = Pending(state.action, inbox)
        return AgentState(state.seed, learner, memory, state.replay, action), pending, reply

    def _begin_ended(self, ended: Array, obs: Array) -> Array:
        """Where lanes stand once the host has begun new episodes in those that ended."""
        like = jax.ShapeDtypeStruct(obs.shape, obs.dtype)
        return jax.lax.cond(
            jnp.any(ended),
            lambda: io_callback(self.vector.begin_ended, like, ended, obs),
            lambda: obs,
        )


def _xla_of(vector: EnvPoolVector) -> EnvPoolXla:
    assert vector.xla is not None, "a fused loop needs environments that a program can step"
    return vector.xla
