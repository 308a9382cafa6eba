"""Random network distillation: a bonus for states that a network has not learned to predict.

Burda, Edwards, Storkey & Klimov (2019), *Exploration by Random Network Distillation*:

    f       a random network that stays as it is
    f̂       a network that learns to be like it, on the states that are learned from
    x       = clip((s′ − mean) / deviation, −5, 5), by running statistics of s′
    b(s′)   = mean over outputs of (f̂(x) − f(x))²                              distillation.py
    reward: r + w b(s′) / σ_b, σ_b the standard deviation of all b so far

f̂ is good where it has been trained often, so b is large where the agent has seldom been. Actions,
critics and policy are the algorithm's own; evaluation knows nothing of the bonus.

At every update, `learning.step` descends the batch's mean b in f̂'s parameters, then adds the
batch's s′ and b to the statistics. So bonus and loss of an update are the same b, and the first
update, which has no statistics yet, has no bonus.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.normalization import Moments, no_moments, observe_batch
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Spec
from discover_rl.strategies import distillation
from discover_rl.strategies.distillation import Distillation
from discover_rl.strategies.interface import Blueprint, Learning, Strategy, View

TINY = 1e-8
"""Added to σ_b, so that a bonus which is the same everywhere can be divided by it."""


@hyper
class Hyper:
    """Hyper-parameters of random network distillation."""

    weight: Amplitude = setting(
        1.0, "w: of the bonus, whose deviation is 1, in the reward.", low=0, high=1_000_000
    )
    outputs: int = setting(
        64, "Outputs of the random network and of its predictor.", low=1, high=10_000
    )


class State(NamedTuple):
    """What a run learns."""

    hyper: Hyper
    novelty: Distillation  # f, f̂ and the statistics of s′
    errors: Moments  # of b, (1,)


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """The bonus on tasks with these spaces; w comes with the state, one value per lane."""

    def init(key: Key, hyper: Hyper, view: View) -> State:
        sizes = spec.observation_size, blueprint.hidden, settings.outputs
        return State(hyper, distillation.init(key, *sizes, view.optimiser), no_moments(1))

    def scale(state: State) -> Array:
        """σ_b, or infinity before there are statistics: ()."""
        spread = jnp.sqrt(state.errors.variance[0]) + TINY
        return jnp.where(state.errors.samples > 0, spread, jnp.inf)

    def bonus(state: State, view: View, batch: Any) -> Array:
        weight = state.hyper.weight.at(view.progress)
        return weight * distillation.errors(state.novelty, batch.next_obs) / scale(state)

    def step(state: State, view: View, batch: Any, key: Key) -> tuple[State, Array]:
        del key
        novelty, each = distillation.fit(state.novelty, batch.next_obs, view.optimiser)
        errors = observe_batch(state.errors, each[:, None])
        return state._replace(novelty=novelty, errors=errors), each.mean()

    def report(state: State, view: View, batch: Any) -> dict[str, Array]:
        each = bonus(state, view, batch)
        return {
            "bonus": each.mean(),
            "bonus_spread": each.std(),
            "prediction_error": distillation.errors(state.novelty, batch.next_obs).mean(),
            "prediction_error_scale": jnp.sqrt(state.errors.variance[0]),
        }

    return Strategy(
        init=init,
        learning=Learning(step=step, cadence="critic"),
        bonus=bonus,
        report=report,
    )
