"""An on-policy agent: it acts on the host, in NumPy, and learns from whole rollouts.

Parameters stand still during a rollout, so nothing has to be asked of the device: the random
numbers for all of it are drawn in one block beforehand. Then one compiled call does all the
learning of a lane.

The state lies on the host and is written into. Lanes act and learn one after the other, each with
arrays of its own: networks this narrow gain nothing from being computed together, and a run comes
out the same, bit for bit, whatever runs beside it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from discover_rl import memories, running
from discover_rl.agent import Stream, precision_of, streams, wed
from discover_rl.interfaces import OnPolicy
from discover_rl.memories import Memories
from discover_rl.networks import standardise
from discover_rl.noise import Blocks
from discover_rl.running import Running
from discover_rl.trees import lane_of, stacked
from discover_rl.types import Array, Net, Nudge, Rollout, Spec
from discover_rl.watch import Bad, broken

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
        self.precision = precision_of(precision)
        # Small matrices: handing them to several threads takes longer than multiplying them.
        alone = {"xla_cpu_multi_thread_eigen": False}
        self._init = jax.jit(self._new_learner)
        self._begin = jax.jit(self._new_memory)
        self._learn = jax.jit(self._lesson, compiler_options=alone)
        self._noise = Blocks(self.algorithm.draw, self.horizon, environments)
        self._memories = Memories(self.strategy)
        self._greedy = jax.jit(jax.vmap(lambda learner: self.algorithm.greedy(learner).net))
        self._high = np.ones((1, spec.action_size), np.float32)
        self._low = -self._high

    def init(self, seeds: np.ndarray, hyper: Any, strategy_hyper: Any) -> State:
        """Fresh lanes; `hyper` and `strategy_hyper` have lanes in front."""
        given = seeds, hyper, strategy_hyper
        return stacked([self._new(*lane_of(given, lane)) for lane in range(len(seeds))])

    like = init
    """What has a state's shapes."""

    def place(self, state: State) -> State:
        """The state where it is wanted: on the host, to be written into."""
        return jax.tree.map(np.array, state)

    def enter(self, state: State, obs: np.ndarray, fresh: np.ndarray, step: int) -> State:
        """Where `fresh`, an episode starts at `obs` and the next action will be chosen there."""
        state = self.place(state)
        lanes, count = len(state.seed), self.environments
        fresh, obs = fresh.reshape(lanes, count), obs.reshape(lanes, count, -1)
        for lane in np.flatnonzero(fresh.any(axis=1)).tolist():
            mine, envs = lane_of(state, lane), np.flatnonzero(fresh[lane]).tolist()
            met, at = running.numbers(mine.observations), step // count % self.horizon
            for env in envs:
                if self.normalise:
                    met = running.met(met, obs[lane, env].astype(float))
                if "episode" in self.strategy.renews:
                    memories.write(mine.memory, env, self._memory(mine, step + env))
                mine.gain[env] = 0.0
                if at:  # an episode was lost: nothing flows back to it from this one
                    mine.rollout.ended[at - 1, env] = True
                else:
                    memories.write(mine.belief, env, self.strategy.belief)
            for env in envs:
                mine.standing[env] = self._look(met, obs[lane, env])[0]
            running.put(mine.observations, met)
        return state

    def advance(
        self, state: State, lanes: Any, alive: np.ndarray, step: int, until: int
    ) -> tuple[State, int, list[Bad]]:
        """Act on, no further than `until`, and learn where rollouts are full."""
        count = self.environments
        full = self.horizon * count
        upto = min(until, step + CHUNK * count, step - step % full + full)
        living = np.flatnonzero(alive).tolist()
        bad = []
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found and named
            for lane in living:
                bad += self._play(lane_of(state, lane), lanes, lane, step, upto)
        if upto % full == 0:
            fine = [lane for lane in living if lane not in {it.lane for it in bad}]
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

    # One lane, on the host.

    def _play(self, mine: State, lanes: Any, lane: int, step: int, upto: int) -> list[Bad]:
        """Fill the rollout from `step` to `upto`. The inner loop is what costs, so it does little:
        what can wait is done for all steps together, in `_store`."""
        count, at = self.environments, step // self.environments % self.horizon
        recalls = self._memories.recalls
        envs, act = range(count), self.algorithm.acting(mine.learner)
        standing = [mine.standing[env : env + 1].copy() for env in envs]
        memory = [lane_of(mine.memory, env) for env in envs]
        if at == 0 and "rollout" in self.strategy.renews:
            memory = [self._memory(mine, step + env) for env in envs]
        held = [self._memories.held(lane, env, memory[env]) for env in envs]
        kept: list[list[Any]] = [[] for _ in envs]
        met, seen, acted, next_obs = running.numbers(mine.observations), [], [], []
        for noise in self._noise.of(lane, mine.seed, step)[at : at + (upto - step) // count]:
            for env in envs:
                held[env], nudge, bare = act(held[env], standing[env], noise[env])
                acted.append((standing[env], bare, nudge.context))
                if nudge.shift is not NO_SHIFT:
                    bare = bare + nudge.shift
                executed = np.minimum(np.maximum(bare, self._low), self._high)
                if not math.isfinite(np.vdot(executed, executed)):
                    return broken(lane, step, seen) or [Bad(lane, "action", step + len(seen))]
                answer = lanes.act(lane * count + env, executed[0])
                seen.append(answer)
                if recalls:
                    kept[env].append(memory[env])
                if self.normalise:
                    met = running.met(met, answer.obs.astype(float))
            for env, answer in zip(envs, seen[-count:], strict=True):
                standing[env] = self._look(met, answer.obs)
                next_obs.append(standing[env])
                if answer.ended:
                    next_obs[-1] = self._look(met, answer.next_obs)
                    if "episode" in self.strategy.renews:
                        memory[env] = self._memory(mine, step + len(seen) + env)
                        held[env] = self._memories.held(lane, env, memory[env])
        if bad := broken(lane, step, seen):
            return bad
        mine.standing[...] = np.concatenate(standing)
        running.put(mine.observations, met)
        for env in envs:
            if recalls:  # first, because the oldest of them are views of what is written next
                memories.keep(mine.rollout.memory, at, env, kept[env])
            memories.write(mine.memory, env, memory[env] if recalls else held[env])
        self._store(mine, step, seen, acted, next_obs)
        return []

    def _store(self, mine: State, step: int, seen: list, acted: list, next_obs: list) -> None:
        """Write down what was done from `step` on and what came of it."""
        count = self.environments
        at, steps = step // count % self.horizon, len(seen) // count
        obs, action, context = zip(*acted, strict=True)
        reward, terminated, ended, _, _ = zip(*seen, strict=True)
        columns = {
            "obs": np.concatenate(obs),
            "action": np.concatenate(action),
            "next_obs": np.concatenate(next_obs),
            "reward": self._scaled(mine, reward, ended),
            "terminated": terminated,
            "ended": ended,
        }
        if self.strategy.context_size:
            columns["context"] = np.concatenate(context)
        for name, column in columns.items():
            whole = getattr(mine.rollout, name)[at : at + steps]
            whole[...] = np.reshape(column, whole.shape)

    def _scaled(self, mine: State, reward: Any, ended: Any) -> list[float]:
        """Rewards in standard deviations of the discounted reward so far."""
        if not self.normalise:
            return list(reward)
        gains, gain = running.numbers(mine.gains), mine.gain.tolist()
        gamma = mine.learner.hyper.gamma.item()
        gains, mine.gain[...], scaled = running.scaled(gains, gain, reward, ended, gamma)
        running.put(mine.gains, gains)
        return scaled

    def _look(self, met: Running, obs: np.ndarray) -> np.ndarray:
        """(observation,) → (1, observation), as the networks see it."""
        if not self.normalise:
            return obs[None]
        scale = running.deviation(met)
        seen = standardise(obs.astype(float)[None], met.mean, scale)
        return np.asarray(seen, np.float32)

    def _memory(self, mine: State, step: int) -> Any:
        """The strategy's, of an episode that starts; no two start at the same step."""
        if not jax.tree.leaves(mine.memory):
            return mine.memory
        return jax.device_get(self._begin(mine.learner, mine.seed, np.int32(step)))

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
        rollout = Rollout(
            obs=np.zeros((*shape, size), np.float32),
            context=np.zeros((*shape, self.strategy.context_size), np.float32),
            action=np.zeros((*shape, self.spec.action_size), np.float32),
            reward=np.zeros(shape, np.float32),
            terminated=np.zeros(shape, bool),
            ended=np.zeros(shape, bool),
            next_obs=np.zeros((*shape, size), np.float32),
            memory=self._memories.room(memory, shape),
        )
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
        with jax.default_matmul_precision(self.precision):
            return self.algorithm.learn(learner, belief, rollout, key, progress)
