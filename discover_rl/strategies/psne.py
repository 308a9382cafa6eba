"""Adaptive noise on the actor's parameters (Plappert et al., 2018).

    episode: θ̃ = θ + σ ε, ε ~ N(0, I): a copy that acts until the episode ends
    adapt:   every so many updates, with a new ε and the present θ, on the batch's states
             d = √ mean (π(s; θ) − π(s; θ + σ ε))²;  σ ← κ σ if d ≤ δ, else σ / κ
    targets, actor's loss, evaluation: θ

Hidden layers are normalised before their nonlinearity, so that one σ fits all of them; what
normalises them is not perturbed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import random

from discover_rl.hyper import hyper, setting
from discover_rl.types import Array, Batch, Blueprint, Net, Nudge, Spec, Strategy, View

PARTS = ("weight", "bias")


@hyper
class Hyper:
    sigma: float = setting(0.017, "Where σ starts.", low=0)
    threshold: float = setting(0.1, "δ: the distance of actions to keep, in half-ranges.", low=0)
    factor: float = setting(1.01, "κ: by how much σ changes at a time.", above=0)
    interval: int = setting(50, "Updates between two changes of σ.", low=1)
    measure: str = setting(
        "rms", "Distance: root of the mean square, or the mean square.", choices=("rms", "mse")
    )
    layer_norm: bool = setting(True, "Normalise the actor's hidden layers.")


class State(NamedTuple):
    hyper: Hyper
    sigma: Array  # ()


def perturbed(net: Net, sigma: Any, key: Any) -> Net:
    """A copy whose weights and biases have moved. One call of the generator for all of them."""
    names = [name for name in net if name == "head" or name.startswith("layer")]
    parts = [(name, part) for name in names for part in PARTS]
    ends = [0]
    for name, part in parts:
        ends.append(ends[-1] + net[name][part].size)
    noise = sigma * random.normal(key, (ends[-1],))
    copy = {name: dict(layer) for name, layer in net.items()}
    for (name, part), start, end in zip(parts, ends, ends[1:], strict=False):
        copy[name][part] = net[name][part] + noise[start:end].reshape(net[name][part].shape)
    return copy


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    del spec, blueprint
    settings = hp  # of which only the statics are used: the floats come in with the state

    def init(key: Any, hp: Hyper, view: View) -> State:
        del key, view
        return State(hp, jnp.asarray(hp.sigma, float))

    def begin(state: State, view: View, key: Any) -> Net:
        return perturbed(view.params["net"], state.sigma, key)

    def behave(
        state: State, memory: Net, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Net, Nudge]:
        del state, view, obs, noise, warmup
        return memory, Nudge(memory)

    def distance(state: State, view: View, obs: Array, key: Any) -> Array:
        net = view.params["net"]
        other = view.policy(Nudge(perturbed(net, state.sigma, key)), obs)
        square = ((view.policy(Nudge(net), obs) - other) ** 2).mean()
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
        cadence="critic",
        every=settings.interval,
        layer_norm=settings.layer_norm,
    )
