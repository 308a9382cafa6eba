"""An on-policy agent: it acts on the host, in NumPy, and learns from whole rollouts.

Parameters stand still during a rollout, so nothing has to be asked of the device: random numbers
for all of it are drawn in one block beforehand, and lanes act one after the other, each with
arrays of its own. Then one compiled call, vmapped over lanes, does all the learning.

Between ticks the state lies on the host, lanes in front, and ticks write into it.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl.agent import WATCHED, Reply, Stream, streams
from discover_rl.equations import Moments, deviation, no_moments, observe
from discover_rl.networks import standardise
from discover_rl.types import Action, Array, Net, OnPolicy, Rollout, Seen, Spec

LIMIT = 10.0
"""Scaled rewards go no further."""


class State(NamedTuple):
    seed: Array  # ()
    learner: Any  # the algorithm's state, the strategy's inside
    rollout: Rollout  # filled up to where the run is
    moments: Moments  # of the observations that were acted upon
    gains: Moments  # of the discounted rewards so far, to scale rewards by
    gain: Array  # () the discounted reward so far of the episode
    told: dict[str, Array]  # what the last learning had to report
    action: Action  # chosen, and not yet answered by the environment


class RolloutAgent:
    """The programs of a cohort. All states have lanes in front."""

    def __init__(
        self, spec: Spec, algorithm: str, hyper: Any, strategy: str, strategy_hyper: Any, steps: int
    ):
        """Only the statics of `hyper` and `strategy_hyper` count here: `init` gets the floats."""
        module = importlib.import_module(f"discover_rl.algorithms.{algorithm}")
        tactics = importlib.import_module(f"discover_rl.strategies.{strategy}")
        self.spec, self.steps = spec, steps
        self.horizon: int = hyper.horizon
        self.normalise: bool = hyper.normalise
        self.strategy = tactics.make(spec, strategy_hyper, module.blueprint(spec, hyper))
        self.algorithm: OnPolicy = module.make(spec, hyper, self.strategy)
        self.init = jax.jit(jax.vmap(self._init))
        self._learn_all = jax.jit(jax.vmap(self._learn, in_axes=(0, 0, 0, None)))
        self._draw_all = jax.jit(jax.vmap(self._draw, in_axes=(0, None)))
        self._greedy = jax.jit(jax.vmap(lambda learner: self.algorithm.greedy(learner).net))
        self._drawn: tuple[int, Any] = (-1, None)  # the rollout's first step, its random numbers
        self._split: tuple[Any, list[Any]] = (None, [])  # a learner, and its lanes

    def place(self, state: State) -> State:
        """The state where ticks want it: on the host, to be written into."""
        return jax.tree.map(lambda leaf: np.array(leaf), jax.device_get(state))

    def enter(self, state: State, obs: np.ndarray, fresh: np.ndarray, step: int) -> State:
        """Where `fresh`, an episode starts at `obs` and the next action is chosen there."""
        state = self.place(state)
        for lane in np.flatnonzero(fresh).tolist():
            state.gain[lane] = 0.0
            if self.normalise:
                _write(state.moments, lane, observe(_of(state.moments, lane), obs[lane]))
            self._act(state, lane, self._seen(state, lane, obs[lane]), int(step))
        return state

    def tick(self, state: State, seen: Seen, step: int) -> tuple[State, Reply]:
        """Keep what was seen after `step` steps, learn where a rollout is full, and act."""
        at, lanes = (step - 1) % self.horizon, range(len(state.seed))
        standing = [self._keep(state, lane, seen, at) for lane in lanes]
        losses = ()
        if at == self.horizon - 1:
            state, losses = self._learned(state, step)
        for lane in lanes:
            self._act(state, lane, standing[lane], step)
        return state, Reply(state.action.executed.copy(), _bad(seen, losses, state.action.executed))

    def report(self, state: State, step: int) -> dict[str, Array]:
        """Diagnostics of the last rollout that was learned from."""
        return state.told if step >= self.horizon else {}

    def nets(self, state: State) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        net = jax.device_get(self._greedy(state.learner))
        if self.normalise:
            met = {"mean": state.moments.mean.copy(), "deviation": deviation(state.moments)}
            net = {"input": met, **net}
        return net

    # One lane, on the host.

    def _keep(self, state: State, lane: int, seen: Seen, at: int) -> np.ndarray:
        """Store what the environment answered; the observation to act upon, as networks see it."""
        rollout, reward, ended = state.rollout, seen.reward[lane], seen.ended[lane]
        if self.normalise:
            _write(state.moments, lane, observe(_of(state.moments, lane), seen.obs[lane]))
            gain = state.gain[lane] * state.learner.hyper.gamma[lane] + reward
            gains = observe(_of(state.gains, lane), gain)
            _write(state.gains, lane, gains)
            state.gain[lane] = 0.0 if ended else gain
            reward = min(max(reward / deviation(gains), -LIMIT), LIMIT)
        standing = self._seen(state, lane, seen.obs[lane])
        rollout.reward[lane, at] = reward
        rollout.terminated[lane, at] = seen.terminated[lane]
        rollout.ended[lane, at] = ended
        rollout.next_obs[lane, at] = (
            self._seen(state, lane, seen.next_obs[lane]) if ended else standing
        )
        return standing

    def _act(self, state: State, lane: int, standing: np.ndarray, step: int) -> None:
        """Choose the action at `standing`, where `step` steps have been made."""
        at = step % self.horizon
        if self._drawn[0] != step - at:
            drawn = jax.device_get(self._draw_all(state.seed, step - at))
            lanes = range(len(state.seed))
            self._drawn = step - at, [_steps(drawn, i) for i in lanes]
        learner = self._lane(state.learner, lane)
        memory, nudge, bare = self.algorithm.act(learner, standing, self._drawn[1][lane][at])
        if memory is not learner.strategy:
            jax.tree.map(
                lambda whole, new: whole.__setitem__(lane, new), state.learner.strategy, memory
            )
        rollout = state.rollout
        rollout.obs[lane, at] = standing
        rollout.action[lane, at] = bare
        if nudge.context is not None:
            rollout.context[lane, at] = nudge.context
        state.action.bare[lane] = bare[0]
        (bare + nudge.shift).clip(-1.0, 1.0, out=state.action.executed[lane : lane + 1])

    def _seen(self, state: State, lane: int, obs: np.ndarray) -> np.ndarray:
        """(observation,) → (1, observation), as the networks see it."""
        if not self.normalise:
            return obs[None]
        moments = _of(state.moments, lane)
        return standardise(obs[None], moments.mean, deviation(moments))

    def _lane(self, learner: Any, lane: int) -> Any:
        """One lane of the learner: views, made once for as long as parameters stand still."""
        if self._split[0] is not learner:
            count = len(jax.tree.leaves(learner)[0])
            lanes = [jax.tree.map(lambda leaf, i=i: leaf[i], learner) for i in range(count)]
            self._split = learner, lanes
        return self._split[1][lane]

    def _learned(self, state: State, step: int) -> tuple[State, Any]:
        learner, losses, told = jax.device_get(
            self._learn_all(state.learner, state.rollout, state.seed, np.int32(step))
        )
        learner = jax.tree.map(np.array, learner)  # what comes from the device cannot be written to
        return state._replace(learner=learner, told=told), losses

    # One lane, on the device.

    def _init(self, seed: Array, hyper: Any, strategy_hyper: Any) -> State:
        learner = self.algorithm.init(streams(seed, 0)[Stream.INIT], hyper, strategy_hyper)
        size, steps = self.spec.observation_size, (self.horizon, 1)
        rollout = Rollout(
            obs=jnp.zeros((*steps, size)),
            context=jnp.zeros((*steps, self.strategy.context_size)),
            action=jnp.zeros((*steps, self.spec.action_size)),
            reward=jnp.zeros(steps),
            terminated=jnp.zeros(steps, bool),
            ended=jnp.zeros(steps, bool),
            next_obs=jnp.zeros((*steps, size)),
        )
        nothing, zero = jnp.zeros(self.spec.action_size), jnp.zeros(())
        told = jax.eval_shape(self._learn, learner, rollout, seed, zero)[2]
        return State(
            seed=seed,
            learner=learner,
            rollout=rollout,
            moments=no_moments(size),
            gains=Moments(zero, zero, zero, (zero, zero)),
            gain=zero,
            told=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), told),
            action=Action(nothing, nothing),
        )

    def _draw(self, seed: Array, step: Array) -> Any:
        keys = jax.random.split(streams(seed, step)[Stream.ACT], self.horizon)
        return jax.vmap(lambda key: self.algorithm.draw(key, 1))(keys)

    def _learn(self, learner: Any, rollout: Rollout, seed: Array, step: Array) -> Any:
        key, report_key = jax.random.split(streams(seed, step.astype(int))[Stream.LEARN])
        # The first rollout learns at full rates.
        progress = (step - self.horizon) / self.steps
        learner, losses = self.algorithm.learn(learner, rollout, key, progress)
        return learner, losses, self.algorithm.report(learner, rollout, report_key)


def _bad(seen: Seen, losses: Any, executed: np.ndarray) -> np.ndarray:
    """Per lane, the index into WATCHED of the first quantity that is not finite, or −1."""
    lanes = len(executed)
    if math.isfinite(seen.next_obs.sum() + seen.reward.sum() + executed.sum() + np.sum(losses)):
        return np.full(lanes, -1)
    fine = [np.ones(lanes, bool)] * 3 if len(losses) == 0 else [np.isfinite(x) for x in losses]
    watched = [np.isfinite(seen.next_obs).all(axis=-1), np.isfinite(seen.reward), *fine]
    finite = np.stack([*watched, np.isfinite(executed).all(axis=-1)])
    assert len(finite) == len(WATCHED)
    return np.where(finite.all(axis=0), -1, finite.argmin(axis=0))


def _steps(drawn: Any, lane: int) -> list[Any]:
    """A lane's random numbers, step by step: taking trees apart is slow, so all at once."""
    leaves, shape = jax.tree.flatten(drawn)
    return [shape.unflatten(parts) for parts in zip(*(leaf[lane] for leaf in leaves), strict=True)]


def _of(moments: Moments, lane: int) -> Moments:
    lost = moments.lost[0][lane], moments.lost[1][lane]
    return Moments(moments.seen[lane], moments.mean[lane], moments.variance[lane], lost)


def _write(moments: Moments, lane: int, new: Moments) -> None:
    moments.seen[lane], moments.mean[lane], moments.variance[lane], lost = new
    moments.lost[0][lane], moments.lost[1][lane] = lost
