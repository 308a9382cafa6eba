"""An agent: one algorithm wedded to one strategy, with a replay, lifted over a cohort's lanes.

Every environment step is one call of `tick` – insert, sample, learn, next action – vmapped over
lanes, jitted and donated. State and data carry a leading axis of lanes; the step does not, so what
depends on it is decided once for all lanes. Random numbers come from (lane's seed, step, stream)
alone: there is no generator to carry along or to lose.
"""

from __future__ import annotations

import enum
import functools
import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from discover_rl import replay
from discover_rl.interfaces import Algorithm, Strategy
from discover_rl.types import Action, Array, Losses, Net, Seen, Spec, Turn, Update

Sequel = tuple[Update | Turn, ...]
"""What follows an environment step, in order."""


class Stream(enum.IntEnum):
    """What random numbers are for. Each has a stream of its own, so that none moves another."""

    INIT = 0
    BEGIN = 1
    ACT = 2
    LEARN = 3
    REPORT = 4


class State(NamedTuple):
    seed: Array  # ()
    learner: Any  # the algorithm's state, the strategy's inside
    memory: Any  # the strategy's, of the running episode
    replay: replay.Replay
    action: Action  # chosen, and not yet answered by the environment


CHUNK = 16
"""Steps between two looks at the clock."""
WATCHED = ("observation", "reward", *(f"{name}_loss" for name in Losses._fields), "action")
"""What must stay finite, in the order in which it would go bad."""
REPORT_BATCH = 1024


class Reply(NamedTuple):
    executed: Array  # (action,) to be sent to the environment
    bad: Array  # () index into WATCHED of the first quantity that is not finite; −1: all are


class Bad(NamedTuple):
    """A lane that cannot go on: after `step` steps this quantity is not finite."""

    lane: int
    quantity: str
    step: int


def broken(seen: Seen, lanes: int, step: int) -> list[Bad]:
    """The first answers since `step` that are not finite; `seen` is (steps, environments, …)."""
    observed = np.isfinite(seen.next_obs) & np.isfinite(seen.obs)
    fine = {"observation": observed.all(axis=2), "reward": np.isfinite(seen.reward)}
    bad = []
    for name, each in fine.items():
        # Answers count in the order of a lane's environments, step by step.
        rows = each.reshape(len(each), lanes, -1).swapaxes(0, 1).reshape(lanes, -1)
        spoilt = np.flatnonzero(~rows.all(axis=1)).tolist()
        bad += [Bad(lane, name, step + 1 + int(rows[lane].argmin())) for lane in spoilt]
    return bad


class Agent:
    """The programs of a cohort. All states have lanes in front."""

    def __init__(
        self,
        spec: Spec,
        algorithm: str,
        hyper: Any,
        strategy: str,
        strategy_hyper: Any,
        steps: int,
        environments: int = 1,
    ):
        """Only the statics of `hyper` and `strategy_hyper` count here: `init` gets the floats."""
        assert environments == 1  # replay keeps transitions in the order of one environment
        self.spec = spec
        self.algorithm: Algorithm
        self.algorithm, self.strategy = wed(spec, algorithm, hyper, strategy, strategy_hyper)
        self.batch_size: int = hyper.batch_size
        self.capacity = min(hyper.replay_size, steps)
        self.steps = steps
        self.init = jax.jit(jax.vmap(self._init))
        self.enter = jax.jit(jax.vmap(self._enter, in_axes=(0, 0, 0, None)), donate_argnums=0)
        self.report = jax.jit(jax.vmap(self._report, in_axes=(0, None)))
        self._ticks = functools.cache(self._compiled_tick)

    def place(self, state: State) -> State:
        """The state where ticks want it: on the device."""
        return jax.device_put(state)

    def due(self, step: int) -> Sequel:
        """What to do once `step` environment steps have been made."""
        return self.strategy.plan(step, self.algorithm.due)

    def like(self, *begin: Any) -> State:
        """What has a state's shapes; the arguments are those of `init`."""
        return jax.eval_shape(self.init, *begin)

    def advance(
        self, state: State, lanes: Any, alive: np.ndarray, step: int, until: int
    ) -> tuple[State, int, list[Bad]]:
        """Act and learn on, no further than `until` and no longer than all goes well."""
        executed, bad = jax.device_get(state.action.executed), np.full(len(alive), -1)
        for upto in range(step + 1, min(until, step + CHUNK) + 1):
            seen = lanes.step(executed, alive, self.strategy.cuts(upto))
            state, reply = self.tick(state, seen, upto)
            step = upto
            executed, bad = jax.device_get(reply)
            if (bad[alive] >= 0).any():
                break
        lost = np.flatnonzero(alive & (bad >= 0)).tolist()
        return state, step, [Bad(lane, WATCHED[bad[lane]], step) for lane in lost]

    def tick(self, state: State, seen: Seen, step: int) -> tuple[State, Reply]:
        """Learn from what was seen after `step` environment steps, and choose the next action."""
        return self._ticks(self.due(step))(state, seen, np.int32(step))

    def nets(self, state: State) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        greedy = jax.vmap(lambda learner: self.algorithm.greedy(learner).net)
        return jax.device_get(greedy(state.learner))

    def _compiled_tick(self, sequel: Sequel) -> Any:
        each = jax.vmap(functools.partial(self._tick, sequel), in_axes=(0, 0, None, None))

        def tick(state: State, seen: Seen, step: Array) -> tuple[State, Reply]:
            return each(state, seen, step, jnp.any(seen.ended))

        return jax.jit(tick, donate_argnums=0)

    # From here on: one lane.

    def _init(self, seed: Array, hyper: Any, strategy_hyper: Any) -> State:
        learner = self.algorithm.init(streams(seed, 0)[Stream.INIT], hyper, strategy_hyper)
        nothing = jnp.zeros(self.spec.action_size)
        memory = self.algorithm.begin(learner, streams(seed, 0)[Stream.BEGIN])
        buffer = replay.init(self.capacity, self.spec.observation_size, self.spec.action_size)
        return State(seed, learner, memory, buffer, Action(nothing, nothing))

    def _enter(self, state: State, obs: Array, fresh: Array, step: Array) -> State:
        """Where `fresh`, an episode starts at `obs` and the next action is chosen there."""
        keys = streams(state.seed, step)
        chosen = self._act(state.learner, self._begin(state, fresh, keys), obs, keys, step)
        kept = state.learner, state.memory, state.action
        learner, memory, action = jax.tree.map(
            lambda new, old: jnp.where(fresh, new, old), chosen, kept
        )
        buffer = replay.enter(state.replay, obs, fresh)
        return State(state.seed, learner, memory, buffer, action)

    def _tick(
        self, sequel: Sequel, state: State, seen: Seen, step: Array, some_ended: Array
    ) -> tuple[State, Reply]:
        keys = streams(state.seed, step)
        if self.algorithm.hears is not None:
            heard = self.algorithm.hears(state.learner, state.memory, seen)
            state = state._replace(learner=heard)
        buffer = replay.insert(state.replay, state.action, seen)
        learner, memory, losses = state.learner, state.memory, Losses()
        if jax.tree.leaves(memory):
            # Of all lanes together, so that it is a branch, not a choice of what both made: a
            # strategy may draw as many numbers as the actor has parameters.
            begin = functools.partial(self._begin, state, seen.ended, keys)
            memory = jax.lax.cond(some_ended, begin, lambda: state.memory)
        if sequel:
            progress = step / self.steps
            learner, losses = self._learn(sequel, learner, buffer, keys[Stream.LEARN], progress)
        learner, memory, action = self._act(learner, memory, seen.obs, keys, step)
        watched = (seen.next_obs, seen.reward, *losses, action.executed)
        finite = jnp.stack([jnp.isfinite(jnp.asarray(value)).all() for value in watched])
        bad = jnp.where(finite.all(), -1, jnp.argmin(finite))
        return State(state.seed, learner, memory, buffer, action), Reply(action.executed, bad)

    def _learn(
        self, sequel: Sequel, learner: Any, buffer: replay.Replay, key: Any, progress: Any
    ) -> tuple[Any, Losses]:
        """One update after the other; what repeats is a loop in the program, not a longer one."""
        keys = random.split(key, (len(sequel), 2))
        losses = Losses()
        done = 0
        for pattern, times in repeats(sequel):
            upto = done + times * len(pattern)
            rounds = keys[done:upto].reshape(times, len(pattern), 2)
            done = upto

            def play(learner: Any, keys: Any, pattern=pattern) -> tuple[Any, Losses]:
                losses = Losses()
                for update, (sample_key, learn_key) in zip(pattern, keys, strict=True):
                    if isinstance(update, Turn):
                        learner = self.algorithm.turn(learner, update.name)
                        continue
                    batch = replay.sample(buffer, sample_key, self.batch_size, update.recent)
                    learner, losses = self.algorithm.learn(
                        learner, batch, learn_key, update, progress
                    )
                return learner, losses

            if times == 1:
                learner, losses = play(learner, rounds[0])
            else:
                learner, each = jax.lax.scan(play, learner, rounds)
                losses = jax.tree.map(lambda leaf: leaf[-1], each)
        return learner, losses

    def _begin(self, state: State, fresh: Array | bool, keys: Any) -> Any:
        """The strategy's memory, begun anew where an episode is."""
        begun = self.algorithm.begin(state.learner, keys[Stream.BEGIN])
        return jax.tree.map(lambda new, old: jnp.where(fresh, new, old), begun, state.memory)

    def _act(self, learner: Any, memory: Any, obs: Array, keys: Any, step: Array) -> Any:
        noise = self.algorithm.draw(keys[Stream.ACT])
        return self.algorithm.act(learner, memory, obs, noise, step)

    def _report(self, state: State, step: Array) -> dict[str, Array]:
        """Diagnostics on a fresh batch; changes nothing, costs the ticks nothing."""
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


def streams(seed: Array, step: Array | int) -> Any:
    """A lane's keys at a step, one for each Stream."""
    return random.split(random.fold_in(random.key(seed), step), len(Stream))


def repeats(sequel: Sequel) -> list[tuple[Sequel, int]]:
    """The sequence as patterns and how often each comes in a row: abababcc → (ab, 3), (c, 2)."""
    parts = []
    while sequel:
        best, times = sequel[:1], 1
        for length in range(1, len(sequel) // 2 + 1):
            pattern = sequel[:length]
            count = 1
            while sequel[count * length : (count + 1) * length] == pattern:
                count += 1
            if count > 1 and count * length > times * len(best):
                best, times = pattern, count
        parts.append((best, times))
        sequel = sequel[times * len(best) :]
    return parts


def stack(trees: Sequence[Any]) -> Any:
    """Trees of numbers, one per lane, as one tree of float32 arrays with lanes in front."""
    return jax.tree.map(lambda *leaves: np.asarray(leaves, np.float32), *trees)


def stacked(trees: Sequence[Any]) -> Any:
    """Trees of arrays, one per lane, as one with lanes in front, on the host."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def lane_of(tree: Any, lane: int) -> Any:
    """One lane of a tree, as views; of a memory, one environment."""
    return jax.tree.map(lambda leaf: leaf[lane, ...], tree)
