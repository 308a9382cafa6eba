"""An on-policy agent: it acts on the host, in NumPy, and learns from whole rollouts.

    for all lanes:  draw the random numbers of a rollout, once
                    repeat: act, in NumPy → step the environments
                            count their observations and standardise them
                            begin a memory where an episode ended
                    scale the rewards
    once rollouts are full, for every lane:  learn, by one compiled call

Parameters do not change during a rollout, so acting needs no device. The state is made of NumPy
arrays that are written in place. All environments of all lanes act in one call of NumPy, which
makes a matrix product of the same shapes for each. Lanes learn one after the other, by a program
for one lane. So a run comes out the same, bit for bit, whatever runs beside it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from discover_rl.agents.build import build_algorithm
from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.on_policy import memories
from discover_rl.agents.on_policy.memories import Memories
from discover_rl.agents.on_policy.metrics import RolloutMetrics
from discover_rl.agents.on_policy.noise import NoiseBlocks
from discover_rl.agents.on_policy.rollout_buffer import RolloutBuffer, empty_rollout
from discover_rl.algorithms.interface import OnPolicyAlgorithm
from discover_rl.core import normalization
from discover_rl.core.finite import Divergence
from discover_rl.core.networks import standardise
from discover_rl.core.normalization import RunningStats
from discover_rl.core.prng import Stream, streams
from discover_rl.core.pytrees import assign, lane_of, on_host, stack
from discover_rl.core.types import Array, CriticHead, Net, Nudge, PolicyHead, Rollout
from discover_rl.envs.vector import VectorEnv
from discover_rl.system.compilation import compile_all, with_precision

CHUNK = 1024
"""Steps of every environment between two looks at the clock."""
NO_SHIFT = Nudge._field_defaults["shift"]
"""The default of `Nudge.shift`: no shift."""


class AgentState(NamedTuple):
    """The state of a cohort, with lanes in front; or of one lane, as views of those arrays."""

    seed: np.ndarray  # ()
    learner: Any  # the algorithm's state, the strategy's inside
    memory: Any  # (environments, …) the strategy's, of the running episodes
    belief: Any  # (environments, …) what `Density.log_prob` knew of these when the rollout began
    rollout: Rollout  # filled up to where the run is
    obs_stats: RunningStats  # of the observations that were acted upon
    return_stats: RunningStats  # of discounted returns, to scale rewards by
    returns: np.ndarray  # (environments,) the discounted return so far of each episode
    obs: np.ndarray  # (environments, observation) where to act next, as the networks see it
    diagnostics: dict[str, Array]  # of the last rollout that was learned from


class OnPolicyAgent:
    """Acts in NumPy and learns by a compiled program (`agents.interface.Agent`), lanes in front."""

    def __init__(self, setup: AgentSetup):
        algorithm, self.strategy = build_algorithm(setup)
        assert isinstance(algorithm, OnPolicyAlgorithm)
        self.algorithm, self.spec, self.steps = algorithm, setup.spec, setup.steps
        self.environments, self.normalise = setup.environments, setup.hyper.normalise
        self.horizon: int = setup.hyper.horizon
        # Small matrices: handing them to several threads takes longer than multiplying them.
        alone = {"xla_cpu_multi_thread_eigen": False}
        self._init = jax.jit(self._new_learner)
        self._begin = jax.jit(self._new_memory)
        learn = with_precision(self._learn_rollout, setup.precision)
        self._learn = jax.jit(learn, compiler_options=alone)
        measure = with_precision(self._measure_rollout, setup.precision)
        program = jax.jit(measure, compiler_options=alone)
        self._metrics = RolloutMetrics(program, self.strategy, setup.metrics_every)
        self._noise = NoiseBlocks(self.algorithm.draw, self.horizon, self.environments)
        self._memories = Memories(self.strategy)
        self._greedy = jax.jit(jax.vmap(lambda learner: self.algorithm.greedy(learner).net))

    @property
    def head(self) -> PolicyHead:
        """How the networks of `nets` become actions."""
        return self.algorithm.head

    def init(self, seeds: np.ndarray, hyper: Any, strategy_hyper: Any) -> AgentState:
        """Return the state of new lanes; `hyper` and `strategy_hyper` have lanes in front."""
        given = seeds, hyper, strategy_hyper
        return stack([self._new(*lane_of(given, lane)) for lane in range(len(seeds))])

    like = init
    """Return what has the shapes of a state: a new one, which costs little here."""

    def place(self, state: AgentState) -> AgentState:
        """Copy a state into NumPy arrays, which are then written in place."""
        return jax.tree.map(np.array, state)

    def prepare(self, state: AgentState, vector: VectorEnv, step: int) -> None:
        """Compile what learns, unless rollouts hold memories: their number is not known yet."""
        if not jax.tree.leaves(state.rollout.memory):
            mine = lane_of(state, 0)
            given = mine.belief, mine.rollout, mine.seed, np.int32(step)
            lowered = [self._learn.lower(mine.learner, *given)]
            compile_all(lowered + self._metrics.lower(mine.learner, given))

    def enter(self, state: AgentState, obs: np.ndarray, fresh: np.ndarray, step: int) -> AgentState:
        """Start episodes at `obs`, (environments, observation), in the environments `fresh`."""
        state = self.place(state)
        lanes, count = len(state.seed), self.environments
        if "episode" in self.strategy.acting.resample_on:
            memory = self._begun(state, memories.by_environment(state.memory), fresh, step)
            memories.assign_lanes(state.memory, list(range(lanes)), memory)
        fresh, obs = fresh.reshape(lanes, count), obs.reshape(lanes, count, -1)
        for lane in np.flatnonzero(fresh.any(axis=1)).tolist():
            mine, envs = lane_of(state, lane), np.flatnonzero(fresh[lane]).tolist()
            stats, at = normalization.as_numbers(mine.obs_stats), step // count % self.horizon
            for env in envs:
                if self.normalise:
                    stats = normalization.update(stats, obs[lane, env].astype(float))
                mine.returns[env] = 0.0
                if at:  # an episode was lost on resume: advantages must not cross its end
                    mine.rollout.ended[at - 1, env] = True
                else:
                    assign(mine.belief, env, self.strategy.density.initial_belief)
            mine.obs[envs] = self._standardised(stats, obs[lane, envs])
            normalization.assign(state.obs_stats, lane, stats)
        return state

    def advance(
        self, state: AgentState, vector: VectorEnv, alive: np.ndarray, step: int, until: int
    ) -> tuple[AgentState, int, list[Divergence]]:
        """Act on, no further than `until`, and learn where rollouts are full."""
        count = self.environments
        full = self.horizon * count
        upto = min(until, step + CHUNK * count, step - step % full + full)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found and named
            living, found = self._gather(state, vector, alive, step, upto)
        if upto % full == 0:
            found += self._learn_lanes(state, living, upto)
        return state, upto, found

    def report(self, state: AgentState, step: int) -> dict[str, Array]:
        """Return the diagnostics of the last rollout that was learned from."""
        return state.diagnostics if step >= self.horizon * self.environments else {}

    def metrics(self, state: AgentState, step: int) -> dict[str, Array]:
        """Metrics of the rollout that ended at this step; see `AgentSetup.metrics_every`."""
        return self.report(state, step) | self._metrics.all(len(state.seed))

    def nets(self, state: AgentState) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        return self._with_input(state, jax.device_get(self._greedy(state.learner)))

    def critics(self, state: AgentState) -> Net:
        """The value networks, on the host, lanes in front."""
        return self._with_input(state, jax.vmap(self.algorithm.critic)(state.learner))

    @property
    def critic_head(self) -> CriticHead:
        """Which inputs the networks of `critics` take."""
        return self.algorithm.critic_head

    def _with_input(self, state: AgentState, net: Net) -> Net:
        """Networks with the statistics by which their observations are standardised, if any."""
        if not self.normalise:
            return net
        samples, mean, squares = state.obs_stats
        with np.errstate(all="ignore"):  # a lane that has failed may hold NaN
            scale = normalization.deviation(RunningStats(samples[:, None], mean, squares))
        stats = {"mean": mean, "deviation": scale}
        return {"input": jax.tree.map(np.float32, stats), **net}

    # On the host. While acting, the environments of all lanes are in front.

    def _gather(
        self, state: AgentState, vector: VectorEnv, alive: np.ndarray, step: int, upto: int
    ) -> tuple[list[int], list[Divergence]]:
        """Fill rollouts from `step` to `upto`; return the healthy lanes and the divergences.

        Most of the time goes into the inner loop, so it does as little as possible. Work that can
        wait is done afterwards, for all steps together.
        """
        count, size = self.environments, self.spec.observation_size
        at, steps = step // count % self.horizon, (upto - step) // count
        shape, rows = (len(alive), count, size), (len(alive) * count, 1, size)
        sent = np.repeat(alive, count)
        buffer = RolloutBuffer(state.rollout, at, step, steps)
        began = step - step % (self.horizon * count)  # whatever part of the rollout this is
        learner = _by_environment(state.learner, count)
        act = self.algorithm.acting(learner, began / self.steps)
        resample_on, recalls = self.strategy.acting.resample_on, self._memories.recalls
        memory = memories.by_environment(state.memory)
        if at == 0 and "rollout" in resample_on:
            memory = self._begun(state, memory, sent, step)
        held = self._memories.recalled(memory)
        if recalls:
            buffer.write_memory(0, memory)
        # Of the full shape, because broadcasting takes NumPy longer.
        high = np.ones((len(sent), 1, self.spec.action_size), np.float32)
        low, (samples, mean, squares) = -high, state.obs_stats
        stats = RunningStats(np.repeat(samples[:, None], size, axis=1), mean, squares)
        obs = state.obs.reshape(rows)
        for now, noise in enumerate(self._noise.of(state.seed, step)[at : at + steps]):
            held, nudge, own = act(held, obs, noise)
            buffer.write_action(now, obs, own, nudge.context)
            executed = own if nudge.shift is NO_SHIFT else own + nudge.shift
            executed = np.minimum(np.maximum(executed, low), high)[:, 0]
            if not math.isfinite(np.vdot(executed, executed)):
                sent = sent & ~buffer.lose(now, sent & ~np.isfinite(executed).all(axis=1))
            answer: Any = vector.step(executed, sent)
            raw = answer.obs.astype(float).reshape(shape)
            if self.normalise:
                for env in range(count):
                    stats = normalization.update(stats, raw[:, env])
            obs = self._standardised(stats, raw).reshape(rows)
            buffer.write_answer(now, answer, obs)
            if True in (ended := answer.ended).tolist():
                last = self._standardised(stats, answer.next_obs.reshape(shape)).reshape(rows)
                buffer.write_ends(now, answer, last)
                if "episode" in resample_on:
                    before = memory if recalls else held
                    memory = self._begun(state, before, ended, buffer.step_after(now + 1))
                    held = self._memories.recalled(memory)
                    if recalls:
                        buffer.write_memory(now + 1, memory)
        buffer.write_flags()
        found = buffer.diverged(alive)
        lost = {one.lane for one in found}
        living = [lane for lane in np.flatnonzero(alive).tolist() if lane not in lost]
        state.obs[living] = obs.reshape(shape)[living]
        memories.assign_lanes(state.memory, living, memory if recalls else held)
        samples, mean, squares = stats
        mine = RunningStats(samples[living, 0], mean[living], squares[living])
        normalization.assign(state.obs_stats, living, mine)
        for lane in living:
            self._scale_rewards(state, lane, buffer)
        return living, found

    def _scale_rewards(self, state: AgentState, lane: int, buffer: RolloutBuffer) -> None:
        """Write a lane's rewards, in standard deviations of the discounted return so far."""
        reward, ended = buffer.rewards_of(lane)
        if self.normalise:
            stats = normalization.as_numbers(lane_of(state.return_stats, lane))
            gamma = state.learner.hyper.gamma[lane].item()
            stats, returns, reward = normalization.scale_rewards(
                stats, state.returns[lane].tolist(), reward, ended, gamma
            )
            normalization.assign(state.return_stats, lane, stats)
            state.returns[lane] = returns
        buffer.write_rewards(lane, reward)

    def _standardised(self, stats: RunningStats, obs: np.ndarray) -> np.ndarray:
        """(…, n, observation), as the networks see it."""
        if self.normalise:
            obs = np.asarray(standardise(obs, stats.mean, normalization.deviation(stats)))
        return obs.astype(np.float32)

    def _begun(self, state: AgentState, memory: Any, fresh: np.ndarray, step: int) -> Any:
        """Memories, (environments, …), begun anew where `fresh`."""
        if not jax.tree.leaves(memory):
            return memory
        memory = jax.tree.map(np.copy, memory)
        for env in np.flatnonzero(fresh).tolist():
            lane, number = divmod(env, self.environments)
            # No two episodes of a lane start at the same step.
            learner, seed = lane_of((state.learner, state.seed), lane)
            assign(memory, env, on_host(self._begin(learner, seed, np.int32(step + number))))
        return memory

    def _learn_lanes(self, state: AgentState, living: list[int], step: int) -> list[Divergence]:
        """Learn from full rollouts, lane by lane; return the lanes whose losses are not finite."""
        found, measures = [], self._metrics.due(step)
        for lane in living:
            mine = lane_of(state, lane)
            rollout = mine.rollout._replace(memory=self._memories.distinct(mine.rollout.memory))
            given = mine.belief, rollout, mine.seed, np.int32(step)
            outcome = self._learn(mine.learner, *given)
            learner, belief, losses, diagnostics = on_host(outcome)
            if measures:  # before the arrays of the old state are written over
                self._metrics.note(lane, mine.learner, learner, given, losses)
            for there, new in (
                (mine.learner, learner),
                (mine.belief, belief),
                (mine.diagnostics, diagnostics),
            ):
                assign(there, ..., new)
            bad = [name for name, loss in losses._asdict().items() if not np.isfinite(loss)]
            found += [Divergence(lane, f"{name}_loss", step) for name in bad[:1]]
        return found

    def _new(self, seed: Any, hyper: Any, strategy_hyper: Any) -> AgentState:
        learner = jax.device_get(self._init(seed, hyper, strategy_hyper))
        memory = jax.device_get(self._begin(learner, seed, np.int32(0)))
        count, size = self.environments, self.spec.observation_size
        shape, zero = (self.horizon, count), np.zeros(())
        stored = self._memories.empty(memory, shape)
        rollout = empty_rollout(self.spec, self.strategy.network.context_size, shape, stored)
        belief = stack([jax.device_get(self.strategy.density.initial_belief)] * count)
        distinct = rollout._replace(memory=self._memories.distinct(rollout.memory))
        outcome = jax.eval_shape(self._learn_rollout, learner, belief, distinct, seed, np.int32(0))
        return AgentState(
            seed=np.asarray(seed),
            learner=learner,
            memory=stack([memory] * count),
            belief=belief,
            rollout=rollout,
            obs_stats=RunningStats(zero, np.zeros(size), np.zeros(size)),
            return_stats=RunningStats(zero, zero, zero),
            returns=np.zeros(count),
            obs=np.zeros((count, size), np.float32),
            diagnostics=jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), outcome[3]),
        )

    # One lane, compiled.

    def _new_learner(self, seed: Array, hyper: Any, strategy_hyper: Any) -> Any:
        return self.algorithm.init(streams(seed, 0)[Stream.INIT], hyper, strategy_hyper)

    def _new_memory(self, learner: Any, seed: Array, step: Array) -> Any:
        return self.algorithm.begin(learner, streams(seed, step)[Stream.BEGIN])

    def _learn_rollout(
        self, learner: Any, belief: Any, rollout: Rollout, seed: Array, step: Array
    ) -> Any:
        key, progress = self._when(seed, step)
        return self.algorithm.learn(learner, belief, rollout, key, progress)

    def _measure_rollout(
        self, before: Any, after: Any, belief: Any, rollout: Rollout, seed: Array, step: Array
    ) -> Any:
        return self.algorithm.measure(before, after, belief, rollout, *self._when(seed, step))

    def _when(self, seed: Array, step: Array) -> tuple[Any, Array]:
        """Return the key of a rollout that is full at this step, and the progress at its start."""
        progress = (step - self.horizon * self.environments) / self.steps
        return streams(seed, step)[Stream.LEARN], progress


def _by_environment(learner: Any, count: int) -> Any:
    """(lanes, …) → (environments, …) for acting; numbers become (environments, 1, 1)."""

    def each(leaf: np.ndarray) -> np.ndarray:
        rows = leaf.repeat(count, axis=0)
        return rows if rows.ndim > 1 else rows[:, None, None]

    return jax.tree.map(each, learner)
