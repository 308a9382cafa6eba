"""Adaptive noise on the actor's parameters (Plappert et al., 2018).

    episode: θ̃ = θ + σ ε, ε ~ N(0, I)
    adapt:   every so many updates, with a new ε and the present θ, on states to learn from
             d = √ mean (π(s; θ) − π(s; θ + σ ε))²;  σ ← κ σ if d ≤ δ, else σ / κ
    evaluate: θ

Off-policy, θ̃ is a copy that acts until the episode ends; targets and the actor's loss have θ.
On-policy, ε and σ are kept for the episode and θ is the present one: log π(a|s; θ + σ ε) when
acting and when learning alike, with ε drawn again from its key. The value is never perturbed.

Hidden layers are normalised before their nonlinearity, so that one σ fits all of them; what
normalises them is not perturbed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl import networks
from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Blueprint, Strategy, View
from discover_rl.types import Array, Batch, Net, Nudge, Spec, UserError


@hyper
class Hyper:
    sigma: float = setting(0.017, "Where σ starts; off-policy, 0.034 by preset.", low=0)
    threshold: float = setting(0.1, "δ: the distance of actions to keep, in half-ranges.", low=0)
    factor: float = setting(1.01, "κ: by how much σ changes at a time; 1: not at all.", low=1)
    interval: int = setting(50, "Updates between two changes of σ.", low=1)
    lasts: str = setting(
        "episode",
        "How long noise is kept; rollout: on-policy, no longer than a rollout.",
        choices=("episode", "rollout"),
    )
    measure: str = setting(
        "rms", "Distance: root of the mean square, or the mean square.", choices=("rms", "mse")
    )
    layer_norm: bool = setting(True, "Normalise the actor's hidden layers.")


class State(NamedTuple):
    hyper: Hyper
    sigma: Array  # ()


class Memory(NamedTuple):
    """What an episode's noise can be had again from."""

    key: Any  # (2,)
    sigma: Array  # () when it began


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    del spec
    settings = hp  # of which only the statics are used: the floats come in with the state
    again = blueprint.on_policy  # what was done has to be had again when learning
    if settings.lasts == "rollout" and not again:
        raise UserError("strategy.lasts=rollout is for algorithms that learn from rollouts.")
    shapes = jax.eval_shape(lambda key: blueprint.init(key, blueprint.outputs), random.key(0))

    def recall(memory: Memory) -> Net:
        """σ ε, for weights and biases; what normalises layers has none."""
        drawn = networks.noise(random.wrap_key_data(memory.key), shapes)
        return jax.tree.map(lambda leaf: memory.sigma * leaf, drawn)

    def init(key: Any, hp: Hyper, view: View) -> State:
        del key, view
        return State(hp, jnp.asarray(hp.sigma, float))

    def begin(state: State, view: View, key: Any) -> Memory | Net:
        memory = Memory(random.key_data(key), state.sigma)
        return memory if again else networks.moved(view.params["net"], recall(memory))

    def behave(
        state: State, memory: Net, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Net, Nudge]:
        del state, obs, noise, warmup
        return memory, Nudge(networks.moved(view.params["net"], memory) if again else memory)

    def distance(state: State, view: View, obs: Array, key: Any) -> Array:
        net = view.params["net"]
        other = networks.moved(net, recall(Memory(random.key_data(key), state.sigma)))
        square = ((view.policy(Nudge(net), obs) - view.policy(Nudge(other), obs)) ** 2).mean()
        return jnp.sqrt(square) if settings.measure == "rms" else square

    def learn(state: State, view: View, batch: Batch, key: Any) -> tuple[State, Array]:
        d, factor = distance(state, view, batch.obs, key), state.hyper.factor
        near = d <= state.hyper.threshold
        return state._replace(sigma=state.sigma * jnp.where(near, factor, 1.0 / factor)), d

    def report(state: State, view: View, batch: Batch) -> dict[str, Array]:
        return {
            "sigma": state.sigma,
            "distance": distance(state, view, batch.obs, random.key(0)),
        }

    return Strategy(
        init=init,
        begin=begin,
        behave=behave,
        learn=learn,
        report=report,
        renews=("episode", "rollout") if settings.lasts == "rollout" else ("episode",),
        recall=recall if again else None,
        cadence="rollout" if again else "critic",
        every=settings.interval,
        layer_norm=settings.layer_norm,
    )
