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

from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Array, Batch, Key, Net, Nudge, Spec, UserError
from discover_rl.strategies.interface import (
    Acting,
    Blueprint,
    Density,
    Learning,
    NetworkSpec,
    Strategy,
    View,
)


@hyper
class Hyper:
    """Hyper-parameters of adaptive parameter noise."""

    sigma: float = setting(0.017, "Where σ starts; off-policy, 0.034 by preset.", low=0, high=100)
    threshold: float = setting(
        0.1, "δ: the distance of actions to keep, in half-ranges.", low=0, high=10**9
    )
    factor: float = setting(
        1.01, "κ: by how much σ changes at a time; 1: not at all.", low=1, high=100
    )
    interval: int = setting(50, "Updates between two changes of σ.", low=1, high=10**9)
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
    """What a run learns."""

    hyper: Hyper
    sigma: Array  # ()


class Memory(NamedTuple):
    """The key and σ from which an episode's noise can be drawn again."""

    key: Key  # (2,)
    sigma: Array  # () when it began


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Parameter noise for the actor of this blueprint; σ, δ and κ come with the state."""
    del spec
    on_policy = blueprint.on_policy  # then learning needs the noise of acting again
    if settings.lasts == "rollout" and not on_policy:
        raise UserError("strategy.lasts=rollout is for on-policy algorithms.")
    shapes = jax.eval_shape(lambda key: blueprint.init(key, blueprint.outputs), random.key(0))

    def recall(memory: Memory) -> Net:
        """σ ε of weights and biases; parameters of layer normalisation have no noise."""
        drawn = networks.noise(random.wrap_key_data(memory.key), shapes)
        return jax.tree.map(lambda leaf: memory.sigma * leaf, drawn)

    def init(key: Key, hyper: Hyper, view: View) -> State:
        del key, view
        return State(hyper, jnp.asarray(hyper.sigma, float))

    def begin(state: State, view: View, key: Key) -> Memory | Net:
        memory = Memory(random.key_data(key), state.sigma)
        return memory if on_policy else networks.moved(view.net, recall(memory))

    def behave(
        state: State, memory: Net, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Net, Nudge]:
        del state, obs, noise, warmup
        return memory, Nudge(networks.moved(view.net, memory) if on_policy else memory)

    def distance(state: State, view: View, obs: Array, key: Key) -> Array:
        net = view.net
        other = networks.moved(net, recall(Memory(random.key_data(key), state.sigma)))
        square = ((view.policy(Nudge(net), obs) - view.policy(Nudge(other), obs)) ** 2).mean()
        return jnp.sqrt(square) if settings.measure == "rms" else square

    def step(state: State, view: View, batch: Batch, key: Key) -> tuple[State, Array]:
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
        acting=Acting(
            begin=begin,
            behave=behave,
            resample_on=("episode", "rollout") if settings.lasts == "rollout" else ("episode",),
        ),
        learning=Learning(
            step=step, cadence="rollout" if on_policy else "critic", every=settings.interval
        ),
        density=Density(recall=recall if on_policy else None),
        network=NetworkSpec(layer_norm=settings.layer_norm),
        report=report,
    )
