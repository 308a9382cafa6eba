"""A roofline: what a machine reaches at most, and what an update of one lane asks of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hlo_traffic import traffic

from discover_rl.agents.off_policy.agent import OffPolicyAgent
from discover_rl.agents.off_policy.lane import AgentState
from discover_rl.agents.off_policy.step import Pending
from discover_rl.system.compilation import with_precision
from discover_rl.system.hardware import accelerated

WIDTH = 256
"""Rows and columns of the matrices whose products are timed."""
REPETITIONS = 5
"""How often each is timed; the median counts."""


def roofline(
    agent: OffPolicyAgent, state: AgentState, step: int, milliseconds: float
) -> dict[str, float]:
    """Set the time of learning beside the least that its memory traffic and arithmetic take.

    Args:
        agent: whose updates are meant.
        state: of all lanes, packed.
        step: the updates are those that follow it.
        milliseconds: what an update of all lanes takes.
    """
    lanes = len(state.seed)
    asked, reached = _asked(agent, state, step), _reached(agent.precision, lanes)
    least = {name: 1e3 * lanes * asked[name] / reached[name] for name in asked}
    return {
        "megabytes": asked["bytes"] / 1e6,
        "megaflop": asked["operations"] / 1e6,
        "copy_gb_per_second": reached["bytes"] / 1e9,
        "product_tflop_per_second": reached["operations"] / 1e12,
        "share_of_copy": least["bytes"] / milliseconds,
        "share_of_product": least["operations"] / milliseconds,
    }


def _asked(agent: OffPolicyAgent, state: AgentState, step: int) -> dict[str, float]:
    """What one lane's update moves and computes, the mean over a cycle of updates."""
    pending = Pending(state.action, agent.no_transition(len(state.seed), step))
    cycle, _ = agent.cycle_after(step)
    lowered = [agent._lower_learning(updates, state, pending) for updates in cycle]
    parts = len(cycle) * len(state.seed)
    return {
        "bytes": sum(traffic(program.compile().as_text()) for program in lowered) / parts,
        "operations": sum(program.cost_analysis()["flops"] for program in lowered) / parts,
    }


def _reached(precision: str, lanes: int) -> dict[str, float]:
    """What this machine does per second: bytes read and written by passing over a large array, and
    operations of as many products of matrices as there are lanes."""
    size = 2**28 if accelerated() else 2**24
    numbers = jnp.asarray(np.random.default_rng(0).random(size, np.float32))
    kind = jnp.bfloat16 if precision == "bf16" else jnp.float32
    factors = numbers[: lanes * WIDTH**2].reshape(-1, WIDTH, WIDTH).astype(kind)
    scaled = factors * (2 / WIDTH)  # so that products neither grow nor vanish
    product = with_precision(lambda pair: (pair[0] @ pair[1], pair[1]), precision)
    return {
        "bytes": 2 * numbers.nbytes / _seconds(jnp.negative, numbers),
        "operations": 2 * len(factors) * WIDTH**3 / _seconds(product, (factors, scaled)),
    }


def _seconds(once: Callable[[Any], Any], start: Any) -> float:
    """The time of each of many rounds of a function, in one program."""
    rounds = 20
    program = jax.jit(lambda x: jax.lax.fori_loop(0, rounds, lambda _, x: once(x), x))
    found, x = [], jax.block_until_ready(program(start))
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        x = jax.block_until_ready(program(x))
        found.append((time.perf_counter() - began) / rounds)
    return statistics.median(found)
