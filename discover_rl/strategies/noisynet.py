"""NoisyNet: weights of the last layer are random; how much is learned (Fortunato et al., 2018).

    layer:   y = (μ + σ ε) x,  weights and biases alike;  μ the network's own, σ learned with it
    act:     ε anew at every step, or for every episode
    target:  ε anew for the batch, with the target actor's μ and σ
    learn:   the actor's loss at ε anew for the batch, by whose gradient σ moves as μ does
    evaluate: ε = 0

Noise is independent for every weight, or factorised: f(eᵢ) f(eⱼ) with f(e) = sign(e) √|e|.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.hyper import hyper, setting
from discover_rl.types import Actor, Array, Blueprint, Net, Nudge, Role, Spec, Strategy, View

PARTS = ("weight", "bias")


@hyper
class Hyper:
    sigma: float = setting(
        0.017, "Where σ starts; factorised: divided by the root of a layer's inputs.", low=0
    )
    layers: str = setting("last", "Which layers are noisy.", choices=("last", "all"))
    noise: str = setting(
        "independent",
        "Noise of each weight, or of inputs and outputs.",
        choices=("independent", "factorised"),
    )
    lasts: str = setting(
        "step", "How long noise is kept while acting.", choices=("step", "episode")
    )


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    del spec
    settings = hp  # of which only the statics are used: the floats come in with `joint`
    whole = jax.eval_shape(lambda key: blueprint.init(key, blueprint.outputs), random.key(0))
    names = ["head"] if settings.layers == "last" else sorted(whole)
    sizes = {name: whole[name]["weight"].shape for name in names}

    def joint(key: Any, hp: Hyper, net: Net) -> dict[str, dict[str, Array]]:
        """σ, of the shape of what it perturbs."""
        del key
        scale = {n: sizes[n][0] ** -0.5 if settings.noise == "factorised" else 1.0 for n in names}
        return {
            n: {part: jnp.full(net[n][part].shape, hp.sigma * scale[n]) for part in PARTS}
            for n in names
        }

    def draw(key: Any) -> dict[str, dict[str, Array]]:
        """ε. One call of the generator for all of it: each takes long to compile."""
        if settings.noise == "factorised":
            numbers = random.normal(key, (sum(i + o for i, o in sizes.values()),))
            numbers = jnp.sign(numbers) * jnp.sqrt(jnp.abs(numbers))
        else:
            numbers = random.normal(key, (sum((i + 1) * o for i, o in sizes.values()),))
        drawn, done = {}, 0
        for name, (inputs, outputs) in sizes.items():
            if settings.noise == "factorised":
                ends = done + outputs, done + outputs + inputs
                bias, own = numbers[done : ends[0]], numbers[ends[0] : ends[1]]
                drawn[name] = {"weight": own[:, None] * bias[None], "bias": bias}
                done = ends[1]
            else:
                block = numbers[done : done + (inputs + 1) * outputs].reshape(inputs + 1, outputs)
                drawn[name] = {"weight": block[1:], "bias": block[0]}
                done += (inputs + 1) * outputs
        return drawn

    def perturbed(params: Actor, noise: Any) -> Nudge:
        net, sigma = params["net"], params["joint"]
        moved = {
            name: {
                **net[name],
                **{p: net[name][p] + sigma[name][p] * noise[name][p] for p in PARTS},
            }
            for name in names
        }
        return Nudge({**net, **moved})

    def begin(state: Any, view: View, key: Any) -> Any:
        del state, view
        return draw(key) if settings.lasts == "episode" else ()

    def behave(
        state: Any, memory: Any, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Any, Nudge]:
        del state, obs, warmup
        return memory, perturbed(view.params, memory if settings.lasts == "episode" else noise)

    def expect(state: Any, view: View, obs: Array, key: Any, role: Role) -> Nudge:
        del state, obs, role
        return perturbed(view.params, draw(key))

    def report(state: Any, view: View, batch: Any) -> dict[str, Array]:
        del state, batch
        sigma = [jnp.abs(leaf).ravel() for leaf in jax.tree.leaves(view.params["joint"])]
        return {"sigma": jnp.concatenate(sigma).mean()}

    return Strategy(
        joint=joint,
        begin=begin,
        draw=(lambda key: ()) if settings.lasts == "episode" else draw,
        behave=behave,
        expect=expect,
        report=report,
    )
