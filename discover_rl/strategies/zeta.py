"""Repeated noise: ε is held for n steps, P(n) ∝ n^−μ for n = 1, …, limit.

    act:               if a stretch has ended, draw ε ~ N(0, I) and its length n; else ε as before
    DDPG and TD3:      ã = clip(π(s) + σ ε), but for warm-up
    SAC, A2C and PPO:  ε in place of the policy's own standard normal numbers

Lengths of this kind are from εz-greedy (Dabney et al., 2021), which repeats random actions; with a
limit and normal numbers it is the noise of continuous control. μ = 2 makes short stretches frequent
and leaves some long ones. At every step ε is standard normal, so densities, entropies and
temperatures stay the algorithm's own. A stretch ends with its episode.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import random

from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Nudge, Spec
from discover_rl.strategies.interface import Acting, Blueprint, Strategy, View


@hyper
class Hyper:
    """Hyper-parameters of repeated noise."""

    mu: float = setting(
        2.0, "μ: how rare long stretches are; 0: all lengths alike.", low=0, high=100
    )
    limit: int = setting(16, "Steps for which noise is held at most.", low=1, high=100_000)
    sigma: Amplitude = setting(
        0.3,
        "σ: its size where the policy has no noise of its own, in half-ranges.",
        low=0,
        high=100,
        unless="samples",
    )


class State(NamedTuple):
    """What a run has; nothing is learned."""

    hyper: Hyper
    shorter: Array  # (limit − 1,) the probability that a stretch has 1, 2, … steps at most


class Memory(NamedTuple):
    """What the strategy remembers of a running episode."""

    noise: Array  # (1, action) ε
    left: Array  # (1, 1) steps for which it is held yet


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Repeated noise for policies of this blueprint; μ and σ come with the state."""
    lengths = np.arange(1, settings.limit + 1, dtype=np.float32)

    def init(key: Key, hyper: Hyper, view: View) -> State:
        del key, view
        weight = lengths ** (-hyper.mu)
        return State(hyper, (jnp.cumsum(weight) / weight.sum())[:-1])

    def draw(key: Key) -> tuple[Array, Array]:
        noise, length = random.split(key)
        return random.normal(noise, (1, spec.action_size)), random.uniform(length, (1, 1))

    def begin(state: State, view: View, key: Key) -> Memory:
        del state, view, key
        return Memory(jnp.zeros((1, spec.action_size)), jnp.zeros((1, 1), jnp.int32))

    def behave(
        state: State, memory: Memory, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Memory, Nudge]:
        del obs
        memory = following(state, memory, *noise)
        if blueprint.samples:
            return memory, Nudge(view.net, noise=memory.noise)
        sigma = state.hyper.sigma.at(view.progress)
        return memory, Nudge(view.net, shift=sigma * memory.noise * (1 - warmup))

    def following(state: State, memory: Memory, fresh: Array, uniform: Array) -> Memory:
        """The memory during the next step, with other noise where a stretch has ended."""
        if isinstance(memory.left, np.ndarray):
            # On the host calls cost: where all environments hold, or all draw, nothing is chosen.
            left = memory.left.ravel().tolist()
            if 0 not in left:
                return Memory(memory.noise, memory.left - 1)
            if not any(left):
                return Memory(fresh, more(state, uniform))
        xp, ended = networks.namespace(memory.noise), memory.left == 0
        noise = xp.where(ended, fresh, memory.noise)
        return Memory(noise, xp.where(ended, more(state, uniform), memory.left - 1))

    def more(state: State, uniform: Array) -> Array:
        """Steps of a new stretch after its first: (…, 1, 1)."""
        exceeded = uniform > state.shorter[..., None, :]
        return exceeded.sum(axis=-1, keepdims=True, dtype=np.int32)

    def report(state: State, view: View, batch: Any) -> dict[str, Array]:
        del batch
        return {} if blueprint.samples else {"sigma": state.hyper.sigma.at(view.progress)}

    return Strategy(
        init=init,
        acting=Acting(begin=begin, draw=draw, behave=behave),
        report=report,
        inherit=lambda fresh, old: fresh,  # the table follows from the hyper-parameters
    )
