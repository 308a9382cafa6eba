"""An on-policy agent: it acts on the host, in NumPy, and learns from whole rollouts.

Parameters stand still during a rollout, so nothing has to be asked of the device: the random
numbers for all of it are drawn in one block beforehand. Then one compiled call does all the
learning of a lane.

The state lies on the host and is written into. All environments of all lanes act together, so that
they share the cost of calling NumPy: a matrix product for each, of the same shapes however many
there are. Lanes learn one after the other, by a program of one lane. So a run comes out the same,
bit for bit, whatever runs beside it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from discover_rl import memories, running
from discover_rl.interfaces import OnPolicy
from discover_rl.keys import Stream, streams
from discover_rl.lane import wed
from discover_rl.memories import Memories
from discover_rl.networks import standardise
from discover_rl.noise import Blocks
from discover_rl.programs import precise
from discover_rl.running import Running
from discover_rl.track import Track, blank, learners
from discover_rl.trees import lane_of, stacked
from discover_rl.types import Array, Net, Nudge, Rollout, Spec
from discover_rl.watch import Bad

CHUNK = 1024
"""Steps of every environment between two looks at the clock."""
NO_SHIFT = Nudge._field_defaults["shift"]


class State(NamedTuple):
    """A cohort's, with lanes in front; or one lane's, as views of a cohort's arrays."""

    seed: np.ndarray  # ()
    learner: Any  # the algorithm's state, the strategy's inside
    memory: Any  # (environments, …) the strategy's, of the running episodes
    belief: Any  # (environments, …) what its likelihood knew of these when the rollout began
    rollout: Rollout  # filled up to where the run is
    observations: Running  # those that were acted upon
    gains: Running  # to scale rewards by
    gain: np.ndarray  # (environments,) the discounted reward so far of each episode
    standing: np.ndarray  # (environments, observation) where to act next, as the networks see it
    told: dict[str, Array]  # what the last learning had to report


class RolloutAgent:
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
        precision: str = "float32",
    ):
        """Only the statics of `hyper` and `strategy_hyper` count here: `init` gets the floats."""
        self.algorithm: OnPolicy
        self.algorithm, self.strategy = wed(spec, algorithm, hyper, strategy, strategy_hyper)
        self.spec, self.steps, self.environments = spec, steps, environments
        self.horizon: int = hyper.horizon
        self.normalise: bool = hyper.normalise
        # Small matrices: handing them to several threads takes longer than multiplying them.
        alone = {"xla_cpu_multi_thread_eigen": False}
        self._init = jax.jit(self._new_learner)
        self._begin = jax.jit(self._new_memory)
        self._learn = jax.jit(precise(self._lesson, precision), compiler_options=alone)
        self._noise = Blocks(self.algorithm.draw, self.horizon, environments)
        self._memories = Memories(self.strategy)
        self._greedy = jax.jit(jax.vmap(lambda learner: self.algorithm.greedy(learner).net))

    def init(self, seeds: np.ndarray, hyper: Any, strategy_hyper: Any) -> State:
        """Fresh lanes; `hyper` and `strategy_hyper` have lanes in front."""
        given = seeds, hyper, strategy_hyper
        return stacked([self._new(*lane_of(given, lane)) for lane in range(len(seeds))])

    like = init
    """What has a state's shapes."""

    def place(self, state: State) -> State:
        """The state where it is wanted: on the host, to be written into."""
        return jax.tree.map(np.array, state)

    def prepare(self, state: State, lanes: Any, step: int) -> None:
        """Nothing: there is one program that takes long, compiled when a rollout is full."""

    def enter(self, state: State, obs: np.ndarray, fresh: np.ndarray, step: int) -> State:
        """Where `fresh`, an episode starts at `obs` and the next action will be chosen there."""
        state = self.place(state)
        lanes, count = len(state.seed), self.environments
        if "episode" in self.strategy.renews:
            memory = self._begun(state, memories.by_environment(state.memory), fresh, step)
            memories.put(state.memory, list(range(lanes)), memory)
        fresh, obs = fresh.reshape(lanes, count), obs.reshape(lanes, count, -1)
        for lane in np.flatnonzero(fresh.any(axis=1)).tolist():
            mine, envs = lane_of(state, lane), np.flatnonzero(fresh[lane]).tolist()
            met, at = running.numbers(mine.observations), step // count % self.horizon
            for env in envs:
                if self.normalise:
                    met = running.met(met, obs[lane, env].astype(float))
                mine.gain[env] = 0.0
                if at:  # an episode was lost: nothing flows back to it from this one
                    mine.rollout.ended[at - 1, env] = True
                else:
                    memories.write(mine.belief, env, self.strategy.belief)
            mine.standing[envs] = self._look(met, obs[lane, envs])
            running.put(state.observations, lane, met)
        return state

    def advance(
        self, state: State, lanes: Any, alive: np.ndarray, step: int, until: int
    ) -> tuple[State, int, list[Bad]]:
        """Act on, no further than `until`, and learn where rollouts are full."""
        count = self.environments
        full = self.horizon * count
        upto = min(until, step + CHUNK * count, step - step % full + full)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found and named
            fine, bad = self._play(state, lanes, alive, step, upto)
        if upto % full == 0:
            state, lost = self._learned(state, fine, upto)
            bad += lost
        return state, upto, bad

    def report(self, state: State, step: int) -> dict[str, Array]:
        """Diagnostics of the last rollout that was learned from."""
        return state.told if step >= self.horizon * self.environments else {}

    def nets(self, state: State) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        net = jax.device_get(self._greedy(state.learner))
        if self.normalise:
            seen, mean, scatter = state.observations
            with np.errstate(all="ignore"):  # a dead lane may hold anything
                scale = running.deviation(Running(seen[:, None], mean, scatter))
            met = {"mean": mean, "deviation": scale}
            net = {"input": jax.tree.map(np.float32, met), **net}
        return net

    # On the host. Acting, the environments of all lanes are in front.

    def _play(
        self, state: State, lanes: Any, alive: np.ndarray, step: int, upto: int
    ) -> tuple[list[int], list[Bad]]:
        """Fill rollouts from `step` to `upto`; the lanes where all went well, and what did not.

        The inner loop is what costs, so it does little: what can wait is done for all steps
        together, in `_store`.
        """
        count, size = self.environments, self.spec.observation_size
        at, steps = step // count % self.horizon, (upto - step) // count
        shape, rows = (len(alive), count, size), (len(alive) * count, 1, size)
        sent = np.repeat(alive, count)
        track = Track(self.spec, self.strategy.context_size, shape[:2], step, steps)
        act, recalls = self.algorithm.acting(learners(state.learner, count)), self._memories.recalls
        memory = memories.by_environment(state.memory)
        if at == 0 and "rollout" in self.strategy.renews:
            memory = self._begun(state, memory, sent, step)
        held = self._memories.held(memory)
        # As large as what they meet, because stretching them takes NumPy longer.
        high = np.ones((len(sent), 1, self.spec.action_size), np.float32)
        low, (seen, mean, scatter) = -high, state.observations
        met = Running(np.repeat(seen[:, None], size, axis=1), mean, scatter)
        standing = state.standing.reshape(rows)
        for now, noise in enumerate(self._noise.of(state.seed, step)[at : at + steps]):
            held, nudge, bare = act(held, standing, noise)
            if recalls:
                track.memory.append(memory)
            else:
                memory = held
            track.obs[now], track.action[now] = standing, bare
            if nudge.context is not None:
                track.context[now] = nudge.context
            if nudge.shift is not NO_SHIFT:
                bare = bare + nudge.shift
            executed = np.minimum(np.maximum(bare, low), high)[:, 0]
            if not math.isfinite(np.vdot(executed, executed)):
                sent = sent & ~track.lose(now, sent & ~np.isfinite(executed).all(axis=1))
            answer = lanes.step(executed, sent)
            track.reward[now], track.led_to[now] = answer.reward, answer.next_obs
            obs = answer.obs.astype(float).reshape(shape)
            if self.normalise:
                for env in range(count):
                    met = running.met(met, obs[:, env])
            standing = self._look(met, obs).reshape(rows)
            track.next_obs[now] = standing
            if True in (over := answer.ended).tolist():
                track.end(now, answer)
                last = self._look(met, answer.next_obs.reshape(shape)).reshape(rows)
                track.next_obs[now, over] = last[over]
                if "episode" in self.strategy.renews:
                    memory = self._begun(state, memory, over, track.after(now + 1))
                    held = self._memories.held(memory)
        bad = track.bad(alive)
        spoilt = {it.lane for it in bad}
        fine = [lane for lane in np.flatnonzero(alive).tolist() if lane not in spoilt]
        state.standing[fine] = standing.reshape(shape)[fine]
        memories.put(state.memory, fine, memory)
        seen, mean, scatter = met
        running.put(state.observations, fine, Running(seen[fine, 0], mean[fine], scatter[fine]))
        self._store(state, fine, at, track)
        return fine, bad

    def _store(self, state: State, lanes: list[int], at: int, track: Track) -> None:
        """Write down what was done in these lanes and what came of it."""
        track.put(state.rollout, lanes, at)
        for lane in lanes:
            reward, ended = track.of(lane)
            if self.normalise:
                # In standard deviations of the discounted reward so far.
                gains, gain = running.numbers(lane_of(state.gains, lane)), state.gain[lane].tolist()
                gamma = state.learner.hyper.gamma[lane].item()
                gains, gain, reward = running.scaled(gains, gain, reward, ended, gamma)
                running.put(state.gains, lane, gains)
                state.gain[lane] = gain
            whole = state.rollout.reward[lane, at : at + len(track.reward)]
            whole[...] = np.reshape(reward, whole.shape)

    def _look(self, met: Running, obs: np.ndarray) -> np.ndarray:
        """(…, n, observation), as the networks see it."""
        seen: Any = obs
        if self.normalise:
            seen = standardise(obs, met.mean, running.deviation(met))
        return seen.astype(np.float32)

    def _begun(self, state: State, memory: Any, fresh: np.ndarray, step: int) -> Any:
        """Memories, (environments, …), begun anew where `fresh`."""
        if not jax.tree.leaves(memory):
            return memory
        memory = jax.tree.map(np.copy, memory)
        for env in np.flatnonzero(fresh).tolist():
            lane, number = divmod(env, self.environments)
            memories.write(memory, env, self._memory(state, lane, step + number))
        return memory

    def _memory(self, state: State, lane: int, step: int) -> Any:
        """The strategy's, of an episode that starts; no two of a lane start at the same step."""
        learner, seed = lane_of((state.learner, state.seed), lane)
        return jax.device_get(self._begin(learner, seed, np.int32(step)))

    def _learned(self, state: State, living: list[int], step: int) -> tuple[State, list[Bad]]:
        trees, lanes, bad = (state.learner, state.told), range(len(state.seed)), []
        learner, told = ([lane_of(tree, lane) for lane in lanes] for tree in trees)
        for lane in living:
            mine = lane_of(state, lane)
            rollout = mine.rollout._replace(memory=self._memories.told_apart(mine.rollout.memory))
            outcome = self._learn(mine.learner, mine.belief, rollout, mine.seed, np.int32(step))
            learner[lane], belief, losses, told[lane] = jax.device_get(outcome)
            jax.tree.map(lambda there, new: there.__setitem__(..., new), mine.belief, belief)
            lost = [n for n, loss in losses._asdict().items() if not np.isfinite(loss)]
            bad += [Bad(lane, f"{name}_loss", step) for name in lost[:1]]
        return state._replace(learner=stacked(learner), told=stacked(told)), bad

    def _new(self, seed: Any, hyper: Any, strategy_hyper: Any) -> State:
        learner = jax.device_get(self._init(seed, hyper, strategy_hyper))
        memory = jax.device_get(self._begin(learner, seed, np.int32(0)))
        count, size = self.environments, self.spec.observation_size
        shape, zero = (self.horizon, count), np.zeros(())
        room = self._memories.room(memory, shape)
        rollout = blank(self.spec, self.strategy.context_size, shape, room)
        belief = stacked([jax.device_get(self.strategy.belief)] * count)
        apart = rollout._replace(memory=self._memories.told_apart(rollout.memory))
        told = jax.eval_shape(self._lesson, learner, belief, apart, seed, np.int32(0))[3]
        return State(
            seed=np.asarray(seed),
            learner=learner,
            memory=stacked([memory] * count),
            belief=belief,
            rollout=rollout,
            observations=Running(zero, np.zeros(size), np.zeros(size)),
            gains=Running(zero, zero, zero),
            gain=np.zeros(count),
            standing=np.zeros((count, size), np.float32),
            told=jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), told),
        )

    # One lane, compiled.

    def _new_learner(self, seed: Array, hyper: Any, strategy_hyper: Any) -> Any:
        return self.algorithm.init(streams(seed, 0)[Stream.INIT], hyper, strategy_hyper)

    def _new_memory(self, learner: Any, seed: Array, step: Array) -> Any:
        return self.algorithm.begin(learner, streams(seed, step)[Stream.BEGIN])

    def _lesson(self, learner: Any, belief: Any, rollout: Rollout, seed: Array, step: Array) -> Any:
        # The first rollout learns at full rates.
        progress = (step - self.horizon * self.environments) / self.steps
        key = streams(seed, step)[Stream.LEARN]
        return self.algorithm.learn(learner, belief, rollout, key, progress)
