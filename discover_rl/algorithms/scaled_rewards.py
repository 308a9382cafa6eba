"""Scale rewards by the standard deviation of the discounted return so far, off-policy.

    act:     G ← γ G + r, which its running statistics count;  G ← 0 where an episode ends
    learn:   r ← clip(r / deviation of all G so far, ±10)

The replay buffer stores rewards as the task pays them. A batch is scaled when it is learned from,
by the newest statistics. So old and new transitions are in the same unit. A strategy's bonus is
added to scaled rewards, as it is on-policy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.algorithms.off_policy_parts import State
from discover_rl.core.normalization import LIMIT, deviation, no_moments, observe
from discover_rl.core.types import Action, Array, Batch, Key, Losses, Transition, Update


class Memory(NamedTuple):
    """The memory of the running episode."""

    strategy: Any  # the strategy's own
    discounted: Array  # () the discounted return so far


def scaled(batch: Batch, state: State) -> Batch:
    """Divide a batch's rewards by the deviation of the discounted return and clip them to ±10."""
    reward = jnp.clip(batch.reward / deviation(state.returns), -LIMIT, LIMIT)
    return batch._replace(reward=reward)


def scale(algorithm: OffPolicyAlgorithm) -> OffPolicyAlgorithm:
    """Return the algorithm with rewards scaled; `State.returns` holds the statistics of returns."""

    def init(key: Key, hyper: Any, strategy_hyper: Any) -> State:
        return algorithm.init(key, hyper, strategy_hyper)._replace(returns=no_moments(()))

    def begin(state: State, key: Key) -> Memory:
        return Memory(algorithm.begin(state, key), jnp.zeros(()))

    def act(
        state: State, memory: Memory, obs: Array, noise: Any, step: Any, progress: Any = 0.0
    ) -> tuple[State, Memory, Action]:
        state, own, action = algorithm.act(state, memory.strategy, obs, noise, step, progress)
        return state, memory._replace(strategy=own), action

    def on_reward(state: State, memory: Memory, reward: Any) -> tuple[State, Memory]:
        discounted = memory.discounted * state.hyper.gamma + reward
        state = state._replace(returns=observe(state.returns, discounted))
        return state, memory._replace(discounted=discounted)

    def on_transition(state: State, memory: Memory, transition: Transition) -> State:
        assert algorithm.on_transition is not None
        return algorithm.on_transition(state, memory.strategy, transition)

    def learn(
        state: State, batch: Batch, key: Key, update: Update, progress: Any
    ) -> tuple[State, Losses]:
        return algorithm.learn(state, scaled(batch, state), key, update, progress)

    def report(state: State, batch: Batch, key: Key, progress: Any = 0.0) -> dict[str, Array]:
        return algorithm.report(state, scaled(batch, state), key, progress)

    def measure(
        state: State, batch: Batch, recent: Batch, key: Key, progress: Any = 0.0
    ) -> dict[str, Array]:
        return algorithm.measure(state, scaled(batch, state), recent, key, progress)

    def errors(state: State, batch: Batch, key: Key, progress: Any = 0.0) -> Array:
        return algorithm.errors(state, scaled(batch, state), key, progress)

    return algorithm._replace(
        init=init,
        begin=begin,
        act=act,
        learn=learn,
        report=report,
        measure=measure,
        errors=errors,
        on_reward=on_reward,
        on_transition=on_transition if algorithm.on_transition else None,
        act_changes_state=True,
    )
