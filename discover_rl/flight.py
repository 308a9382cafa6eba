"""A flight: many steps in one program, with no Python between them.

    repeat: the environments are sent the actions
            meanwhile, the last transition is taken in and the updates that are due are done
            the environments answer; where episodes ended, the host begins the next
            the next actions are chosen

That is what agent.py does step by step, in the same order and with the same random numbers. But
starting two programs for every step takes longer than a GPU needs to compute them. What the host
has to know afterwards is written into a log.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from discover_rl import replay
from discover_rl.calls import Calls, after, doubles, first_ticket
from discover_rl.envs import Flown
from discover_rl.lane import Lane, State
from discover_rl.programs import precise, unkept
from discover_rl.sequels import Sequel
from discover_rl.types import Action, Array, Seen
from discover_rl.watch import WATCHED, Bad


class Going(NamedTuple):
    """Where a flight is."""

    state: State
    last: Action  # (lanes, …) that led to what was seen
    seen: Seen
    new: Array  # () whether that is a transition, not yet in the replay
    step: Array  # () environment steps made
    ticket: Array
    bad: Array  # (2, lanes) the first that was not finite, as watch.py counts, and when
    log: jax.Array  # (steps, lanes, …) as bits


class Flight:
    """`cycle`: what is due while the first step is made, the second, …, and then from the first
    again. `longest`: steps of a flight at most."""

    def __init__(
        self, lane: Lane, lanes: Any, cycle: tuple[Sequel, ...], longest: int, precision: str
    ):
        self.lane, self.lanes, self.cycle, self.longest = lane, lanes, cycle, longest
        self.calls: Calls = lanes.calls
        self.program = jax.jit(precise(self._fly, precision), donate_argnums=0)

    def __call__(self, state: State, alive: np.ndarray, step: int, rounds: int) -> Any:
        """So many times round the cycle; the state and, of lanes that went bad, when and why."""
        with unkept():  # the environments' address is part of the program
            state, obs, bad, log = self.program(state, alive, np.int32(step), np.int32(rounds))
        steps = rounds * len(self.cycle)
        self.lanes.flown(self._flown(np.asarray(log)[:steps]), np.array(obs), alive)
        what, when = np.asarray(bad)
        spoilt = np.flatnonzero(alive & (what >= 0)).tolist()
        found = [Bad(i, WATCHED[what[i]], int(when[i])) for i in spoilt]
        return state, step + steps, sorted(found, key=lambda it: it.step)

    def lower(self, state: State) -> Any:
        """The program, to be compiled; `state` has the shapes."""
        number = jax.ShapeDtypeStruct((), jnp.int32)
        alive = jax.ShapeDtypeStruct((self.calls.environments,), bool)
        return self.program.lower(state, alive, number, number)

    def _fly(self, state: State, alive: Array, step: Array, rounds: Array) -> Any:
        lanes, size = self.calls.environments, self.calls.spec.observation_size
        width = 2 * size + self.calls.spec.action_size + 2
        nothing, none = jnp.zeros((lanes, size)), jnp.zeros(lanes, bool)
        going = Going(
            state=state,
            last=state.action,
            seen=Seen(jnp.zeros(lanes), none, none, nothing, nothing),
            new=jnp.bool(False),
            step=step,
            ticket=first_ticket(),
            bad=jnp.full((2, lanes), -1, jnp.int32),
            log=jnp.zeros((self.longest, lanes, width), jnp.uint32),
        )

        def once_round(_: Array, going: Going) -> Going:
            for sequel in self.cycle:
                going = self._step(sequel, going, alive, step)
            return going

        going = jax.lax.fori_loop(0, rounds, once_round, going)
        buffer = jax.vmap(replay.insert, in_axes=(0, 0, 0, None))(
            going.state.replay, going.last, going.seen, going.new
        )
        return going.state._replace(replay=buffer), going.seen.obs, going.bad, going.log

    def _step(self, sequel: Sequel, going: Going, alive: Array, start: Array) -> Going:
        state = going.state
        ticket = self.calls.send(going.ticket, state.action.executed)
        # Learning goes on while the environments move. All that it takes comes after sending: XLA
        # would take in the action before, and have to copy the replay for that.
        learner, buffer, memory, seed, step = after(
            (state.learner, state.replay, state.memory, state.seed, going.step + 1), ticket
        )
        learner, buffer, spoilt = self.lane.learn_all(sequel)(
            learner, buffer, memory, seed, going.last, going.seen, going.new, step
        )
        ticket, answer = self.calls.receive(after(ticket, (learner, buffer, spoilt)))
        ended = answer.done | answer.limit
        terminated = self.lanes.terminates(answer.done, answer.limit)
        obs = self._renewed(ended & alive, answer.obs)
        seen = Seen(answer.reward, terminated, ended, answer.obs, obs)
        learner, memory, action, reply = self.lane.meet_all(
            learner, memory, seed, spoilt, seen, step, jnp.any(ended)
        )
        first = (going.bad[0] < 0) & (reply.bad >= 0)
        now = jnp.stack([reply.bad, jnp.full_like(reply.bad, step)])
        bits = functools.partial(jax.lax.bitcast_convert_type, new_dtype=jnp.uint32)
        line = [
            answer.bits.reshape(len(obs), -1),
            bits(state.action.executed),
            bits(answer.reward)[:, None],
            ended[:, None].astype(jnp.uint32),
        ]
        return Going(
            state=State(state.seed, learner, memory, buffer, action),
            last=state.action,
            seen=seen,
            new=jnp.bool(True),
            step=step,
            ticket=after(ticket, obs),  # nothing is sent before episodes have begun
            bad=jnp.where(first[None], now, going.bad),
            log=going.log.at[going.step - start].set(jnp.concatenate(line, axis=1)),
        )

    def _renewed(self, ended: Array, obs: Array) -> Array:
        """Where lanes are once new episodes have begun."""
        like = jax.ShapeDtypeStruct(obs.shape, obs.dtype)
        return jax.lax.cond(
            jnp.any(ended),
            lambda: io_callback(self.lanes.renew, like, ended, obs),
            lambda: obs,
        )

    def _flown(self, log: np.ndarray) -> Flown:
        size = self.calls.spec.observation_size
        return Flown(
            executed=np.ascontiguousarray(log[..., 2 * size : -2]).view(np.float32),
            obs=doubles(log[..., : 2 * size].reshape(*log.shape[:2], size, 2)),
            reward=np.ascontiguousarray(log[..., -2]).view(np.float32),
            ended=log[..., -1] > 0,
        )
